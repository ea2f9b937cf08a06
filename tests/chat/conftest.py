from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sinkchat.chat.journal import Journal
from sinkchat.chat.session import ChatSession
from sinkchat.engine.events import Event
from tests.fakes import FakeEngine, FakeTemplate

OpenChat = Callable[..., ChatSession]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


@pytest.fixture
def open_chat(folder: Path) -> OpenChat:
    """A chat with a fake engine and a new journal."""

    def opened(engine: FakeEngine | None = None, **settings: object) -> ChatSession:
        return ChatSession(engine or FakeEngine(), FakeTemplate(), Journal.create(folder), **settings)  # type: ignore[arg-type]

    return opened


def drain(events: Iterator[Event]) -> list[Event]:
    return list(events)


def of(events: list[Event], *kinds: type) -> list[Event]:
    return [event for event in events if isinstance(event, kinds)]
