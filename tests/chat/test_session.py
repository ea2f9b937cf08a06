"""A turn in tokens, what is on disk before it is seen, and what is left when something stops it."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sinkchat.chat.journal import Journal
from sinkchat.chat.message import Message
from sinkchat.chat.reading import read_journal
from sinkchat.chat.records import EntriesEvicted, MessageBegun, PromptDone, RunEnded, TokenSaid
from sinkchat.chat.session import ChatSession
from sinkchat.engine.events import (
    CacheChanged,
    ChunkRead,
    Event,
    Evicted,
    Finished,
    Prefilled,
    Rebuilding,
    Token,
)
from sinkchat.errors import CacheError, UsageError
from sinkchat.models.sampling import Sampling
from tests.chat.conftest import OpenChat, drain, of
from tests.fakes import FACTS, STOP, FakeEngine, FakeTemplate, shorter, words

T = FakeTemplate()


def last(chat: ChatSession) -> Message:
    return chat.conversation.messages[-1]


def finished(events: list[Event]) -> Finished:
    end = events[-1]
    assert isinstance(end, Finished)
    return end


# -- a turn in tokens


def test_a_conversation_is_fed_once_and_only_appended_to(open_chat: OpenChat) -> None:
    engine = FakeEngine(reply="good day")
    chat = open_chat(engine, system="be brief")
    drain(chat.say("hello"))
    drain(chat.say("and now"))
    opening, _ = T.opening("be brief")
    reply = words("good day")
    first = (*opening, *words("hello"), *T.ask(), *reply)
    assert tuple(engine.fed) == (*first, *T.between(), *words("and now"), *T.ask(), *reply)


def test_the_stop_token_is_never_fed_and_the_templates_own_closing_is(open_chat: OpenChat) -> None:
    engine = FakeEngine(reply="good day")
    chat = open_chat(engine)
    end = finished(drain(chat.say("hello")))
    assert (end.reason, end.stop_id) == ("stop", STOP)
    assert STOP not in engine.fed
    assert tuple(engine.fed[-2:]) == words("good day")


def test_after_esc_the_next_turn_closes_the_reply(open_chat: OpenChat) -> None:
    engine = FakeEngine()
    chat = open_chat(engine)
    events = chat.say("hello")
    for event in events:
        if isinstance(event, Token) and event.text == " keeper":
            chat.cancel()
    assert last(chat).text == "The keeper"
    assert last(chat).reason == "cancelled"
    fed = len(engine.fed)
    drain(chat.say("go"))
    assert tuple(engine.fed[fed : fed + 4]) == (*T.between(), *words("go"))


def test_going_on_appends_to_the_same_reply(open_chat: OpenChat) -> None:
    engine = FakeEngine(reply="one two three four")
    chat = open_chat(engine, max_reply_tokens=3)
    assert finished(drain(chat.say("count"))).reason == "length"
    assert finished(drain(chat.go_on())).reason == "stop"
    assert [message.role for message in chat.conversation.messages] == ["user", "assistant"]
    assert last(chat).text == "one two three four"
    assert tuple(engine.fed[-4:]) == words("one two three four")


def test_there_must_be_something_to_go_on_with(open_chat: OpenChat) -> None:
    chat = open_chat()
    with pytest.raises(UsageError, match="nothing to go on with"):
        drain(chat.go_on())
    drain(chat.read("some text", "a.txt"))
    with pytest.raises(UsageError, match="nothing to go on with"):
        drain(chat.go_on())
    drain(chat.clear())
    with pytest.raises(UsageError, match="nothing to go on with"):
        drain(chat.go_on())


@pytest.mark.parametrize("chunks", range(9))
def test_a_text_that_was_cut_anywhere_is_read_on_as_if_it_had_not_been(open_chat: OpenChat, chunks: int) -> None:
    text = "one two three four five six"

    def cut(chat: ChatSession, events: Iterator[Event]) -> None:
        for number, _ in enumerate(events):
            if number == chunks:
                chat.cancel()

    uncut = FakeEngine(chunk=2, reply="good day", window=64)
    chat = open_chat(uncut, system="be brief")
    drain(chat.read(text, "a.txt"))
    drain(chat.say(text))

    engine = FakeEngine(chunk=2, reply="good day", window=64)
    chat = open_chat(engine, system="be brief")
    cut(chat, chat.read(text, "a.txt"))
    if chat.conversation.messages[-1].cut_short:
        drain(chat.change(policy="window"))
        drain(chat.go_on())
    cut(chat, chat.say(text))
    if last(chat).role == "user" or last(chat).reason == "cancelled":
        drain(chat.go_on())
    assert engine.fed == uncut.fed
    assert [m.text for m in chat.conversation.messages] == ["be brief", text, text, "good day"]
    assert not any(message.cut_short for message in chat.conversation.messages)
    assert [message.reason for message in chat.conversation.messages] == [None, None, None, "stop"]


def test_endless_ignores_stops_and_the_cap_until_cancelled(open_chat: OpenChat) -> None:
    chat = open_chat(FakeEngine(reply="la"), max_reply_tokens=3)
    chat.endless = True
    count = 0
    for event in chat.say("sing"):
        count += isinstance(event, Token)
        if count == 500:
            chat.cancel()
    assert (last(chat).reason, last(chat).tokens_read) == ("cancelled", 500)


def test_stops_can_be_ignored_and_the_cap_kept(open_chat: OpenChat) -> None:
    chat = open_chat(FakeEngine(reply="la"), max_reply_tokens=30)
    chat.ignore_stops = True
    assert finished(drain(chat.say("sing"))).reason == "length"
    assert last(chat).tokens_read == 30


def test_what_is_read_and_said_shares_one_turn(open_chat: OpenChat) -> None:
    engine = FakeEngine(reply="I see")
    chat = open_chat(engine)
    events = drain(chat.read("a file of words", "notes.txt"))
    assert isinstance(events[-1], Prefilled)
    assert not of(events, Token)
    drain(chat.read("another", "more.txt"))
    drain(chat.say("what is in it?"))
    opening, _ = T.opening(None)
    breaks = words("\n\n")
    expected = (*words("a file of words"), *breaks, *words("another"), *breaks, *words("what is in it?"))
    assert tuple(engine.fed) == (*opening, *expected, *T.ask(), *words("I see"))
    assert [(m.role, m.name, m.text) for m in chat.conversation.messages] == [
        ("file", "notes.txt", "a file of words"),
        ("file", "more.txt", "another"),
        ("user", None, "what is in it?"),
        ("assistant", None, "I see"),
    ]


def test_an_open_turn_is_answered_as_it_stands_by_saying_nothing(open_chat: OpenChat) -> None:
    engine = FakeEngine(reply="I see")
    chat = open_chat(engine)
    with pytest.raises(UsageError, match="nothing to answer"):
        drain(chat.say(""))
    drain(chat.read("a file", "notes.txt"))
    drain(chat.say(""))
    assert tuple(engine.fed) == (*T.opening(None)[0], *words("a file"), *T.ask(), *words("I see"))
    assert [message.role for message in chat.conversation.messages] == ["file", "assistant"]


def test_a_model_without_a_template_goes_on_with_the_text_as_it_is(folder: Path) -> None:
    engine = FakeEngine(reply=" upon a time")
    chat = ChatSession(engine, FakeTemplate(plain=True), Journal.create(folder))
    drain(chat.say("Once"))
    drain(chat.say(" there was"))
    assert tuple(engine.fed) == words("Once") + words(" upon a time") + words(" there was") + words(" upon a time")


def test_positions_tell_where_each_message_stands(open_chat: OpenChat) -> None:
    engine = FakeEngine(reply="good day")
    chat = open_chat(engine, system="be brief")
    drain(chat.say("hello my friend"))
    spans = {message.role: (message.first_position, message.last_position) for message in chat.conversation.messages}
    for role, text in (("system", "be brief"), ("user", "hello my friend"), ("assistant", "good day")):
        first, final = spans[role]
        assert first is not None
        assert final is not None
        frame = 1 if role == "system" else 0
        assert tuple(engine.fed[first + frame : final + 1 - frame]) == words(text)
    reply = last(chat)
    assert reply.first_position is not None
    assert [reply.offset(reply.first_position + ahead) for ahead in (-3, 0, 1, 2, 9)] == [0, 0, 4, 8, 8]


def test_half_characters_reach_the_journal_and_not_the_tokenizer(folder: Path) -> None:
    class Strict(FakeTemplate):
        def encode(self, text: str, *, after: Sequence[int] = ()) -> tuple[int, ...]:
            text.encode("utf-8")
            return super().encode(text, after=after)

    chat = ChatSession(FakeEngine(), Strict(), Journal.create(folder))
    drain(chat.say("a\udc80b \ud83d\ude00"))
    assert chat.conversation.messages[0].text == "a\udc80b 😀"
    assert chat.conversation.messages[0].spoken == "a\ufffdb 😀"


# -- on disk before it is seen


class Watching(FakeEngine):
    """Looks into the journal at the moment it is called."""

    journal: Path
    found: list[str]

    def prefill(self, ids: object) -> Iterator[Event]:
        self.found = [
            entry.record.text or ""
            for entry in read_journal(self.journal).entries
            if isinstance(entry.record, MessageBegun)
        ]
        yield from super().prefill(ids)  # type: ignore[arg-type]


def test_a_persons_words_are_on_disk_before_the_engine_sees_them(folder: Path) -> None:
    engine = Watching()
    journal = Journal.create(folder)
    engine.journal = journal.path
    chat = ChatSession(engine, FakeTemplate(), journal)
    next(iter(chat.say("precious words")))
    assert engine.found == ["precious words"]


def test_every_event_is_in_the_journal_before_it_is_seen(open_chat: OpenChat, folder: Path) -> None:
    chat = open_chat(FakeEngine(window=16))
    path = folder / f"{chat.id}.jsonl"
    for event in itertools.chain(chat.say("a few words to begin with"), chat.change(window=8), chat.rebuild()):
        record = read_journal(path).entries[-1].record
        match event:
            case Token():
                assert isinstance(record, TokenSaid)
                assert (record.id, record.text, record.position) == (event.id, event.text, event.cache.position)
                assert (record.loss, record.sink_share) == (event.loss, event.sink_share)
                assert (record.kv_entries, record.evicted_total) == (
                    event.cache.kv_entries,
                    event.cache.evicted_total,
                )
            case Evicted():
                assert isinstance(record, EntriesEvicted)
                assert (record.first, record.last, record.cause) == (event.first, event.last, event.cause)
            case Prefilled():
                assert isinstance(record, PromptDone)
                assert (record.tokens, record.loss) == (event.tokens, event.loss)
            case Finished():
                assert isinstance(record, RunEnded)
                assert (record.reason, record.tokens) == (event.reason, event.tokens)
            case ChunkRead():
                assert record.ids == event.ids  # type: ignore[union-attr]


# -- what stops it


@pytest.mark.parametrize("chunks", range(8))
def test_a_prompt_that_is_cut_anywhere_leaves_a_turn_that_is_properly_formed(
    open_chat: OpenChat, chunks: int
) -> None:
    engine = FakeEngine(chunk=2, reply="good day", window=64)
    chat = open_chat(engine, system="be brief")
    opening, _ = T.opening("be brief")  # 6 tokens: three chunks
    events = chat.say("one two three four five six")  # three chunks; then the frame of three
    seen: list[Event] = []
    for event in events:
        seen.append(event)
        if len(of(seen, ChunkRead)) == chunks + 1:
            chat.cancel()
    message = next(m for m in chat.conversation.messages if m.role == "user")
    fed = tuple(engine.fed)
    if chunks < 6:
        read = max(0, 2 * (chunks + 1) - len(opening))
        assert fed == (*opening, *words("one two three four five six")[:read])
        assert (message.tokens_read, message.tokens_total) == (read, 6)
        assert (message.cut_short, message.reason) == ((True, "cancelled") if read < 6 else (False, None))
        assert finished(seen).tokens == len(fed)
        assert of(seen, ChunkRead)[-1].done == len(fed)
        drain(chat.say("seven"))
        separator = words("\n\n") if read else ()
        assert tuple(engine.fed) == (*fed, *separator, *words("seven"), *T.ask(), *words("good day"))
    else:
        # The frame that closes the person's turn was begun: it is completed, and the reply is what was stopped.
        assert fed == (*opening, *words("one two three four five six"), *T.ask())
        assert not message.cut_short
        assert finished(seen).reason == "cancelled"
        drain(chat.go_on())
        assert tuple(engine.fed) == (*fed, *words("good day"))
        assert last(chat).text == "good day"


def test_a_cancel_between_the_prompt_and_the_reply_is_not_lost(open_chat: OpenChat) -> None:
    chat = open_chat()
    events = []
    for event in chat.say("hello"):
        events.append(event)
        if isinstance(event, Prefilled):
            chat.cancel()
    assert finished(events).reason == "cancelled"
    assert last(chat).role == "assistant"
    assert not last(chat).tokens


def test_a_cancel_while_nothing_runs_is_forgotten(open_chat: OpenChat) -> None:
    chat = open_chat()
    chat.cancel()
    assert finished(drain(chat.say("hello"))).reason == "stop"


def test_another_thread_can_cancel(open_chat: OpenChat) -> None:
    chat = open_chat(FakeEngine(token_delay=0.001))
    chat.endless = True
    timer = threading.Timer(0.1, chat.cancel)
    timer.start()
    assert finished(drain(chat.say("go"))).reason == "cancelled"
    timer.join()


def test_a_reply_that_nobody_listens_to_any_more_is_stopped_and_journaled(open_chat: OpenChat, folder: Path) -> None:
    engine = FakeEngine()
    chat = open_chat(engine)
    events = chat.say("hello")
    for event in events:
        if isinstance(event, Token) and event.text == " keeper":
            break
    events.close()
    assert last(chat).text == "The keeper"
    assert last(chat).reason == "cancelled"
    assert isinstance(read_journal(folder / f"{chat.id}.jsonl").entries[-1].record, RunEnded)
    drain(chat.say("go"))
    assert engine.fed == [token.id for token in chat.conversation.sequence.tokens]


@pytest.mark.parametrize("after", [3, 25])
def test_a_failing_engine_ends_the_run_and_not_the_chat(
    open_chat: OpenChat, after: int, caplog: pytest.LogCaptureFixture
) -> None:
    engine = FakeEngine(chunk=4, reply="one two three four five six seven eight nine ten eleven twelve")
    chat = open_chat(engine)
    engine.raise_after = after
    with caplog.at_level(logging.ERROR):
        end = finished(drain(chat.say("a few words to begin with, and then some more")))
    assert (end.reason, end.error) == ("error", "RuntimeError: the device is gone")
    assert "RuntimeError" in caplog.text
    assert finished(drain(chat.say("again"))).reason == "stop"
    assert engine.fed == [token.id for token in chat.conversation.sequence.tokens]
    assert tuple(engine.fed)[-12:] == words(engine.reply)


def test_an_error_that_the_engine_tells_is_passed_on(open_chat: OpenChat) -> None:
    engine = FakeEngine()
    chat = open_chat(engine)
    engine.fail_after = 3
    end = finished(drain(chat.say("hello")))
    assert (end.reason, last(chat).reason) == ("error", "error")
    assert last(chat).error == end.error == "the device is out of memory"


def test_only_one_run_at_a_time(open_chat: OpenChat) -> None:
    chat = open_chat()
    events = chat.say("hello")
    next(events)
    with pytest.raises(UsageError, match="still being answered"):
        drain(chat.say("me too"))
    events.close()
    assert finished(drain(chat.say("now"))).reason == "stop"


# -- the cache


def test_a_change_is_kept_with_its_place(open_chat: OpenChat) -> None:
    chat = open_chat(FakeEngine(window=16))
    drain(chat.say("hello"))
    events = drain(chat.change(policy="window"))
    assert isinstance(events[-1], CacheChanged)
    change = chat.conversation.policy_changes[-1]
    assert change.position == chat.state().position
    assert (change.before.policy, change.after.policy, change.exact) == ("sinks", "window", True)
    gone = chat.conversation.evictions[-1]
    assert (gone.first, gone.last, gone.cause, gone.at_position) == (0, 3, "policy", change.position)


def test_a_change_that_cannot_be_made_is_refused_and_changes_nothing(open_chat: OpenChat) -> None:
    chat = open_chat(FakeEngine(sinks=4, window=16))
    before, messages = chat.state(), list(chat.conversation.policy_changes)
    with pytest.raises(CacheError):
        drain(chat.change(window=3))
    assert (chat.state(), chat.conversation.policy_changes) == (before, messages)


def test_clear_begins_a_new_sequence_and_keeps_the_old_one(open_chat: OpenChat) -> None:
    engine = FakeEngine(reply="good day")
    chat = open_chat(engine, system="be brief")
    drain(chat.say("hello"))
    drain(chat.clear())
    assert engine.fed == []
    drain(chat.say("again"))
    assert tuple(engine.fed) == (*T.opening("be brief")[0], *words("again"), *T.ask(), *words("good day"))
    drain(chat.clear("be long"))
    drain(chat.say("more"))
    assert tuple(engine.fed[: len(T.opening("be long")[0])]) == T.opening("be long")[0]
    drain(chat.clear(None))
    drain(chat.say("none"))
    assert tuple(engine.fed[:2]) == T.opening(None)[0]
    assert [s.cause for s in chat.conversation.sequences] == ["start", "clear", "system", "system"]
    assert [m.text for m in chat.conversation.messages if m.role == "system"] == ["be brief", "be brief", "be long"]
    assert {m.sequence for m in chat.conversation.current_messages} == {3}


def test_a_pinned_system_prompt_is_kept_for_good(open_chat: OpenChat) -> None:
    engine = FakeEngine(sinks=2, window=32)
    chat = open_chat(engine, system="you are a patient keeper of lights", pin_system=True)
    tokens = T.opening("you are a patient keeper of lights")[1]
    assert chat.state().sinks == tokens
    assert chat.state().position == 0
    chat.endless = True
    for event in chat.say("go on"):
        if isinstance(event, Token) and event.cache.evicted_total > 40:
            chat.cancel()
    assert chat.state().sink_entries == tokens
    assert min(gone.first for gone in chat.conversation.evictions) == tokens
    drain(chat.clear("short"))
    assert chat.state().sinks == T.opening("short")[1]
    drain(chat.clear(None))
    assert chat.state().sinks == 2


def test_a_system_prompt_above_half_the_window_is_not_pinned(open_chat: OpenChat, folder: Path) -> None:
    system = "word " * 20
    with pytest.raises(UsageError, match="--pin-system") as refused:
        open_chat(FakeEngine(sinks=2, window=32), system=system, pin_system=True)
    assert "a window of 46 or more" in str(refused.value)
    assert not list(folder.iterdir())
    chat = open_chat(FakeEngine(sinks=2, window=46), system=system, pin_system=True)
    with pytest.raises(CacheError, match="half of the window of 40"):
        drain(chat.change(window=40))
    with pytest.raises(CacheError, match="pinned"):
        drain(chat.change(sinks=4))
    drain(chat.say("hello"))
    with pytest.raises(CacheError, match="half of the window"):
        drain(chat.clear(system * 2))
    assert chat.state().position > 0


def test_a_retry_takes_the_reply_back_exactly(open_chat: OpenChat) -> None:
    engine = FakeEngine(window=64, reply="good day")
    chat = open_chat(engine)
    drain(chat.say("hello"))
    fed = list(engine.fed)
    engine.reply = "good night"
    assert finished(drain(chat.retry())).reason == "stop"
    assert tuple(engine.fed) == (*fed[:-2], *words("good night"))
    old, new = chat.conversation.messages[-2:]
    assert (old.text, old.taken_back, new.text, new.taken_back) == ("good day", True, "good night", False)


def test_after_an_eviction_there_is_no_retry(open_chat: OpenChat) -> None:
    chat = open_chat(FakeEngine(window=8))
    drain(chat.say("hello"))
    text = last(chat).text
    with pytest.raises(CacheError, match="evicted"):
        drain(chat.retry())
    assert (last(chat).text, last(chat).taken_back) == (text, False)


def test_sampling_is_changed_for_what_follows(open_chat: OpenChat) -> None:
    engine = FakeEngine()
    chat = open_chat(engine)
    chat.resample(Sampling(temperature=0.1, seed=3))
    assert engine.sampling == chat.sampling == Sampling(temperature=0.1, seed=3)
    assert chat.conversation.sampling_changes[-1].sampling == engine.sampling


# -- again


def resumed(chat: ChatSession, folder: Path, engine: FakeEngine, **settings: object) -> ChatSession:
    chat.close()
    return ChatSession(engine, FakeTemplate(), Journal.open(folder / f"{chat.id}.jsonl"), **settings)  # type: ignore[arg-type]


def test_a_resumed_session_has_the_same_tokens_under_todays_rules(open_chat: OpenChat, folder: Path) -> None:
    before = FakeEngine(window=64)
    chat = open_chat(before, system="be brief")
    drain(chat.say("hello"))
    drain(chat.clear("be long"))
    drain(chat.say("and now"))
    after = FakeEngine(window=16, policy="window")
    again = resumed(chat, folder, after)
    assert again.resumed
    events = drain(again.resume())
    assert of(events, Rebuilding)[-1] == Rebuilding(len(before.fed), len(before.fed))
    assert isinstance(events[-1], CacheChanged)
    assert after.fed == before.fed
    assert again.system == "be long"
    assert again.conversation.messages[: len(chat.conversation.messages)] == chat.conversation.messages
    drain(again.say("more"))
    assert [token.id for token in again.conversation.sequence.tokens] == after.fed
    assert again.conversation.openings[-1].record.cache.policy == "window"


def test_a_resumption_that_is_cut_is_made_good_before_the_next_turn(open_chat: OpenChat, folder: Path) -> None:
    before = FakeEngine(window=64)
    chat = open_chat(before)
    drain(chat.say("hello"))
    after = FakeEngine(window=64)
    again = resumed(chat, folder, after)
    events = again.resume()
    seen = [next(events)]
    again.cancel()
    seen += events
    assert finished(seen).reason == "cancelled"
    assert 0 < len(after.fed) < len(before.fed)
    fed = list(before.fed)
    drain(again.say("more"))
    assert after.fed[: len(fed)] == fed
    assert after.fed == [token.id for token in again.conversation.sequence.tokens]


def test_a_prompt_that_a_kill_cut_in_its_frame_is_completed(open_chat: OpenChat, folder: Path) -> None:
    chat = open_chat(FakeEngine(chunk=1), system="be brief")
    events = chat.say("hello")
    for event in events:
        if isinstance(event, ChunkRead) and event.done == 3:
            break
    killed = folder / "20261129-184530-3fa2.jsonl"
    killed.write_bytes((folder / f"{chat.id}.jsonl").read_bytes())
    events.close()
    after = FakeEngine()
    again = ChatSession(after, FakeTemplate(), Journal.open(killed))
    drain(again.resume())
    assert tuple(after.fed) == T.opening("be brief")[0]
    assert again.conversation.messages[1].cut_short


def test_another_model_cannot_resume(open_chat: OpenChat, folder: Path) -> None:
    chat = open_chat()
    drain(chat.say("hello"))
    with pytest.raises(UsageError, match="--model fake-model"):
        resumed(chat, folder, FakeEngine(facts=shorter(FACTS, 4096)))
    # The refused journal is free again.
    Journal.open(folder / f"{chat.id}.jsonl").close()


def test_a_session_in_which_nothing_was_said_leaves_no_file(open_chat: OpenChat, folder: Path) -> None:
    chat = open_chat()
    assert list(folder.iterdir())
    chat.close()
    assert not list(folder.iterdir())
    chat.close()


def test_a_cancel_that_the_engine_had_not_begun_to_hear_is_repeated(open_chat: OpenChat) -> None:
    class Deaf(FakeEngine):
        deaf = True

        def cancel(self) -> None:
            if self.deaf:
                self.deaf = False  # it came between two runs of the engine, and was forgotten
            else:
                super().cancel()

    chat = open_chat(Deaf())
    events = chat.say("hello")
    seen: list[Event] = []
    while not of(seen, Token):
        seen.append(next(events))
    chat.cancel()
    seen += events
    assert finished(seen).reason == "cancelled"
    assert last(chat).tokens_read == 2


def test_a_turn_that_was_cut_before_its_text_begins_with_the_text(open_chat: OpenChat) -> None:
    engine = FakeEngine(chunk=3, reply="good day")
    chat = open_chat(engine)
    drain(chat.say("hello"))
    fed = len(engine.fed)
    events = chat.say("lost")
    next(events)  # the three tokens that close the reply and open the turn
    chat.cancel()
    drain(events)
    drain(chat.say("found"))
    assert tuple(engine.fed[fed:]) == (*T.between(), *words("found"), *T.ask(), *words("good day"))


def test_words_and_ends_survive_the_machine_too(open_chat: OpenChat, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = open_chat()
    synced: list[str] = []
    records = chat.conversation.messages
    monkeypatch.setattr("os.fsync", lambda _: synced.append(records[-1].text))
    events = chat.say("precious words")
    next(events)
    assert synced == ["precious words"]
    drain(events)
    assert synced[-1] == records[-1].text != ""
