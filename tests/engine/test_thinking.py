"""The engine says of every token whether the model thinks or answers, wherever the reply was interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sinkchat.engine.engine import SinkEngine
from sinkchat.engine.events import Token
from sinkchat.models.sampling import Sampling
from tests.engine.listening import engine, template, tokenizer

REPLY = "<think>\nLet me see.\n</think>\n\nYes, it is."


class Scripted:
    """Draws what it was told to, in order."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.sampling = Sampling(seed=0)
        self._ids = list(ids)

    def draw(self, *_: Any) -> int:
        return self._ids.pop(0)


def question() -> list[int]:
    opening, _ = template().opening(None)
    return [*opening, *template().encode("Is it so?"), *template().ask()]


def thoughtful(ids: Sequence[int]) -> SinkEngine:
    made = engine()
    made._sampler = Scripted(ids)
    return made


def said(made: SinkEngine, count: int) -> list[tuple[str, str]]:
    return [(event.part, event.text) for event in made.generate(count) if isinstance(event, Token)]


def reply() -> list[int]:
    ids: list[int] = tokenizer()(REPLY, add_special_tokens=False)["input_ids"]
    return ids


def joined(tokens: list[tuple[str, str]], part: str) -> str:
    return "".join(text for of, text in tokens if of == part)


def whole() -> list[tuple[str, str]]:
    made = thoughtful(reply())
    list(made.prefill(question()))
    return said(made, len(reply()))


def test_thinking_and_answer_are_told_apart() -> None:
    tokens = whole()
    assert joined(tokens, "thinking").strip() == "Let me see."
    assert joined(tokens, "answer") == "Yes, it is."


@pytest.mark.parametrize("pause", [1, 3, 8, 20])
def test_a_reply_that_is_gone_on_with_is_parted_as_if_it_had_not_stopped(pause: int) -> None:
    made = thoughtful(reply())
    list(made.prefill(question()))
    assert [*said(made, pause), *said(made, len(reply()) - pause)] == whole()


@pytest.mark.parametrize("pause", [3, 8, 20])
def test_a_resumed_reply_is_parted_as_if_it_had_not_stopped(pause: int) -> None:
    ids = reply()
    made = thoughtful(ids[pause:])
    list(made.prefill([*question(), *ids[:pause]]))
    assert said(made, len(ids) - pause) == whole()[pause:]


def test_the_next_reply_begins_anew() -> None:
    made = thoughtful([*reply()[:8], *tokenizer()("Yes", add_special_tokens=False)["input_ids"]])
    list(made.prefill(question()))
    assert {part for part, text in said(made, 8) if text} == {"thinking"}
    list(made.prefill([*template().between(), *template().encode("And?"), *template().ask()]))
    assert joined(said(made, 3), "answer").startswith("Y")
