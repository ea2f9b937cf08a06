"""The screen of sinkchat: puts the themes, the chat and its commands together."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, ClassVar, TextIO

from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import Provider

from sinkchat import locations
from sinkchat.chat.printable import visible
from sinkchat.errors import UsageError
from sinkchat.settings import Settings
from sinkchat.tui import themes
from sinkchat.tui.engine_thread import OpenSession
from sinkchat.tui.palette import CommandProvider
from sinkchat.tui.screens.chat import ChatScreen
from sinkchat.tui.terminal import guarded

PATIENCE = 0.5
"""Seconds that leaving waits for the session to be closed in order. All of it is on disk already."""
PATIENCE_UNSAVED = 60.0
"""The same, where it is not: a disk is full, and what was said is put somewhere else."""

ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals that end the program in order: the session is closed and the terminal is as it was before."""


class SinkchatApp(App[None]):
    CSS_PATH = "sinkchat.tcss"
    TITLE = "sinkchat"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {CommandProvider}
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+q", "quit", "Leave", show=False, priority=True)]

    def __init__(self, open_session: OpenSession, settings: Settings) -> None:
        """`open_session` is called in the engine's thread, after the first picture; it may take minutes."""
        super().__init__()
        self.terminal: TextIO | None = None
        """Where programs that are started from the screen are seen; None where it is the usual one."""
        self._asked_by: int | None = None  # the signal that ends the program
        self._themes = themes.load_themes()
        for theme in self._themes.by_name.values():
            self.register_theme(themes.to_textual(theme))
        troubles = list(self._themes.problems)
        try:
            self.theme = self._themes.choose(settings.theme).name
        except UsageError as error:
            troubles.append(str(error))
            self.theme = themes.DEFAULT
        self._chat = ChatScreen(
            open_session,
            send_key=settings.send_key,
            themes=sorted(self._themes.by_name),
            trouble=" ".join(troubles),
        )

    def on_load(self) -> None:
        if self.is_headless:
            return
        for name in ENDING:
            number = getattr(signal, name, None)
            # A signal that whoever started us has set to be ignored stays ignored.
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, self._end, number)

    def _end(self, number: int) -> None:
        self._asked_by = number
        self.exit(return_code=128 + number)

    def _terminal_gone(self) -> None:
        if self._asked_by is None:
            self._end(signal.SIGHUP)

    def get_default_screen(self) -> ChatScreen:
        return self._chat

    def choose_theme(self, name: str) -> None:
        """Raises `UsageError` with the nearest name."""
        self.theme = self._themes.choose(name).name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """For the moment before a theme of ours is chosen."""
        return dict(themes.to_textual(self._themes.choose(themes.DEFAULT)).variables) if self._has_themes else {}

    @property
    def _has_themes(self) -> bool:
        return hasattr(self, "_themes")

    def run(self, *args: Any, **kwargs: Any) -> None:
        """Show the screen until the person leaves, with the terminal to ourselves."""
        with guarded(locations.log_file(), self._terminal_gone) as self.terminal:
            super().run(*args, **kwargs)
        if self.return_code and self._asked_by is None:
            log = locations.log_file()
            print(
                f"sinkchat ended by an error of its own, and the log {log} says more; what was said is on disk.",
                file=sys.stderr,
            )
        engine = self._chat.engine
        ended = engine.stop(PATIENCE_UNSAVED if engine.unsaved else PATIENCE)
        if engine.left_undone:
            self._return_code = self.return_code or 1
            print(f"sinkchat: {visible(engine.left_undone)}", file=sys.stderr)
        if not ended:
            # The engine is in the middle of a load or a token, and leaving waits for neither. What was said is on
            # disk; to unload the libraries under a thread that uses them could end in a crash.
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(self.return_code or 0)
