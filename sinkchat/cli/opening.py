"""From settings to a session that can talk: find the model, load it, bound its cache, begin a journal.

Importing this module imports no model library; calling `open_session` does.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import TYPE_CHECKING, Any

from sinkchat import locations
from sinkchat.models.progress import Progress, ProgressSink
from sinkchat.models.sampling import Sampling
from sinkchat.settings import Settings

if TYPE_CHECKING:
    from sinkchat.chat.session import ChatSession


def drawn_as(default: Sampling, settings: Settings) -> Sampling:
    """The model's own way to draw tokens, with what the person set in its place."""
    chosen: dict[str, Any] = {
        name: value
        for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed")
        if (value := getattr(settings, name)) is not None
    }
    return dataclasses.replace(default, **chosen)


def open_session(settings: Settings, progress: ProgressSink) -> ChatSession:
    """Takes seconds, or minutes when a model is fetched; progress is reported in stages.

    Raises `ModelError` if there is no such model or it cannot be run, `CacheError` if the window does not fit,
    `JournalError` if nothing can be written.
    """
    # First of all: it sets what the other libraries read from the environment when they are imported.
    importlib.import_module("sinkchat.models.libraries")
    from sinkchat.models.find import find

    # A misspelt name is told at once, before anything heavy is imported.
    source = find(settings.model, small_model_file=settings.small_model_file)
    progress(Progress("starting the libraries", 0, None))
    from sinkchat.chat.journal import Journal
    from sinkchat.chat.session import ChatSession
    from sinkchat.engine.engine import SinkEngine
    from sinkchat.models.load import load
    from sinkchat.models.template import ChatTemplate

    loaded = load(source, quant=settings.quant, device=settings.device, dtype=settings.dtype, progress=progress)
    sampling = drawn_as(loaded.sampling, settings)
    engine = SinkEngine(
        loaded,
        policy=settings.policy,
        positions=settings.positions,
        sinks=settings.sinks,
        window=settings.window,
        sampling=sampling,
    )
    return ChatSession(
        engine,
        ChatTemplate(loaded.tokenizer),
        Journal.create(locations.sessions_dir()),
        system=settings.system,
        pin_system=settings.pin_system,
        max_reply_tokens=settings.max_reply_tokens,
        sampling=sampling,
    )
