"""Thinking is folded to one line that says how long it is; a click, a key or a command opens it."""

from __future__ import annotations

import pytest

from sinkchat.tui.text.passage import Passage
from sinkchat.tui.text.stack import Stack
from tests.fakes import FakeEngine
from tests.tui.conftest import Chat, Play

THOUGHT = "Hm the person asks and so I think about it"
ANSWER = " Yes, it is so."
COUNT = len(THOUGHT.split())


def thoughtful(**how: float) -> FakeEngine:
    return FakeEngine(thinking=THOUGHT, reply=ANSWER, window=512, **how)


def shown(chat: Chat) -> str:
    return "\n".join(chat.lines())


def label_row(chat: Chat) -> int:
    return next(row for row, line in enumerate(chat.lines()) if "thought for" in line)


def test_thinking_is_folded_under_its_length_above_the_answer(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("Is it so?")
        lines = chat.lines()
        row = label_row(chat)
        assert f"▸ thought for {COUNT} tokens" in lines[row]
        assert any("Yes, it is so." in line for line in lines[row:])
        assert "Hm the person" not in shown(chat)
        assert [passage.voice for passage in chat.transcript.passages] == ["person", "thinking", "reply"]

    play(scenario, thoughtful())


@pytest.mark.parametrize("way", ["key", "command"])
def test_a_key_and_a_command_open_and_fold_all_of_it(play: Play, way: str) -> None:
    async def toggle(chat: Chat) -> None:
        await (chat.press("f4") if way == "key" else chat.send("/thinking"))

    async def scenario(chat: Chat) -> None:
        await chat.say("Is it so?")
        await toggle(chat)
        assert f"▾ thought for {COUNT} tokens" in shown(chat)
        assert THOUGHT in shown(chat)
        await chat.say("And this?")
        assert shown(chat).count(THOUGHT) == 2
        await toggle(chat)
        assert THOUGHT not in shown(chat)
        assert shown(chat).count("▸ thought for") == 2

    play(scenario, thoughtful())


def test_a_click_on_its_line_opens_one_and_a_click_elsewhere_none(play: Play) -> None:
    async def click(chat: Chat, row: int) -> None:
        await chat.pilot.click(chat.transcript, offset=(6, row - chat.transcript.region.y))
        await chat.pilot.pause(0.01)

    async def scenario(chat: Chat) -> None:
        await chat.say("Is it so?")
        await chat.say("And this?")
        await click(chat, label_row(chat) + 2)
        assert THOUGHT not in shown(chat)
        await click(chat, label_row(chat))
        assert shown(chat).count(THOUGHT) == 1
        await click(chat, label_row(chat))
        assert THOUGHT not in shown(chat)

    play(scenario, thoughtful())


def test_it_says_how_far_it_is_while_the_model_thinks(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.send("Is it so?")
        await chat.until(lambda: "▸ thinking, 3 tokens so far" in shown(chat) or "4 tokens so far" in shown(chat))
        await chat.press("escape")
        await chat.idle()
        assert "▸ thought for" in shown(chat)
        assert "stopped after" in shown(chat)

    play(scenario, thoughtful(token_delay=0.1))


def test_the_horizon_passes_through_thinking_that_is_folded(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("Is it so?")
        thinking = chat.transcript.passages[1]
        assert thinking.first is not None
        await chat.say("And this, which is long enough to push a few of the first tokens out of the window?")
        assert thinking.gone_tokens(chat.transcript.sight) == thinking.tokens
        assert "horizon" in shown(chat)

    play(scenario, FakeEngine(thinking=THOUGHT, reply=ANSWER, window=32))


def test_copying_takes_the_answer_alone(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(chat: Chat) -> None:
        copied: list[str] = []
        monkeypatch.setattr(chat.screen, "copy_text", copied.append)
        await chat.say("Is it so?")
        await chat.send("/copy")
        assert copied == [ANSWER.strip()]

    play(scenario, thoughtful())


def test_a_fold_costs_nothing_and_loses_nothing() -> None:
    passage = Passage("thinking")
    passage.mark(7, [len(piece) for piece in ("one\n", "two\n")])
    passage.add("one\ntwo\n" * 200)
    passage.finish()
    stack = Stack()
    stack.add(passage)
    stack.resize(40)
    height = stack.height
    passage.fold(True)
    stack.renew()
    assert stack.height == 2
    passage.fold(False)
    stack.renew()
    assert stack.height == height > 400
