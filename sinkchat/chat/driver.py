"""Runs the engine for a session: prompts, replies, changes; journaled event by event, whatever interrupts it.

What the engine has and what the conversation says are compared before every run. However the last one ended, the
tokens that the engine lacks are fed first, and a frame that was cut is completed, so that every turn is properly
formed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace

from sinkchat.chat.ledger import Ledger
from sinkchat.chat.records import ChunkFed, PromptPlanned
from sinkchat.engine.contract import Engine
from sinkchat.engine.events import (
    ChunkRead,
    Event,
    Evicted,
    Finished,
    Prefilled,
    Readmitted,
    Reason,
    Rebuilding,
    Token,
)
from sinkchat.errors import SinkchatError

Run = Generator[Event, None, Finished | None]
"""Events without the last; returns it, where there is one, for the caller to note and send."""

_log = logging.getLogger(__name__)

_FRAME_TRIES = 3


class Driver:
    """One thread runs it; `cancel` may be called from any."""

    def __init__(self, engine: Engine, ledger: Ledger) -> None:
        self._engine = engine
        self._ledger = ledger
        self._feeding: tuple[int, ...] = ()
        self._feeding_from = 0  # position of the first of them
        self._cancelled = threading.Event()
        self._shielded = False  # while a frame is completed, which no cancel may cut

    def begin(self) -> None:
        """A new run: a cancel that came before it is forgotten."""
        self._cancelled.clear()

    def cancel(self) -> None:
        """Stop at the next token or chunk, also when it comes between a prompt and its reply."""
        self._cancelled.set()
        if not self._shielded:
            self._engine.cancel()

    def prompt(self, plan: PromptPlanned, text: tuple[int, ...]) -> Run:
        """Feed `plan`, whose text is `text`. When it is cancelled inside a frame, the frame is completed."""
        self._ledger.write(plan)
        ids = (*plan.lead, *text, *plan.tail)
        if not ids:
            return None
        end = yield from self._events(self._prefill(ids), plan.message)
        if end is not None and end.reason == "cancelled":
            failure = yield from self._complete_frame(plan.message)
            done = self._ledger.conversation.sequence.plan_done
            end = failure or replace(end, tokens=done, cache=self._engine.state())
        return end

    def reply(self, message: int, max_tokens: int, *, ignore_stops: bool) -> Run:
        if self._cancelled.is_set():
            return self._ending("cancelled", 0)
        end = yield from self._events(self._engine.generate(max_tokens, ignore_stops=ignore_stops), message)
        return end or self._ending("error", 0, "the engine stopped without saying why")

    def change(self, events: Iterator[Event]) -> Run:
        """Run a change of the cache. A refusal is raised, since nothing changed."""
        return (yield from self._events(events, None, changing=True))

    def catch_up(self) -> Run:
        """Feed what the conversation says was fed and the engine does not have."""
        self._learn_what_was_fed()
        # First what the engine itself knows to be missing (a token that was said and not fed, a rebuild that broke
        # off): an empty prompt makes it good. Then what only the conversation knows, as after a resumption.
        if self._missing() and (end := (yield from self._replay(()))):
            return end
        if (missing := self._missing()) and (end := (yield from self._replay(missing))):
            return end
        return (yield from self._complete_frame(None))

    def ended(self, run: Run, message: int | None) -> Generator[Event, None, bool]:
        """Run it, and journal and pass on how it ended, if it says so; True then, and the run is over."""
        end = yield from run
        if end is None:
            return False
        self._ledger.end(message, end)
        yield end
        return True

    def _replay(self, ids: tuple[int, ...]) -> Run:
        return self._events(self._engine.prefill(ids), None, _as_replay if ids else _as_rest)

    def _missing(self) -> tuple[int, ...]:
        tokens = self._ledger.conversation.sequence.tokens
        return tuple([token.id for token in tokens[self._engine.state().position :]])

    def _complete_frame(self, message: int | None) -> Run:
        sequence = self._ledger.conversation.sequence
        tries = 0
        while (rest := sequence.unfinished_frame) and tries < _FRAME_TRIES:
            tries += 1  # a cancel that was already on its way may cut the first
            before, total = sequence.plan_done, sequence.plan_total

            def placed(event: Event, before: int = before, total: int = total) -> Event | None:
                if isinstance(event, ChunkRead):
                    return replace(event, done=before + event.done, total=total)
                return None if isinstance(event, Prefilled) else event

            with self._shield():
                end = yield from self._events(self._prefill(rest), message, placed)
            if end is not None and end.reason == "error":
                return end
        return None

    def _prefill(self, ids: tuple[int, ...]) -> Iterator[Event]:
        self._feeding, self._feeding_from = ids, self._engine.state().position
        return self._engine.prefill(ids)

    @contextmanager
    def _shield(self) -> Iterator[None]:
        self._shielded = True
        try:
            yield
        finally:
            self._shielded = False

    def _events(
        self,
        events: Iterator[Event],
        message: int | None,
        seen_as: Callable[[Event], Event | None] = lambda event: event,
        *,
        changing: bool = False,
    ) -> Run:
        """Journal each event, then pass it on. An exception becomes an end with the reason `error`."""
        count = 0
        end: Finished | None = None
        try:
            for event in events:
                if isinstance(event, Finished):
                    end = event
                    continue
                count = event.done if isinstance(event, ChunkRead) else count + isinstance(event, Token)
                seen = seen_as(event)
                if seen is None:
                    continue
                self._note(seen, message, changing)
                if self._cancelled.is_set() and not self._shielded:
                    self._engine.cancel()  # again: the first may have come before the engine had begun
                yield seen
        except GeneratorExit:
            self._drain(events, message, seen_as, changing)
            raise
        except KeyboardInterrupt:
            self._learn_what_was_fed()
            self._ledger.end(message, self._ending("cancelled", count))
            raise
        except Exception as error:
            if changing and isinstance(error, SinkchatError):
                raise
            _log.exception("The engine failed")
            self._learn_what_was_fed()
            said = str(error) if isinstance(error, SinkchatError) else f"{type(error).__name__}: {error}"
            end = self._ending("error", count, said)
        return end

    def _drain(
        self,
        events: Iterator[Event],
        message: int | None,
        seen_as: Callable[[Event], Event | None],
        changing: bool,
    ) -> None:
        """Nobody listens any more: stop the engine in order, and journal how it came to its end."""
        self._engine.cancel()
        try:
            for event in events:
                seen = seen_as(event)
                if isinstance(seen, Finished):
                    self._ledger.end(message, seen)
                elif seen is not None:
                    self._note(seen, message, changing)
        except Exception as error:  # noqa: BLE001 (whatever it is, it ends in the journal)
            _log.exception("The engine failed")
            self._learn_what_was_fed()
            self._ledger.end(message, self._ending("error", 0, f"{type(error).__name__}: {error}"))

    def _note(self, event: Event, message: int | None, changing: bool) -> None:
        """`changing`: the sequence does not grow, though the engine may run parts of it again."""
        position = self._ledger.conversation.sequence.next_position
        if isinstance(event, Evicted) and event.cause == "recompute":
            # The engine counts on from the first token that runs again; what had been fed filled the window.
            state = self._engine.state()
            position = event.first + state.window - state.sink_entries
        elif isinstance(event, Evicted | Readmitted) and not changing:
            position = self._engine.state().position
        self._ledger.note(event, message, position)

    def _learn_what_was_fed(self) -> None:
        """A chunk that went in and was never told of, since the engine broke off: its ids are known."""
        position = self._ledger.conversation.sequence.next_position
        ahead = self._engine.state().position - position
        if ahead > 0:
            start = position - self._feeding_from
            ids = self._feeding[start : start + ahead]
            count = len(ids)
            self._ledger.write(ChunkFed(position, ids, ("",) * count, (None,) * count, (None,) * count))

    def _ending(self, reason: Reason, tokens: int, error: str | None = None) -> Finished:
        return Finished(
            reason=reason,
            tokens=tokens,
            tokens_per_second=None,
            seconds_to_first_token=None,
            sink_share=None,
            share_heads=None,
            cache=self._engine.state(),
            error=error,
        )


def _as_replay(event: Event) -> Event | None:
    """A prompt that was fed before is no news: only how far it is, whatever runs again on the way."""
    if isinstance(event, ChunkRead):
        return Rebuilding(event.done, event.total)
    return None if isinstance(event, Prefilled | Rebuilding) else event


def _as_rest(event: Event) -> Event | None:
    """An empty prompt, for what the engine itself has to make good."""
    return None if isinstance(event, Prefilled) else event
