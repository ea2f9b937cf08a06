"""Under `recompute` a full window loses its older half: what is journaled of it, told of it, and made good."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkchat.cache.slots import Slots
from sinkchat.chat.conversation import Conversation
from sinkchat.chat.export import render, saved_conversation
from sinkchat.chat.happening import Eviction, PolicyChange
from sinkchat.chat.journal import Journal
from sinkchat.chat.line import FIRST, Entry, read_line, write_line
from sinkchat.chat.plain import from_plain, to_plain
from sinkchat.chat.reading import read_journal
from sinkchat.chat.records import CacheSwitched, EntriesEvicted, SequenceBegun, TokenSaid
from sinkchat.chat.session import ChatSession
from sinkchat.engine.events import ChunkRead, Event, Evicted, Finished, Rebuilding, Token
from tests.chat.conftest import OpenChat, drain, of
from tests.fakes import STORY, FakeEngine, FakeTemplate, text_of, words

REPLY = STORY * 3


def engine(**settings: object) -> FakeEngine:
    return FakeEngine(**{"policy": "recompute", "sinks": 2, "window": 16, "reply": REPLY, **settings})  # type: ignore[arg-type]


@pytest.fixture
def chat(open_chat: OpenChat) -> ChatSession:
    chat = open_chat(engine())
    drain(chat.say("tell me of the sea"))
    return chat


def halvings(conversation: Conversation) -> list[Eviction]:
    return [gone for gone in conversation.evictions if gone.cause == "recompute"]


# -- the fake keeps to the contract


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(0, 9), st.integers(1, 7), st.integers(0, 60))
def test_the_fake_holds_what_the_cache_holds(recents: int, sinks: int, chunk: int, count: int) -> None:
    """Against the bookkeeping of the real engine, which is plain Python too, token by token."""
    fake = FakeEngine(policy="recompute", sinks=sinks, window=sinks + recents, chunk=chunk)
    events = list(fake.prefill(words(" word" * count)))
    slots = Slots("recompute", sinks, sinks + recents)
    fed, entries = 0, []
    while fed < count:
        end = slots.position
        if slots.cramped:
            slots.halve()
        while slots.position < end:
            slots.commit(slots.plan(1))
        slots.commit(slots.plan(1))
        fed += 1
        entries.append(slots.entries)
    state = fake.state()
    assert sorted(slots.slot_of) == fake._kept
    assert (state.position, state.kv_entries, state.sink_entries) == (count, slots.entries, slots.sink_entries)
    assert (state.evicted_total, state.readmitted_total) == (slots.evicted_total, slots.readmitted_total)
    assert (state.recomputed_total, state.horizon) == (slots.recomputed_total, slots.horizon)
    assert [held for event in events if isinstance(event, ChunkRead) for held in event.entries] == entries


def test_the_older_half_leaves_then_the_newer_runs_again_and_nothing_else_is_said_of_it() -> None:
    fake = engine(chunk=3)
    list(fake.prefill(words("a b c d")))
    events: list[Event] = []
    for event in fake.generate(30):
        events.append(event)
        state = fake.state()
        assert state.kv_entries + state.evicted_total - state.readmitted_total == state.position
        assert state.kv_entries <= 16
    around = [event for event in events if not isinstance(event, Token)]
    halves = [(2, 8), (9, 15), (16, 22)]
    texts = ["".join(text_of(token) for token in fake.fed[first : last + 1]) for first, last in halves]
    expected: list[Event] = []
    for (first, last), text in zip(halves, texts, strict=True):
        expected += [Evicted(first, last, 7, text, "recompute"), *(Rebuilding(done, 7) for done in (3, 6, 7))]
    assert around[:-1] == expected
    assert isinstance(around[-1], Finished)


# -- the journal


def test_each_time_that_the_window_was_full_is_journaled_with_what_had_been_fed(chat: ChatSession) -> None:
    gone = halvings(chat.conversation)
    assert len(gone) > 2
    for number, one in enumerate(gone):
        assert (one.first, one.last, one.count) == (2 + 7 * number, 8 + 7 * number, 7)
        assert one.at_position == one.until_position == 16 + 7 * number
        assert one.run_again == 7
    assert sum(one.count for one in gone) == chat.state().evicted_total
    assert sum(one.run_again for one in gone) == chat.state().recomputed_total


def test_a_saved_session_says_the_same(chat: ChatSession) -> None:
    reading = read_journal(chat._journal.path)
    assert Conversation.from_records(reading.entries) == chat.conversation
    assert chat.conversation.upheavals == halvings(chat.conversation)


def test_a_device_that_fails_while_the_newer_half_runs_again_is_made_good_before_the_next_turn(
    open_chat: OpenChat,
) -> None:
    fake = engine(chunk=2)
    chat = open_chat(fake)
    events = chat.say("tell me of the sea")
    for event in events:
        if isinstance(event, Evicted):
            fake.raise_after = 3
            break
    end = list(events)[-1]
    assert isinstance(end, Finished)
    assert end.reason == "error"
    assert chat.state().position < len(chat.conversation.sequence.tokens)
    drain(chat.say("and now?"))
    assert fake.fed == [token.id for token in chat.conversation.sequence.tokens]
    assert chat.state().position == len(fake.fed)


def test_a_cancel_while_the_newer_half_runs_again_stops_the_reply_and_loses_nothing(open_chat: OpenChat) -> None:
    fake = engine(chunk=2)
    chat = open_chat(fake)
    events = []
    for event in chat.say("tell me of the sea"):
        events.append(event)
        if isinstance(event, Rebuilding):
            chat.cancel()
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "cancelled"
    assert fake.fed == [token.id for token in chat.conversation.sequence.tokens]
    assert chat.state().position == len(fake.fed)


def test_a_session_that_is_resumed_counts_what_runs_again_and_tells_it_no_second_time(
    chat: ChatSession, folder: Path
) -> None:
    told = list(chat.conversation.upheavals)
    chat.close()
    again = engine()
    session = ChatSession(again, FakeTemplate(), Journal.open(folder / f"{chat.id}.jsonl"))
    events = drain(session.resume())
    assert again.fed == [token.id for token in session.conversation.sequence.tokens]
    progress = [event.done for event in of(events, Rebuilding) if isinstance(event, Rebuilding)]
    assert progress == sorted(set(progress))
    assert [up for up in session.conversation.upheavals if isinstance(up, Eviction)] == told
    (replayed,) = halvings(session.conversation)[len(told) :]
    assert replayed.run_again == session.state().recomputed_total
    assert replayed.count == session.state().evicted_total
    text = render(session.conversation, "txt")
    assert f"{replayed.until_position} the window was full again and again: the older half left" in text


def test_a_pinned_system_prompt_stays(open_chat: OpenChat) -> None:
    fake = engine(window=20)
    chat = open_chat(fake, system="be very brief", pin_system=True)
    drain(chat.say("tell me of the sea"))
    assert chat.state().sinks == 5
    assert fake._kept[:5] == [0, 1, 2, 3, 4]
    assert min(gone.first for gone in halvings(chat.conversation)) == 5


def test_journals_from_before_there_was_such_a_policy_are_read() -> None:
    state = engine(policy="sinks").state()
    older = to_plain(CacheSwitched("policy", state, state, True))
    for moment in ("before", "after"):
        del older[moment]["recomputed_total"]
    assert from_plain("cache", older) == CacheSwitched("policy", state, state, True)


def test_of_an_eviction_of_before_nothing_ran_again() -> None:
    conversation = Conversation()
    for number, record in enumerate(
        [
            SequenceBegun(None, "start"),
            TokenSaid(0, 1, "a", 0, 1.0, None, 0, 0),
            EntriesEvicted(0, 0, 1, "token", 1),
            EntriesEvicted(1, 1, 1, "token", 2),
        ]
    ):
        line = read_line(write_line(Entry(number, 0.0, record), FIRST)[0][:-1])
        assert line is not None
        conversation.apply(line.entry)
    (gone,) = conversation.evictions
    assert (gone.count, gone.run_again) == (2, 0)
    assert conversation.upheavals == []


# -- exports


@pytest.mark.parametrize("format", ["md", "txt"])
def test_it_is_told_in_words_where_it_happened(chat: ChatSession, format: str) -> None:
    text = render(chat.conversation, format)  # type: ignore[arg-type]
    gone = halvings(chat.conversation)[0]
    reply = chat.conversation.messages[-1]
    said = "".join(token.text for token in reply.tokens if token.position <= gone.at_position)
    before, note, _behind = re.split(r"(At position 16 the window was full.*ran again\.)", text)
    assert note == (
        "At position 16 the window was full: the older half left (7 entries, positions 2 to 8), "
        "and 7 tokens ran again."
    )
    assert before.rstrip("\n*[").endswith(said.strip())
    assert text.count("the window was full") == len(halvings(chat.conversation))


def test_json_has_what_ran_again(chat: ChatSession, folder: Path) -> None:
    drain(chat.change(policy="sinks"))
    document = json.loads(render(saved_conversation(folder / f"{chat.id}.jsonl"), "json"))
    assert document["settings"]["policy"] == "recompute"
    (change,) = document["policy_changes"]
    assert (
        change["before"]["recomputed_total"] == change["after"]["recomputed_total"] == chat.state().recomputed_total
    )
    gone = [one for one in document["evictions"] if one["cause"] == "recompute"]
    assert sum(one["run_again"] for one in gone) == chat.state().recomputed_total
    assert all(one["run_again"] == one["at_position"] - one["last"] - 1 for one in gone)


def test_switches_and_full_windows_are_kept_in_order(open_chat: OpenChat) -> None:
    chat = open_chat(engine(), max_reply_tokens=20)
    drain(chat.say("tell me of the sea"))
    drain(chat.change(policy="sinks"))
    drain(chat.go_on())
    drain(chat.change(policy="recompute"))
    drain(chat.go_on())
    kinds = ["change" if isinstance(up, PolicyChange) else "full" for up in chat.conversation.upheavals]
    assert re.fullmatch(r"(full )+change change (full )*full", " ".join(kinds))
