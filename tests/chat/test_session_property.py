"""Whatever is said, cut, closed, broken and resumed: the journal, the conversation and the engine agree."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sinkchat.chat.conversation import Conversation
from sinkchat.chat.journal import Journal
from sinkchat.chat.reading import read_journal
from sinkchat.chat.session import ChatSession
from sinkchat.engine.events import Event, Finished, Token
from sinkchat.errors import CacheError, UsageError
from tests.fakes import FakeEngine, FakeTemplate


@dataclass(frozen=True)
class Step:
    do: str
    text: str = "words"
    number: int = 4
    stop_after: int | None = None
    """Events after which the run is stopped."""
    stop_by: str = "cancel"
    fail_after: int | None = None
    raise_after: int | None = None


TEXT = st.text(st.characters(codec="utf-8") | st.sampled_from(" \n"), max_size=40)

STEP = st.builds(
    Step,
    do=st.sampled_from(
        ["say", "say", "read", "go_on", "policy", "window", "sinks", "rebuild", "clear", "retry", "resume"]
    ),
    text=TEXT | st.lists(st.sampled_from(["a", " b", "\nc"]), max_size=60).map("".join),
    number=st.integers(1, 12),
    stop_after=st.none() | st.integers(0, 25),
    stop_by=st.sampled_from(["cancel", "close"]),
    fail_after=st.none() | st.none() | st.integers(0, 20),
    raise_after=st.none() | st.none() | st.integers(0, 20),
)


class Chat:
    """A session that is opened again and again over one journal."""

    def __init__(self, folder: Path, chunk: int, plain: bool, system: str | None, pin: bool) -> None:
        self.folder, self.chunk, self.plain, self.pin = folder, chunk, plain, pin
        self.engine = FakeEngine(window=12, sinks=2, chunk=chunk, reply="one two three four five")
        self.journal = Journal.create(folder)
        self.session = self.opened(system)

    def opened(self, system: str | None = None) -> ChatSession:
        return ChatSession(
            self.engine,
            FakeTemplate(plain=self.plain),
            self.journal,
            system=system,
            pin_system=self.pin,
            max_reply_tokens=4,
        )

    def resume(self, step: Step) -> Iterator[Event]:
        if not self.session.conversation.messages:
            return
        if step.stop_by == "cancel":
            self.session.close()
        else:
            self.journal.abandon()
        self.engine = FakeEngine(window=12, sinks=2, chunk=self.chunk, reply="six seven eight nine ten")
        self.journal = Journal.open(self.journal.path)
        self.session = self.opened()
        yield from self.session.resume()

    def run(self, step: Step) -> None:
        self.engine.fail_after, self.engine.raise_after = step.fail_after, step.raise_after
        session = self.session
        runs = {
            "say": lambda: session.say(step.text),
            "read": lambda: session.read(step.text, "f.txt"),
            "go_on": session.go_on,
            "retry": session.retry,
            "policy": lambda: session.change(policy=("sinks", "window", "recompute")[step.number % 3]),  # type: ignore[arg-type]
            "window": lambda: session.change(window=8 + step.number),
            "sinks": lambda: session.change(sinks=step.number % 4),
            "rebuild": session.rebuild,
            "clear": session.clear,
            "resume": lambda: self.resume(step),
        }
        events = runs[step.do]()
        seen = -1
        try:
            for seen, event in enumerate(events):
                self.check_state()
                if isinstance(event, Token):
                    last = self.session.conversation.messages[-1].tokens[-1]
                    assert (last.id, last.position) == (event.id, event.cache.position)
                if seen == step.stop_after:
                    if step.stop_by == "cancel":
                        self.session.cancel()
                    else:
                        events.close()  # type: ignore[attr-defined]
                        break
                if isinstance(event, Finished):
                    assert next(events, None) is None
        except (UsageError, CacheError):
            assert seen == -1 or step.do in ("clear", "retry", "go_on")  # these may have caught up first
        self.engine.fail_after = self.engine.raise_after = None

    def check_state(self) -> None:
        state = self.session.state()
        assert state.kv_entries + state.evicted_total - state.readmitted_total == state.position

    def check(self) -> None:
        self.check_state()
        conversation = self.session.conversation
        reading = read_journal(self.journal.path)
        assert not reading.damage
        assert Conversation.from_records(reading.entries) == conversation
        ids = [token.id for token in conversation.sequence.tokens]
        # What the engine has is what the conversation says, up to what is still to be fed again.
        assert self.engine.fed == ids[: len(self.engine.fed)]
        positions = [token.position for token in conversation.sequence.tokens]
        assert positions == list(range(len(positions)))
        for message in conversation.current_messages:
            if not message.taken_back:
                span = [token.position for token in message.tokens]
                assert span == list(range(span[0], span[0] + len(span))) if span else True
                assert all(conversation.sequence.tokens[token.position] is token for token in message.tokens)
            if message.words is not None and message.tokens_total is not None and message.role != "system":
                assert message.words.startswith(message.spoken) or message.error
        if len(conversation.openings) == 1:
            gone = [e.count for e in conversation.evictions if e.sequence == conversation.sequence.number]
            assert sum(gone) == self.session.state().evicted_total


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(STEP, max_size=8),
    chunk=st.integers(1, 5),
    plain=st.booleans(),
    system=st.none() | st.just("be brief"),
    pin=st.booleans(),
)
def test_the_journal_the_conversation_and_the_engine_agree(
    steps: list[Step], chunk: int, plain: bool, system: str | None, pin: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        chat = Chat(Path(name), chunk, plain, system, pin)
        for step in steps:
            chat.run(step)
            chat.check()
        # However it went, the next turn is properly formed and nothing is missing in the engine.
        chat.run(Step("say", "and now?"))
        chat.check()
        assert chat.engine.fed == [token.id for token in chat.session.conversation.sequence.tokens]
