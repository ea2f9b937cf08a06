"""What is set at a terminal for the sake of Esc is set back, however the program is left; in a shell that sees to
nothing itself."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal.tmux import Terminal

pytestmark = pytest.mark.terminal

PROGRAM = """
import os, pathlib, time
from sinkchat.cli.escape_key import EscapeKey
from sinkchat.cli.terminal import ProgressLine

pathlib.Path(__file__).with_name("pid").write_text(str(os.getpid()))
line = ProgressLine()
with EscapeKey() as key:
    for tick in range(3000):
        line.write(str(tick), f"tick {tick}")
        time.sleep(0.02)
        if key.pressed():
            break
line.clear()
print("ended", flush=True)
"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / "program.py").write_text(PROGRAM)
    terminal = Terminal(tmp_path, [shutil.which("dash") or "sh", "-i"], columns=100, rows=40)
    yield terminal
    terminal.close()


def start(shell: Terminal, tmp_path: Path, more: str = "") -> None:
    shell.say(f"PS1='; '; {shlex.join([sys.executable, str(tmp_path / 'program.py')])} {more}")


def settings(shell: Terminal) -> str:
    shell.wait(r"(?m)^; *$")  # what is typed before belongs to the program
    shell.say("clear; stty -a | grep -c -e '-icanon' -e '-echo '; echo 'as ''told'")
    screen = shell.wait("as told")
    return "raw" if "0" not in screen.split() else "sane"


@pytest.mark.parametrize("keys", ["C-z", "C-\\", "C-c", "Escape"])
def test_a_key_that_leaves_it_sets_the_terminal_back(shell: Terminal, tmp_path: Path, keys: str) -> None:
    start(shell, tmp_path)
    shell.wait("tick [1-9]")
    shell.press(keys)
    assert settings(shell) == "sane"


def test_a_hangup_sets_the_terminal_back(shell: Terminal, tmp_path: Path) -> None:
    shell.say(f"(sleep 3; kill -HUP $(cat {tmp_path / 'pid'})) &")
    start(shell, tmp_path)
    shell.wait("(?i)hangup")
    assert settings(shell) == "sane"


def test_it_goes_on_in_the_background_without_a_word_and_comes_back(shell: Terminal, tmp_path: Path) -> None:
    start(shell, tmp_path)
    shell.wait("tick [1-9]")
    shell.press("C-z")
    shell.say("bg")
    shell.say("clear; jobs; echo 'as ''told'")
    assert "unning" in shell.wait("as told")
    assert settings(shell) == "sane"
    assert "tick" not in shell.screen()
    shell.say("fg")
    shell.wait("tick [1-9]")
    shell.press("Escape")
    shell.wait("ended")
    assert settings(shell) == "sane"
