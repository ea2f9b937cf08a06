"""A screen that listens to the engine's thread: it looks at what was said a few times a second, if anything was."""

from __future__ import annotations

import time

from textual.message import Message
from textual.screen import Screen

from sinkchat.tui.engine_thread import EngineThread, OpenSession, Said
from sinkchat.tui.later import after

FRAME = 1 / 30
"""Seconds between two looks."""


class ListeningScreen(Screen[None]):
    class EngineSpoke(Message):
        """The engine's thread said something."""

    def __init__(self, open_session: OpenSession) -> None:
        super().__init__()
        self.engine = EngineThread(open_session, self._wake)
        self._woken = False
        self._next_look = 0.0

    def take(self, said: Said) -> None:
        """What the engine said, one after another."""
        raise NotImplementedError

    def show_all(self) -> None:
        """Everything that was said by now is taken: show it."""
        raise NotImplementedError

    def _wake(self) -> None:
        """Called in the engine's thread. One message is on its way at a time, however fast the engine speaks."""
        if not self._woken:
            self._woken = True
            self.post_message(self.EngineSpoke())

    def on_listening_screen_engine_spoke(self) -> None:
        wait = self._next_look - time.monotonic()
        if wait > 0:
            after(wait, self, self._look)
        else:
            self._look()

    def _look(self) -> None:
        if not self.app.is_running:
            return  # it is being left, and its parts are gone already
        began = time.monotonic()
        self._woken = False
        for _ in range(len(self.engine.said)):
            self.take(self.engine.said.popleft())
        self.show_all()
        now = time.monotonic()
        # A look that took long is followed by a longer pause: keys come first.
        self._next_look = now + max(FRAME, 3 * (now - began))
