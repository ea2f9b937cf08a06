"""The first picture comes before the model's libraries, and the terminal stays ours."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sinkchat.tui.terminal import guarded

FIRST_PAINT = """
import asyncio, sys, threading
from sinkchat.settings import Settings
from sinkchat.tui.app import SinkchatApp

stay = threading.Event()

def open_session(progress):
    stay.wait(20)
    raise SystemExit

async def main():
    app = SinkchatApp(open_session, Settings())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause(0.05)
        shown = "".join(strip.text for strip in app.screen._compositor.render_strips())
        assert "sinkchat" in shown, shown
        heavy = [name for name in ("torch", "transformers", "numpy", "huggingface_hub") if name in sys.modules]
        assert not heavy, heavy
    stay.set()

asyncio.run(main())
"""


def test_the_first_picture_needs_no_model_library(tmp_path: Path) -> None:
    environment = os.environ | {"SINKCHAT_STATE_DIR": str(tmp_path), "SINKCHAT_CONFIG_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_PAINT], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


NOISY = """
import os, sys
from pathlib import Path
from sinkchat.tui.terminal import guarded

print("before", flush=True)
with guarded(Path(sys.argv[1])) as terminal:
    os.write(1, b"native on one\\n")
    os.write(2, b"native on two\\n")
    print("drawn", file=sys.__stderr__, flush=True)
    print(os.get_terminal_size(sys.__stdout__.fileno()) is not None, file=terminal, flush=True)
print("after", flush=True)
"""


def test_what_native_libraries_print_goes_to_the_log_and_not_through_the_screen(tmp_path: Path) -> None:
    log = tmp_path / "state" / "sinkchat.log"
    shown = _in_a_terminal([sys.executable, "-c", NOISY, str(log)])
    assert shown.split() == ["before", "drawn", "True", "after"]
    assert log.read_text() == "native on one\nnative on two\n"


def test_without_a_terminal_nothing_is_guarded(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with guarded(tmp_path / "log") as terminal:
        os.write(2, b"seen")
    assert terminal is None
    assert capfd.readouterr().err == "seen"


def _in_a_terminal(command: list[str]) -> str:
    master, slave = pty.openpty()
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    shown = b""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if select.select([master], [], [], 0.1)[0]:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
    process.wait(10)
    os.close(master)
    return shown.decode()
