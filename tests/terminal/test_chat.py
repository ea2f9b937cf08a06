"""A person's first session, in a real terminal with the real small model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.collapse.reading import text
from tests.terminal.tmux import Terminal, sinkchat

WINDOW = 96

pytestmark = [pytest.mark.real_model, pytest.mark.terminal, pytest.mark.timeout(900)]

GAUGE = re.compile(r"│ (?:(\d+) sinks? \+ )?(\d+) recent(?: = (\d+))? of (\d+)")
EVICTED = re.compile(r"│ evicted +([\d,]+)")


def idle(screen: str) -> bool:
    return re.search(r"^ *idle\b[^\n]*\s*\Z", screen, re.MULTILINE) is not None


def entries(screen: str) -> tuple[int, int, int]:
    """Sinks, recents and their sum, as the panel shows them."""
    found = GAUGE.search(screen)
    assert found, screen
    sinks, recent = int(found[1] or 0), int(found[2])
    assert int(found[4]) == WINDOW
    return sinks, recent, int(found[3] or recent)


def evicted(screen: str) -> int:
    found = EVICTED.search(screen)
    assert found, screen
    return int(found[1].replace(",", ""))


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(
        tmp_path, sinkchat("--window", str(WINDOW), "--seed", "1", "--max-reply-tokens", "60", "--sinks", "4")
    )
    yield terminal
    terminal.close()


def test_chat_read_toggle_and_export(terminal: Terminal, tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text(text()[:2000])

    # typed while the model loads: it waits its turn
    terminal.wait(r"Write a message")
    terminal.say("Tell me a long story about a lighthouse keeper and the sea.")
    screen = terminal.wait(lambda screen: GAUGE.search(screen) and EVICTED.search(screen) and evicted(screen) > 0)
    assert entries(screen) == (4, WINDOW - 4, WINDOW)
    written = evicted(terminal.wait(idle))

    terminal.say(f"/read {book}")
    terminal.wait(r"reading")
    before = evicted(terminal.wait(idle))
    assert before > written + 100
    assert entries(terminal.screen()) == (4, WINDOW - 4, WINDOW)

    terminal.press("F2")
    screen = terminal.wait(r"window · cache positions")
    assert entries(screen) == (0, WINDOW - 4, WINDOW - 4)
    assert evicted(screen) == before + 4

    terminal.say("Go on.")
    terminal.wait(lambda screen: idle(screen) and evicted(screen) > before + 4)
    assert entries(terminal.screen()) == (0, WINDOW, WINDOW)

    terminal.press("F2")
    screen = terminal.wait(r"sinks · cache positions")
    assert entries(screen) == (4, WINDOW - 4, WINDOW)

    target = tmp_path / "chat.json"
    terminal.say(f"/export {target}")
    terminal.wait(lambda _: target.exists())
    check_export(json.loads(target.read_text()), evicted(terminal.screen()))

    for size in ((60, 16), (20, 5), (140, 42)):
        terminal.resize(*size)
    assert entries(terminal.wait(GAUGE.pattern)) == (4, WINDOW - 4, WINDOW)

    terminal.say("/quit")
    assert terminal.exit_status() == 0
    assert "Traceback" not in terminal.screen()


def check_export(exported: dict[str, Any], shown_evicted: int) -> None:
    roles = [message["role"] for message in exported["messages"]]
    assert roles == ["system", "user", "assistant", "file", "user", "assistant"]
    assert [change["after"]["policy"] for change in exported["policy_changes"]] == ["window", "sinks"]
    after = exported["policy_changes"][-1]["after"]
    assert after["kv_entries"] + after["evicted_total"] - after["readmitted_total"] == after["position"]
    assert sum(eviction["count"] for eviction in exported["evictions"]) == after["evicted_total"] == shown_evicted
    (sequence,) = exported["sequences"]
    framed = [frame["position"] + i for frame in sequence["frames"] for i in range(len(frame["ids"]))]
    said = [token["position"] for message in exported["messages"] for token in message["tokens"]]
    assert sorted(framed + said) == list(range(sequence["tokens"])) == list(range(after["position"]))
    losses = [token["loss"] for message in exported["messages"] for token in message["tokens"]]
    assert all(loss is not None and loss >= 0 for loss in losses[1:])


def test_escape_stops_a_reply_and_a_signal_leaves_the_terminal_whole(terminal: Terminal) -> None:
    terminal.wait(idle)
    terminal.say("/endless")
    terminal.wait(r"Endless")
    terminal.say("Count upwards from one, and never stop.")
    terminal.wait(lambda screen: GAUGE.search(screen) and entries(screen)[2] == WINDOW and evicted(screen) > 100)
    terminal.press("Escape")
    terminal.wait(r"stopped")
    terminal.press("C-c")
    terminal.press("C-c")
    assert terminal.exit_status() == 0
