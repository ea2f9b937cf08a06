"""However the program is ended, the terminal is as it was, and the session is closed in order."""

from __future__ import annotations

import errno
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from sinkchat.chat.reading import read_journal
from sinkchat.chat.records import Closed, TokenSaid

ROOT = Path(__file__).parents[2]

PROGRAM = """
import signal
import sys
from pathlib import Path
from sinkchat.chat.journal import Journal
from sinkchat.chat.session import ChatSession
from sinkchat.settings import Settings
from sinkchat.tui.app import SinkchatApp
from tests.fakes import FakeEngine, FakeTemplate

def open_session(_progress):
    engine = FakeEngine(reply="word " * 10_000, token_delay=0.01)
    if "full" in sys.argv:
        from tests.tui.test_signals import fill_the_disk
        fill_the_disk()
    return ChatSession(engine, FakeTemplate(), Journal.create(Path(sys.argv[1])), max_reply_tokens=0)

if "heeded" in sys.argv:
    # whoever runs the tests may ignore it (nohup does), and that is handed down
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
app = SinkchatApp(open_session, Settings())
app.run()
sys.exit(app.return_code or 0)
"""


def fill_the_disk() -> None:
    """From the tenth write on, the journal finds no room."""
    tempfile.gettempdir()  # it tries the folder by a write of its own
    write, room = os.write, iter(range(10))

    def full(descriptor: int, content: bytes) -> int:
        if next(room, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, content)

    os.write = full


class Chat:
    """The screen on a terminal that the test holds the other end of."""

    def __init__(self, folder: Path, ignored: str = "", *, full: bool = False) -> None:
        self.folder, self.shown = folder, b""
        self.master, slave = pty.openpty()
        flags = ["full" if full else "", "" if ignored else "heeded"]
        command = [sys.executable, "-c", PROGRAM, str(folder / "sessions"), *flags]
        begin = f"trap '' {ignored}; exec" if ignored else "exec"
        self.process = subprocess.Popen(
            ["sh", "-c", f'{begin} "$@"', "sh", *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "TMPDIR": str(folder)},
            start_new_session=True,
        )
        os.close(slave)

    def until(self, mark: bytes) -> None:
        end = time.monotonic() + 30
        while mark not in self.shown:
            assert time.monotonic() < end, self.shown[-2000:]
            self.read()

    def read(self) -> bool:
        """False at the end of the terminal."""
        if not select.select([self.master], [], [], 0.1)[0]:
            return True
        try:
            self.shown += (piece := os.read(self.master, 65536))
        except OSError:  # the program has ended
            return False
        return bool(piece)

    def write_until_a_reply(self) -> None:
        self.until(b"idle")
        os.write(self.master, b"hello\r")
        self.until(b"word word")


@pytest.fixture
def chat(folders: Path) -> Chat:
    return Chat(folders)


def check_journal(chat: Chat) -> None:
    (path,) = (chat.folder / "sessions").iterdir()
    reading = read_journal(path)
    assert not reading.damage
    assert not reading.torn
    assert any(isinstance(entry.record, TokenSaid) for entry in reading.entries)
    assert isinstance(reading.entries[-1].record, Closed)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_leaves_the_terminal_and_the_session_whole(chat: Chat, name: str) -> None:
    chat.write_until_a_reply()
    chat.process.send_signal(getattr(signal, name))
    end = time.monotonic() + 30
    while chat.read():
        assert time.monotonic() < end, "it did not end"
    assert chat.process.wait(10) == 128 + getattr(signal, name)
    for left in (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1003l", b"\x1b[?2004l"):
        assert left in chat.shown
    after = chat.shown[chat.shown.rindex(b"\x1b[?1049l") :]
    assert b"error" not in after
    assert b"Traceback" not in after
    check_journal(chat)


@pytest.mark.parametrize("ignored", ["", "HUP"])
def test_a_terminal_that_is_closed_ends_the_program(folders: Path, ignored: str) -> None:
    chat = Chat(folders, ignored)
    chat.write_until_a_reply()
    os.close(chat.master)
    assert chat.process.wait(10) == 128 + signal.SIGHUP
    check_journal(chat)


@pytest.mark.parametrize("way", ["quit", "signal"])
def test_what_a_full_disk_did_not_take_is_kept_elsewhere_and_told(folders: Path, way: str) -> None:
    chat = Chat(folders, full=True)
    chat.write_until_a_reply()
    if way == "quit":
        os.write(chat.master, b"/quit\r")
    else:
        chat.process.send_signal(signal.SIGTERM)
    while chat.read():
        pass
    assert chat.process.wait(10) == (1 if way == "quit" else 128 + signal.SIGTERM)
    after = chat.shown[chat.shown.rindex(b"\x1b[?1049l") :]
    assert b"disk is full" in after
    assert b"Traceback" not in after
    (kept,) = folders.glob("*.jsonl")
    reading = read_journal(kept)
    assert not reading.damage
    assert any(isinstance(entry.record, TokenSaid) for entry in reading.entries)
    assert isinstance(reading.entries[-1].record, Closed)
