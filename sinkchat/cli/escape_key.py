"""Esc in a program that has no screen of its own: it ends long work, as Ctrl+C does."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import termios
import threading
from types import FrameType
from typing import Any

from sinkchat.cli.terminal import is_foreground, is_terminal

ESCAPE = b"\x1b"

SEQUENCE = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|O[ -~])")
"""What an arrow or a function key sends (ECMA-48, "control sequences"; SS3): it begins as Esc does, and goes on."""


_LEAVING = (signal.SIGTSTP, signal.SIGHUP, signal.SIGQUIT)
"""Ctrl+Z, the end of the terminal, Ctrl+\\: they stop or end the program without a word to it."""


class EscapeKey:
    """While entered, keys are taken as they are pressed and not shown, for as long as the program is in the
    foreground of a terminal. What is set at the terminal is set back whenever it is left: at the end, and by whatever
    stops or ends the program, but for SIGKILL. Ctrl+C and Ctrl+Z do what they always do."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._before: list[Any] | None = None
        """How the terminal was set, while it is set otherwise."""
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> EscapeKey:
        if is_terminal(sys.stdin):
            self._descriptor = sys.stdin.fileno()
            if threading.current_thread() is threading.main_thread():
                for number in _LEAVING:
                    if signal.getsignal(number) is signal.SIG_DFL:  # under nohup, SIGHUP is to be ignored
                        self._handlers[number] = signal.signal(number, self._leave)
            self._take()
        return self

    def __exit__(self, *_: object) -> None:
        self._set_back()
        self._descriptor = None
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers.clear()

    def pressed(self) -> bool:
        """Whether Esc was pressed since this was asked last. Does not wait."""
        self._take()
        if self._descriptor is None or self._before is None or not is_foreground(sys.stdin):
            return False
        try:
            if not select.select([self._descriptor], [], [], 0)[0]:
                return False
            return is_escape(os.read(self._descriptor, 1024))
        except OSError:  # the terminal is gone
            return False

    def _take(self) -> None:
        """Once more after the program came back to the foreground."""
        # a background job that asks for the terminal, or sets it, is stopped
        if self._descriptor is None or self._before is not None or not is_foreground(sys.stdin):
            return
        try:
            before = termios.tcgetattr(self._descriptor)
            keys = termios.tcgetattr(self._descriptor)
            keys[3] &= ~(termios.ICANON | termios.ECHO)
            self._before = before
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, keys)
        except (OSError, termios.error):
            self._descriptor = self._before = None

    def _set_back(self) -> None:
        """What was typed meanwhile was for the program: the shell does not get it."""
        if self._descriptor is None or self._before is None or not is_foreground(sys.stdin):
            return
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(self._descriptor, termios.TCSAFLUSH, self._before)
        self._before = None

    def _leave(self, number: int, _frame: FrameType | None) -> None:
        self._set_back()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        # here again after Ctrl+Z and `fg` or `bg`; the keys are taken when they are asked for next
        signal.signal(number, self._leave)


def is_escape(keys: bytes) -> bool:
    """Whether Esc is among the keys that were pressed, once or more often."""
    return ESCAPE in SEQUENCE.sub(b"", keys)
