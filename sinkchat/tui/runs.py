"""What the model does now and what waits for its turn: one thing at a time, in the order in which it was asked.

A change of the cache does not wait for the end of a reply that may never end: it interrupts, and the reply or the
reading goes on behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Literal

from sinkchat.chat.session import ChatSession
from sinkchat.engine.events import ChunkRead, Event, Evicted, Finished, Prefilled, Rebuilding, Token
from sinkchat.tui import engine_thread
from sinkchat.tui.engine_thread import EngineThread, Job

Kind = Literal["say", "go on", "read", "change", "clear"]
Phase = Literal["loading", "failed", "idle", "reading", "writing", "changing"]

WRITES = ("say", "go on")


@dataclass(frozen=True, slots=True)
class Work:
    """Something to do. `label` is shown while it waits; `text` can be taken back into the input box."""

    kind: Kind
    start: Callable[[ChatSession], Generator[Event, None, None]]
    label: str
    text: str = ""


def say(text: str) -> Work:
    return Work("say", lambda session: session.say(text), text, text)


def go_on() -> Work:
    return Work("go on", lambda session: session.go_on(), "/continue", "/continue")


def retry() -> Work:
    return Work("say", lambda session: session.retry(), "/retry", "/retry")


def read(text: str, name: str) -> Work:
    return Work("read", lambda session: session.read(text, name), f"/read {name}", f"/read {name}")


def nothing(_session: ChatSession) -> Generator[Event, None, None]:
    yield from ()


def _read_rest(session: ChatSession) -> Generator[Event, None, None]:
    """What a change of the cache left unread of a file."""
    message = session.conversation.messages[-1] if session.conversation.messages else None
    if message is None or message.role != "file" or not message.cut_short or message.words is None:
        return nothing(session)
    return session.read(message.words[len(message.spoken) :], message.name or "")


@dataclass
class Progress:
    """Of what is being done, in tokens."""

    done: int = 0
    total: int | None = None


@dataclass
class Runs:
    """Fed with what the engine's thread says, in order."""

    engine: EngineThread
    session: ChatSession | None = None
    phase: Phase = "loading"
    progress: Progress = field(default_factory=Progress)
    again: Progress | None = None
    """Of what runs again in the middle of reading or writing, which then goes on; None while nothing does."""
    waiting: list[Work] = field(default_factory=list)
    switching: bool = False
    """What was running was interrupted for a change of the cache, and goes on behind it."""
    last_end: Finished | None = None
    """How the latest reading or writing ended, if it said so."""
    _current: Work | None = None
    _changes: list[Work] = field(default_factory=list)
    """Come before anything that waits."""
    _rest: Work | None = None
    """Goes on with what was interrupted, behind the changes."""
    _interrupted: Work | None = None
    """To be interrupted, once its prompt is read."""

    @property
    def busy(self) -> bool:
        return self._current is not None

    @property
    def writes(self) -> bool:
        """A reply is being read for or written now."""
        return self._current is not None and self._current.kind in WRITES

    def submit(self, work: Work) -> None:
        self.waiting.append(work)
        self._next()

    def interrupt(self, work: Work) -> None:
        """Do this now, and then go on with what was interrupted."""
        if self.session is None:
            self.submit(work)
            return
        self._changes.append(work)
        current = self._current
        if current is None:
            self._next()
        elif current.kind == "say" and self.phase == "reading":
            # A prompt is short, and cutting it would cut the person's own words.
            self._interrupted = current
        elif current.kind in (*WRITES, "read") and self._rest is None:
            self._cut(current)

    def replace(self, work: Work) -> None:
        """Do this next, and do not go on with what is running."""
        self.stop()
        self._changes.append(work)
        self._next()

    def stop(self) -> bool:
        """Stop what is running; what waits comes next. False if nothing runs."""
        self._rest = self._interrupted = None
        self.switching = False
        if self.session is not None:
            self.session.endless = False
        if self._current is None:
            return False
        self.engine.cancel()
        return True

    def take_back(self) -> str | None:
        """The latest thing that waits, as it was typed; it waits no more."""
        if not self.waiting or not self.waiting[-1].text:
            return None
        return self.waiting.pop().text

    def take(self, said: engine_thread.Said) -> None:
        if isinstance(said, engine_thread.Opened):
            self.session, self.phase = said.session, "idle"
            self._next()
        elif isinstance(said, engine_thread.OpenFailed):
            self.phase = "failed"
            self.waiting.clear()
        elif isinstance(said, engine_thread.Happened):
            self._event(said.event)
        elif isinstance(said, engine_thread.Ended):
            self._ended()

    def _cut(self, current: Work) -> None:
        self._rest = Work("read", _read_rest, "the rest") if current.kind == "read" else go_on()
        self._interrupted = current
        self.switching = True
        self.engine.cancel()

    def _event(self, event: Event) -> None:
        self._note_again(event)
        if isinstance(event, ChunkRead):
            self.progress = Progress(event.done, event.total)
            if self._current is not None and self._current.kind == "go on":
                self.phase = "reading"  # of a text that was cut short
        elif isinstance(event, Rebuilding) and self.phase == "changing":
            self.progress = Progress(event.done, event.total)
        elif isinstance(event, Prefilled | Token):
            if self.phase == "reading" and self.writes:
                self.phase = "writing"
                if self._interrupted is not None and self._interrupted is self._current:
                    self._cut(self._interrupted)
        elif isinstance(event, Finished):
            self.last_end = event
        if isinstance(event, ChunkRead | Token) and self._rest is None:
            self.switching = False

    def _note_again(self, event: Event) -> None:
        if self.phase not in ("reading", "writing"):
            return
        if isinstance(event, Rebuilding):
            self.again = Progress(event.done, event.total) if event.done < event.total else None
        elif isinstance(event, Evicted):
            if event.cause == "recompute":  # before the first progress of it
                self.again = Progress()
        else:
            self.again = None

    def _ended(self) -> None:
        if self._current is self._interrupted and self._rest is not None:
            cut = self.last_end is not None and self.last_end.reason == "cancelled"
            if not cut:
                # It came to its own end before it could be interrupted: there is nothing to go on with.
                self._rest, self.switching = None, False
        self._current = self._interrupted = self.again = None
        self.phase = "idle"
        self._next()

    def _next(self) -> None:
        if self._current is not None or self.session is None:
            return
        if self._changes:
            work = self._changes.pop(0)
        elif self._rest is not None:
            work, self._rest = self._rest, None
        elif self.waiting:
            work = self.waiting.pop(0)
        else:
            return
        self._current = work
        self.progress = Progress()
        if work.kind != "change":
            self.last_end = None
        self.phase = {"say": "reading", "read": "reading", "go on": "writing"}.get(work.kind, "changing")  # type: ignore[assignment]
        self.engine.submit(Job(work.kind, work.start))
