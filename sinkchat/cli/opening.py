"""From settings to a session that can talk: find the model, load it, bound its cache, begin a journal.

Importing this module imports no model library; calling `open_session` does.
"""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sinkchat import locations
from sinkchat.engine.events import Rebuilding
from sinkchat.models.progress import Progress, ProgressSink
from sinkchat.models.sampling import Sampling
from sinkchat.settings import Settings

if TYPE_CHECKING:
    from sinkchat.chat.journal import Journal
    from sinkchat.chat.session import ChatSession
    from sinkchat.models.load import LoadedModel


def drawn_as(default: Sampling, settings: Settings) -> Sampling:
    """The model's own way to draw tokens, with what the person set in its place."""
    chosen: dict[str, Any] = {
        name: value
        for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed")
        if (value := getattr(settings, name)) is not None
    }
    return dataclasses.replace(default, **chosen)


def load_model(name: str | None, settings: Settings, progress: ProgressSink, window: int | None) -> LoadedModel:
    """Find and load the model of that name, None for the small one; `window` entries are to fit beside it.

    Raises `ModelError` if there is no such model or it cannot be run.
    """
    # First of all: it sets what the other libraries read from the environment when they are imported.
    importlib.import_module("sinkchat.models.libraries")
    from sinkchat.models.allowed import Allowed
    from sinkchat.models.find import find

    # A misspelt name is told at once, before anything heavy is imported.
    allowed = Allowed(pickle=settings.allow_pickle, remote_code=settings.trust_remote_code)
    source = find(name, small_model_file=settings.small_model_file, allowed=allowed)
    progress(Progress("starting the libraries", 0, None))
    from sinkchat.models.load import load

    return load(
        source,
        quant=settings.quant,
        device=settings.device,
        dtype=settings.dtype,
        device_map=settings.device_map,
        window=window,
        progress=progress,
    )


def open_session(settings: Settings, progress: ProgressSink, resuming: Path | None = None) -> ChatSession:
    """Takes seconds, or minutes when a model is fetched; progress is reported in stages.

    resuming: the journal of a session to go on with, by the model that it was held with unless settings name one.
    Raises `ModelError` if there is no such model or it cannot be run, `CacheError` if the window does not fit,
    `JournalError` if nothing can be written, or the session is in use or damaged.
    """
    # First of all: it sets what the other libraries read from the environment when they are imported.
    importlib.import_module("sinkchat.models.libraries")
    from sinkchat.chat.journal import Journal

    if resuming is None:
        # Told before the minutes that a model may take. No file is kept for a session that may never begin.
        Journal.create(locations.sessions_dir()).discard()
        return _opened(settings, progress, None)
    # Locked from now on, so that nobody else goes on with it while the model is loaded.
    journal = Journal.open(resuming)
    try:
        return _opened(settings, progress, journal)
    except BaseException:
        journal.abandon()
        raise


def _opened(settings: Settings, progress: ProgressSink, journal: Journal | None) -> ChatSession:
    name = settings.model or (_held_with(journal) if journal else None)
    loaded = load_model(name, settings, progress, settings.window)
    from sinkchat.chat.journal import Journal
    from sinkchat.chat.session import ChatSession
    from sinkchat.engine.engine import SinkEngine

    sampling = drawn_as(loaded.sampling, settings)
    engine = SinkEngine(
        loaded,
        policy=settings.policy,
        positions=settings.positions,
        sinks=settings.sinks,
        window=settings.window,
        sampling=sampling,
    )
    session = ChatSession(
        engine,
        loaded.template,
        journal or Journal.create(locations.sessions_dir()),
        system=settings.system,
        pin_system=settings.pin_system,
        max_reply_tokens=settings.max_reply_tokens,
        sampling=sampling,
    )
    _read_again(session, progress)
    return session


def _held_with(journal: Journal) -> str | None:
    """The name of the model that the session was held with; None for the small one."""
    from sinkchat.chat.records import Opened
    from sinkchat.models.find import SMALL_MODEL

    names = [entry.record.facts.name for entry in journal.entries if isinstance(entry.record, Opened)]
    return names[-1] if names and names[-1] != SMALL_MODEL else None


def _read_again(session: ChatSession, progress: ProgressSink) -> None:
    """Let the model read a resumed conversation up to where it ended."""
    if session.resumed:
        for event in session.resume():
            if isinstance(event, Rebuilding):
                progress(Progress("reading the conversation again", event.done, event.total, "tokens"))
