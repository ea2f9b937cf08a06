"""The chat on a screen without a terminal, over the fake engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from sinkchat.chat.journal import Journal
from sinkchat.chat.session import ChatSession
from sinkchat.models.progress import ProgressSink
from sinkchat.settings import Settings
from sinkchat.tui import runs
from sinkchat.tui.app import SinkchatApp
from sinkchat.tui.screens.chat import ChatScreen
from sinkchat.tui.widgets.hint import Hint
from sinkchat.tui.widgets.status_line import StatusLine
from sinkchat.tui.widgets.transcript import Transcript
from sinkchat.tui.widgets.waiting import Waiting
from tests.fakes import FakeEngine, FakeTemplate

PATIENCE = 15.0
"""Seconds after which something that never happens fails a test."""


class Chat:
    """A running chat, as a test drives it."""

    def __init__(self, app: SinkchatApp, pilot: Pilot[None], engine: FakeEngine) -> None:
        self.app, self.pilot, self.engine = app, pilot, engine

    @property
    def screen(self) -> ChatScreen:
        return self.app._chat

    @property
    def session(self) -> ChatSession:
        assert self.screen.runs.session is not None
        return self.screen.runs.session

    @property
    def transcript(self) -> Transcript:
        return self.screen.query_one(Transcript)

    @property
    def hint(self) -> str:
        return self.screen.query_one(Hint).words

    @property
    def state(self) -> str:
        return self.screen.query_one(StatusLine).status.state

    @property
    def waiting(self) -> str:
        widget = self.screen.query_one(Waiting)
        return widget.render().plain if widget.display else ""

    @property
    def said(self) -> str:
        """All of the transcript: voice and text of each passage, and what is said below it."""
        return "\n".join(
            f"{passage.voice}: {passage.text}" + (f" [{passage.footer}]" if passage.footer else "")
            for passage in self.transcript.passages
        )

    def lines(self) -> list[str]:
        """The screen's lines as a terminal would show them."""
        return [strip.text for strip in self.screen._compositor.render_strips()]

    async def until(self, what: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < end, f"never happened; the screen says:\n{chr(10).join(self.lines())}"
            await self.pilot.pause(0.01)

    async def ready(self) -> None:
        await self.until(lambda: self.screen.runs.session is not None)

    async def idle(self) -> None:
        """Everything was said, and is on the screen."""
        runs = self.screen.runs
        await self.until(lambda: not runs.busy and not runs.waiting and not self.screen.engine.said)
        await self.pilot.pause(0.01)

    async def type(self, text: str) -> None:
        self.screen.prompt.set_text(text)
        await self.pilot.pause(0.01)

    async def press(self, *keys: str) -> None:
        """Press keys at once: the pilot's own way waits for an engine that is at work."""
        for key in keys:
            self.app.simulate_key(key)
            await self.pilot.pause(0.01)

    async def send(self, text: str) -> None:
        """Write and press Enter."""
        await self.type(text)
        await self.press("enter")

    async def say_without_following(self, text: str) -> None:
        """As if the message had been sent before somebody scrolled up."""
        self.screen.runs.submit(runs.say(text))
        await self.idle()

    async def say(self, text: str) -> None:
        """Send, and wait for the reply."""
        await self.send(text)
        await self.idle()


Play = Callable[..., Any]


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test touches a person's own files."""
    for kind in ("CONFIG", "DATA", "CACHE", "STATE"):
        monkeypatch.setenv(f"SINKCHAT_{kind}_DIR", str(tmp_path / kind.lower()))
    return tmp_path


@pytest.fixture
def play(folders: Path) -> Play:
    """Runs a scenario with a chat; the engine, its session and the settings as the test wants them."""

    def run(
        scenario: Callable[[Chat], Awaitable[None]],
        engine: FakeEngine | None = None,
        *,
        size: tuple[int, int] = (120, 36),
        open_session: Callable[[ProgressSink], ChatSession] | None = None,
        settings: Settings | None = None,
        wait: bool = True,
    ) -> None:
        engine = engine or FakeEngine()

        def open_fake(_progress: ProgressSink) -> ChatSession:
            return ChatSession(engine, FakeTemplate(), Journal.create(folders / "sessions"), sampling=engine.sampling)

        async def main() -> None:
            app = SinkchatApp(open_session or open_fake, settings or Settings())
            async with app.run_test(size=size) as pilot:
                chat = Chat(app, pilot, engine)
                if wait:
                    await chat.ready()
                await scenario(chat)
            app._chat.engine.stop(PATIENCE)

        asyncio.run(main())

    return run
