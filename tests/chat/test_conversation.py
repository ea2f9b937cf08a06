"""A conversation is its journal's records, and what is left of them when some are lost."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkchat.chat.conversation import Conversation
from sinkchat.chat.export import FORMATS, render
from sinkchat.chat.journal import Journal
from sinkchat.chat.line import Entry
from sinkchat.chat.message import Message, TokenRecord
from sinkchat.chat.reading import read_journal
from sinkchat.chat.session import ChatSession
from sinkchat.engine.events import Finished
from sinkchat.models.sampling import Sampling
from tests.chat.conftest import OpenChat, drain
from tests.fakes import FakeEngine, FakeTemplate


@cache
def long_session() -> tuple[Entry, ...]:
    """A little of everything."""
    with tempfile.TemporaryDirectory() as name:
        journal = Journal.create(Path(name))
        chat = ChatSession(
            FakeEngine(window=16, chunk=4), FakeTemplate(), journal, system="be brief", max_reply_tokens=9
        )
        drain(chat.say("hello"))
        drain(chat.go_on())
        drain(chat.change(policy="window"))
        drain(chat.read("a file of words", "notes.txt"))
        chat.resample(Sampling(temperature=0.0))
        drain(chat.say("and?"))
        drain(chat.change(policy="sinks"))
        drain(chat.clear())
        drain(chat.say("again"))
        drain(chat.rebuild())
        chat.close()
        return read_journal(journal.path).entries


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_records_are_lost_the_rest_can_be_exported(data: st.DataObject) -> None:
    entries = long_session()
    lost = data.draw(st.sets(st.integers(0, len(entries) - 1), max_size=12))
    first = data.draw(st.integers(0, len(entries)))
    kept = [entry for index, entry in enumerate(entries) if index not in lost and index >= first // 4]
    conversation = Conversation.from_records(kept, ("line 2 is damaged",))
    for format in FORMATS:
        assert "line 2 is damaged" in render(conversation, format)


def test_nothing_that_was_said_after_a_lost_record_is_lost_with_it() -> None:
    entries = long_session()
    whole = {(token.position, token.id) for s in Conversation.from_records(entries).sequences for token in s.tokens}
    for lost in range(len(entries)):
        conversation = Conversation.from_records(entries[:lost] + entries[lost + 1 :])
        left = {(token.position, token.id) for s in conversation.sequences for token in s.tokens}
        assert len(whole - left) <= 4  # one chunk


def test_evictions_in_order_are_one_run_and_add_up(open_chat: OpenChat) -> None:
    chat = open_chat(FakeEngine(window=16))
    drain(chat.say("hello"))
    (prompt, reply) = (message.number for message in chat.conversation.messages)
    runs = chat.conversation.evictions
    assert [gone.message for gone in runs] == [reply]
    assert (runs[0].first, runs[0].count) == (4, chat.state().evicted_total)
    assert runs[0].until_position == chat.state().position
    assert runs[0].at_position == 17
    assert prompt == 0


def test_what_a_continued_reply_gave_the_sinks_is_the_mean_over_all_its_tokens(open_chat: OpenChat) -> None:
    engine = FakeEngine(window=64, reply="one two three four five")
    chat = open_chat(engine, max_reply_tokens=3)
    drain(chat.say("count"))
    reply = chat.conversation.messages[-1]
    first = reply.share_heads
    end = drain(chat.go_on())[-1]
    assert isinstance(end, Finished)
    latest = end.share_heads
    assert first is not None
    assert latest is not None
    assert reply.share_heads is not None
    for row, before, after in zip(reply.share_heads, first, latest, strict=True):
        assert row == pytest.approx([(3 * a + 2 * b) / 5 for a, b in zip(before, after, strict=True)], abs=1e-5)  # type: ignore[operator]


def test_the_means_of_a_message_pass_over_what_has_no_figure() -> None:
    message = Message(0, 0, "user", 0.0, words="a b")
    assert (message.loss, message.sink_share, message.first_position) == (None, None, None)
    message.tokens += [TokenRecord(1, "a", 5, None, None), TokenRecord(2, " b", 6, 2.0, 0.25)]
    assert (message.loss, message.sink_share) == (2.0, 0.25)
    assert (message.first_position, message.last_position) == (5, 6)


def test_a_messages_text_grows_with_its_tokens() -> None:
    message = Message(0, 0, "assistant", 0.0)
    for number in range(5):
        message.tokens.append(TokenRecord(number, f"{number} ", number, 1.0, None))
        assert message.text == "".join(f"{n} " for n in range(number + 1))
