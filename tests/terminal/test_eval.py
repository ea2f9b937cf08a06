"""`sinkchat eval` in a real terminal: its progress, and how it is ended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal.tmux import Terminal, sinkchat

pytestmark = [pytest.mark.terminal, pytest.mark.real_model]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    command = sinkchat(
        "eval", "--quant", "none", "--window", "64", "--tokens", "16000", "--json", str(tmp_path / "out.json")
    )
    terminal = Terminal(tmp_path, command, columns=100, rows=50)
    yield terminal
    terminal.close()


@pytest.mark.parametrize("key", ["Escape", "C-c"])
def test_a_key_ends_it_and_what_was_done_is_told(terminal: Terminal, tmp_path: Path, key: str) -> None:
    terminal.wait(r"1 of 3: full: [\d,]{3,} of 16,000 tokens")
    terminal.press("Up")  # is no Esc, though it begins like one
    shown = terminal.wait(r"1 of 3: full: .*, \d+ (s|min) left")
    before = int(re.search(r"full: ([\d,]+) of", shown)[1].replace(",", ""))
    terminal.wait(lambda screen: re.search(rf"full: (?!{before:,})[\d,]+ of", screen))
    terminal.press(key)
    assert terminal.exit_status(seconds=60) == 130
    screen = terminal.screen()
    assert "it was ended early" in screen
    assert "go on with --resume" in screen
    assert "full" in screen
    document = json.loads((tmp_path / "out.json").read_text())
    (run,) = document["runs"]
    assert (run["policy"], run["complete"]) == ("full", False)
    assert before < run["tokens"] < 16000
