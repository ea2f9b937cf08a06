"""A chat: turns in, events out, each one in the journal before anybody sees it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from importlib import metadata
from typing import Final

from sinkchat.cache.policy import Policy, Positions
from sinkchat.chat.conversation import Conversation
from sinkchat.chat.driver import Driver
from sinkchat.chat.journal import Journal
from sinkchat.chat.ledger import Ledger
from sinkchat.chat.records import (
    Closed,
    Opened,
    ReplyContinued,
    SamplingSet,
    SequenceBegun,
    TakenBack,
)
from sinkchat.chat.surrogates import paired
from sinkchat.chat.turns import Turns
from sinkchat.engine.contract import Engine, Template
from sinkchat.engine.events import CacheChanged, CacheState, DeviceMemory, Event
from sinkchat.errors import CacheError, UsageError
from sinkchat.models.facts import ModelFacts
from sinkchat.models.sampling import Sampling


class Keep:
    """What `ChatSession.clear` takes for "the same system prompt again"."""


KEEP: Final = Keep()


class ChatSession:
    """One thread runs it; `cancel` may be called from any, and `conversation` read.

    Its generators do nothing until they are iterated. They may be closed early: what the engine was doing is then
    cancelled, brought to its end and journaled. A failure of the engine is a `Finished` with the reason `error`, and
    the chat can go on after it; a wrong request raises `UsageError` before anything changed.

    With a journal that was opened again, the session goes on where that one ended: iterate `resume()` first. Its
    system prompt is then the journal's.
    """

    def __init__(
        self,
        engine: Engine,
        template: Template,
        journal: Journal,
        *,
        system: str | None = None,
        pin_system: bool = False,
        max_reply_tokens: int = 1024,
        sampling: Sampling | None = None,
    ) -> None:
        self.max_reply_tokens = max_reply_tokens
        """0 means no cap."""
        self.endless = False
        """Stop tokens are ignored and nothing caps a reply, until it is cancelled. Read when a reply begins."""
        self.ignore_stops = False
        """Stop tokens are ignored and the cap holds. Read when a reply begins."""
        self.pin_system = pin_system
        self._engine, self._template, self._journal = engine, template, journal
        self._ledger = Ledger(journal)
        self._driver = Driver(engine, self._ledger)
        self._running = False
        self._own_sinks = engine.state().sinks  # without those that pin the system prompt
        self.resumed = bool(self.conversation.sequences)
        """True when the journal held a session already."""
        system = self.conversation.sequence.system if self.resumed else system and paired(system)
        try:
            self._turns = Turns(template, self._ledger, self._driver, system)
            if self.resumed:
                self._refuse_other_model()
            self._refuse_large_pin(self._turns.system_tokens, self.state().window)
        except BaseException:
            self._leave_journal()
            raise
        if sampling is not None and sampling not in (self.sampling, replace(self.sampling, seed=None)):
            engine.resample(sampling)
        self._ledger.write(self._opened())
        if not self.resumed:
            self._ledger.write(SequenceBegun(system, "start"))
        for _ in self._pin():
            pass

    @property
    def conversation(self) -> Conversation:
        """The live record; what export writes."""
        return self._ledger.conversation

    @property
    def system(self) -> str | None:
        """The system prompt of the current sequence."""
        return self._turns.system

    @property
    def facts(self) -> ModelFacts:
        return self._engine.facts

    @property
    def id(self) -> str:
        return self._journal.id

    @property
    def warning(self) -> str | None:
        """Why the journal cannot be written at the moment; None while all is well."""
        return self._journal.warning

    @property
    def sampling(self) -> Sampling:
        """In force, with the seed that is used."""
        return self._engine.sampling

    def state(self) -> CacheState:
        return self._engine.state()

    def device_memory(self) -> DeviceMemory | None:
        return self._engine.device_memory()

    # -- turns

    def say(self, text: str) -> Generator[Event, None, None]:
        """A person's turn, then the reply. With an empty text the turn that is open is answered as it stands."""
        return self._run(self._say(text))

    def read(self, text: str, name: str) -> Generator[Event, None, None]:
        """A file's text, without a reply: the person's turn stays open for what is said or read next."""
        return self._run(self._read(text, name))

    def go_on(self) -> Generator[Event, None, None]:
        """More of what was last: of a reply; or of a text that was cut short, and then the reply to it."""
        return self._run(self._go_on())

    def retry(self) -> Generator[Event, None, None]:
        """The last reply again, in place of the one that was written. Raises `CacheError` once entries were evicted,
        since the cache cannot be rolled back then."""
        return self._run(self._retry())

    def resume(self) -> Generator[Event, None, None]:
        """Feed the tokens of a resumed session again: `Rebuilding` and `Evicted`, then `CacheChanged`; or
        `Finished` when cancelled, and what is missing is fed before the next turn."""
        return self._run(self._resume())

    # -- the cache

    def change(
        self,
        *,
        policy: Policy | None = None,
        positions: Positions | None = None,
        sinks: int | None = None,
        window: int | None = None,
    ) -> Generator[Event, None, None]:
        """As the engine's. Raises `CacheError` also when the pinned system prompt would not fit."""
        return self._run(self._change(policy, positions, sinks, window))

    def rebuild(self) -> Generator[Event, None, None]:
        """Run the sinks and the newest tokens through the model again."""
        return self._run(self._cache_run(self._engine.rebuild()))

    def clear(self, system: str | Keep | None = KEEP) -> Generator[Event, None, None]:
        """A new sequence, with this system prompt; the old one stays in the journal."""
        return self._run(self._clear(system))

    def resample(self, sampling: Sampling) -> None:
        """Draw the following tokens in this way."""
        self._engine.resample(sampling)
        self._ledger.write(SamplingSet(self.sampling))

    def cancel(self) -> None:
        """Stop what runs, at the next token or chunk. From any thread."""
        self._driver.cancel()

    def close(self) -> None:
        """End the journal. One in which nothing was said is removed. Raises `JournalError` when records are left
        that could not be written."""
        if not self._journal.closed and self.conversation.messages:
            self._ledger.write(Closed())
        self._leave_journal()

    def _leave_journal(self) -> None:
        if self.conversation.messages:
            self._journal.close()
        else:
            self._journal.discard()

    # -- how it is done

    def _run(self, run: Iterator[Event]) -> Generator[Event, None, None]:
        if self._running:
            raise UsageError("The last request is still being answered; stop it with Esc first.")
        self._running = True
        self._driver.begin()
        try:
            yield from run
        finally:
            self._running = False

    def _say(self, text: str) -> Iterator[Event]:
        if not text and self.conversation.sequence.place != "person":
            raise UsageError("There is nothing to answer; write something first.")
        fed = yield from self._turns.add("user", text, None, answered=True)
        if fed:
            yield from self._answer(self._ledger.begin("assistant", None))

    def _read(self, text: str, name: str) -> Iterator[Event]:
        if not text:
            raise UsageError(f"{name} is empty; there is nothing to read in it.")
        yield from self._turns.add("file", text, name, answered=False)

    def _go_on(self) -> Iterator[Event]:
        if (yield from self._driver.ended(self._driver.catch_up(), None)):
            return
        messages = self.conversation.current_messages
        last = messages[-1] if messages else None
        if last is None or (last.role == "file" and not last.cut_short):
            raise UsageError("There is nothing to go on with; say something first.")
        if last.role != "assistant":
            asked = self.conversation.sequence.place == "reply" and not last.cut_short
            if asked or ((yield from self._turns.read_on(last)) and last.role == "user"):
                yield from self._answer(self._ledger.begin("assistant", None))
            return
        self._ledger.write(ReplyContinued(last.number))
        yield from self._answer(last.number)

    def _retry(self) -> Iterator[Event]:
        messages = self.conversation.current_messages
        last = messages[-1] if messages else None
        if last is None or last.role != "assistant":
            raise UsageError("There is no reply to write anew; say something first.")
        if (yield from self._driver.ended(self._driver.catch_up(), None)):
            return
        if last.first_position is not None:
            self._engine.truncate(last.first_position)
            self._ledger.write(TakenBack(last.number, last.first_position))
        yield from self._answer(self._ledger.begin("assistant", None))

    def _resume(self) -> Iterator[Event]:
        before = self.state()
        if (yield from self._driver.ended(self._driver.catch_up(), None)):
            return
        after = self.state()
        if after.position > before.position:
            # All tokens ran under the rules of now, as in a conversation that was never interrupted.
            changed = CacheChanged("rebuild", before, after, exact=True)
            self._ledger.note(changed, None, after.position)
            yield changed

    def _answer(self, message: int) -> Iterator[Event]:
        cap = 0 if self.endless else self.max_reply_tokens
        ignore_stops = self.endless or self.ignore_stops
        yield from self._driver.ended(self._driver.reply(message, cap, ignore_stops=ignore_stops), message)

    def _change(
        self, policy: Policy | None, positions: Positions | None, sinks: int | None, window: int | None
    ) -> Iterator[Event]:
        pinned = self._turns.system_tokens if self.pin_system else 0
        if sinks is not None and sinks < pinned:
            raise CacheError(
                f"The system prompt is pinned as the first {pinned} tokens, so there cannot be {sinks} sinks; "
                f"take {pinned} or more, or start without --pin-system."
            )
        if window is not None:
            self._refuse_large_pin(pinned, window)
        yield from self._cache_run(
            self._engine.change(policy=policy, positions=positions, sinks=sinks, window=window)
        )
        if sinks is not None:
            self._own_sinks = sinks

    def _clear(self, system: str | Keep | None) -> Iterator[Event]:
        wanted = self.system if isinstance(system, Keep) else system and paired(system)
        turns = Turns(self._template, self._ledger, self._driver, wanted)
        self._refuse_large_pin(turns.system_tokens, self.state().window)
        # All of it before the first event is seen: a clear that is half done would be undone by the next turn.
        events = list(self._cache_run(self._engine.clear()))
        if self.state().position:
            yield from events  # it failed, and says so
            return
        self._ledger.write(SequenceBegun(wanted, "clear" if isinstance(system, Keep) else "system"))
        self._turns = turns
        events += self._pin()
        yield from events

    def _cache_run(self, events: Iterator[Event]) -> Iterator[Event]:
        yield from self._driver.ended(self._driver.change(events), None)

    def _pin(self) -> Iterator[Event]:
        """Let the sinks cover the system prompt, or take them back to what they were without one."""
        wanted = max(self._own_sinks, self._turns.system_tokens) if self.pin_system else self._own_sinks
        if wanted != self.state().sinks:
            yield from self._cache_run(self._engine.change(sinks=wanted))

    def _refuse_large_pin(self, tokens: int, window: int) -> None:
        if self.pin_system and tokens > self._own_sinks and tokens > window // 2:
            raise CacheError(
                f"The system prompt has {tokens} tokens, and may be pinned up to half of the window of {window}; "
                f"take a window of {2 * tokens} or more, shorten the prompt, or leave out --pin-system."
            )

    def _refuse_other_model(self) -> None:
        was, now = self.conversation.openings[-1].record.facts, self.facts
        if _shape(was) != _shape(now):
            raise UsageError(
                f"The session {self.id} was held with {was.name}, and its tokens mean nothing to {now.name}; "
                f"resume it with --model {was.name}."
            )

    def _opened(self) -> Opened:
        return Opened(
            session=self.id,
            program=_program(),
            facts=self.facts,
            sampling=self.sampling,
            cache=self.state(),
            max_reply_tokens=self.max_reply_tokens,
            pin_system=self.pin_system,
            plain=self._template.plain,
            resumed=self.resumed,
        )


def _shape(facts: ModelFacts) -> tuple[str, int, int, int, int]:
    return facts.family, facts.layers, facts.heads, facts.kv_heads, facts.trained_length


def _program() -> str:
    try:
        return metadata.version("sinkchat")
    except metadata.PackageNotFoundError:
        return "unknown"
