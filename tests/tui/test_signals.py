"""However the program is ended, the terminal is as it was, and the session is closed in order."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sinkchat.chat.reading import read_journal
from sinkchat.chat.records import Closed, TokenSaid

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from pathlib import Path
from sinkchat.chat.journal import Journal
from sinkchat.chat.session import ChatSession
from sinkchat.settings import Settings
from sinkchat.tui.app import SinkchatApp
from tests.fakes import FakeEngine, FakeTemplate

def open_session(_progress):
    engine = FakeEngine(reply="word " * 10_000, token_delay=0.01)
    return ChatSession(engine, FakeTemplate(), Journal.create(Path(sys.argv[1])), max_reply_tokens=0)

app = SinkchatApp(open_session, Settings())
app.run()
sys.exit(app.return_code or 0)
"""


class Chat:
    """The screen on a terminal that the test holds the other end of."""

    def __init__(self, folder: Path, ignored: str = "") -> None:
        self.folder, self.shown = folder, b""
        self.master, slave = pty.openpty()
        begin = f"trap '' {ignored}; exec" if ignored else "exec"
        self.process = subprocess.Popen(
            ["sh", "-c", f'{begin} "$@"', "sh", sys.executable, "-c", PROGRAM, str(folder / "sessions")],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"},
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
    while chat.read():
        pass
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
