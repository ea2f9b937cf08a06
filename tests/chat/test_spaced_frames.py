"""A frame that ends with a space leaves it to the text's first token, and it is still no part of what was said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkchat.chat.export import saved_conversation
from sinkchat.chat.journal import Journal
from sinkchat.chat.session import ChatSession
from sinkchat.engine.events import ChunkRead, Event
from tests.fakes import FakeEngine, FakeTemplate, words

LONG = "One two three four five six seven eight nine ten."


def chat(folder: Path, chunk: int = 8) -> ChatSession:
    return ChatSession(
        FakeEngine(chunk=chunk, window=256), FakeTemplate(spaced=True), Journal.create(folder), system="Be brief."
    )


def run(events: Iterator[Event]) -> list[Event]:
    return list(events)


def fed(session: ChatSession) -> list[int]:
    engine = session._engine
    assert isinstance(engine, FakeEngine)
    return engine.fed


def contains(ids: list[int], part: tuple[int, ...]) -> bool:
    return any(tuple(ids[start : start + len(part)]) == part for start in range(len(ids)))


def test_the_first_text_of_each_turn_begins_with_the_space_and_a_further_one_does_not(tmp_path: Path) -> None:
    session = chat(tmp_path)
    run(session.read("A file.", "a.txt"))
    run(session.say("What is it?"))
    run(session.say("And now?"))
    ids = fed(session)
    for text in (" A file.", "What is it?", " And now?"):
        assert contains(ids, words(text))
    for text in (" What is it?",):
        assert not contains(ids, words(text))


def test_what_was_said_has_no_space_that_nobody_wrote(tmp_path: Path) -> None:
    session = chat(tmp_path)
    run(session.say("What is it?"))
    session.close()
    for held in (session.conversation, saved_conversation(session._journal.path)):
        said = next(message for message in held.messages if message.role == "user")
        assert (said.text, said.spoken, said.cut_short) == ("What is it?", "What is it?", False)
        assert said.offset(said.tokens[1].position) == len("What")


@pytest.mark.parametrize("second_turn", [False, True])
@pytest.mark.parametrize("chunks", range(12))
def test_a_text_that_is_cut_anywhere_is_read_on_with_the_same_tokens(
    tmp_path: Path, chunks: int, second_turn: bool
) -> None:
    whole, cut = chat(tmp_path / "whole", 1), chat(tmp_path / "cut", 1)
    for session in (whole, cut):
        if second_turn:
            run(session.say("Hello."))
    run(whole.say(LONG))
    done = 0
    for event in cut.say(LONG):
        done += isinstance(event, ChunkRead)
        if done == chunks:
            cut.cancel()
    run(cut.go_on())
    assert fed(cut) == fed(whole)
    assert [m.spoken for m in cut.conversation.messages if m.role == "user"] == [
        m.spoken for m in whole.conversation.messages if m.role == "user"
    ]
