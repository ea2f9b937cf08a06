"""The thread that the model lives in: it opens the session, runs one job after another, and says what happened.

A daemon thread of its own, because quitting must wait neither for a load nor for a token. What it says goes into a
queue without end that the screen empties at its own pace; the thread never waits for the screen.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field

from sinkchat import locations
from sinkchat.chat.session import ChatSession
from sinkchat.engine.events import DeviceMemory, Event
from sinkchat.errors import SinkchatError
from sinkchat.models.progress import Progress, ProgressSink

MEASURE_EVERY = 1.0
"""Seconds between two looks at the device's memory."""

OpenSession = Callable[[ProgressSink], ChatSession]

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Job:
    """Something for the session to do. `start` is called in the engine's thread."""

    kind: str
    start: Callable[[ChatSession], Generator[Event, None, None]]
    cancelled: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Opening:
    progress: Progress


@dataclass(frozen=True, slots=True)
class Opened:
    session: ChatSession


@dataclass(frozen=True, slots=True)
class OpenFailed:
    error: str


@dataclass(frozen=True, slots=True)
class Began:
    job: Job


@dataclass(frozen=True, slots=True)
class Happened:
    event: Event
    at: float
    """Seconds of `time.monotonic` when the event came out of the engine."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The device's memory; asked for once a second, and never while a token is computed."""

    memory: DeviceMemory | None


@dataclass(frozen=True, slots=True)
class Ended:
    job: Job
    error: str | None
    """One sentence for the person, if the job could not be done."""


Said = Opening | Opened | OpenFailed | Began | Happened | Measured | Ended


class EngineThread:
    """`said` is emptied by the screen's thread; `wake` is called here, in this thread, when something was added."""

    def __init__(self, open_session: OpenSession, wake: Callable[[], None]) -> None:
        self.said: deque[Said] = deque()
        self._open_session = open_session
        self._wake = wake
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._session: ChatSession | None = None
        self._current: Job | None = None
        self._measured_at = -MEASURE_EVERY
        self.left_undone = ""
        """Why the session could not be closed in order; one sentence, once the thread has ended."""
        self._thread = threading.Thread(target=self._run, name="sinkchat-engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: Job) -> None:
        self._jobs.put(job)

    def cancel(self) -> None:
        """Stop what is running at the next token or chunk."""
        job, session = self._current, self._session
        if job is not None:
            job.cancelled.set()
            if session is not None:
                session.cancel()

    @property
    def unsaved(self) -> bool:
        """Whether something that was said is not on disk yet."""
        return self._session is not None and self._session.warning is not None

    def stop(self, patience: float) -> bool:
        """End the thread; wait so many seconds at most for it to close the session. True if it ended."""
        if not self._thread.ident:
            return True
        self.cancel()
        self._jobs.put(None)
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _say(self, said: Said) -> None:
        self.said.append(said)
        try:
            self._wake()
        except RuntimeError:
            # The screen is gone already; what was said is in the journal.
            _log.info("nobody listens any more")

    def _measure(self, session: ChatSession) -> None:
        now = time.monotonic()
        if now - self._measured_at >= MEASURE_EVERY:
            self._measured_at = now
            self._say(Measured(session.device_memory()))

    def _run(self) -> None:
        try:
            session = self._open_session(lambda progress: self._say(Opening(progress)))
        except Exception as error:  # noqa: BLE001 -- whatever it is, the person must read it
            self._say(OpenFailed(sentence(error, "open the model")))
            return
        self._session = session
        self._say(Opened(session))
        self._measure(session)
        while (job := self._jobs.get()) is not None:
            self._current = job
            self._say(Began(job))
            trouble = self._do(job, session)
            self._current = None
            self._say(Ended(job, trouble))
        try:
            session.close()
        except Exception as error:  # noqa: BLE001 -- the last word of this thread
            self.left_undone = sentence(error, "close the session")

    def _do(self, job: Job, session: ChatSession) -> str | None:
        try:
            events = job.start(session)
            with closing(events):
                for event in events:
                    self._say(Happened(event, time.monotonic()))
                    self._measure(session)
                    if job.cancelled.is_set():
                        # A cancel that came before the engine had begun was forgotten: ask again.
                        session.cancel()
        except Exception as error:  # noqa: BLE001 -- a failed job must not end the chat
            return sentence(error, job.kind)
        return None


def sentence(error: Exception, doing: str) -> str:
    """What a person is told of an error; what should not have been goes into the log."""
    if isinstance(error, SinkchatError):
        return str(error)
    _log.exception("while trying to %s", doing)
    reason = str(error).strip().split("\n")[0] or type(error).__name__
    return f"Could not {doing}: {reason}; the log {locations.log_file()} says more."
