"""Esc in a program that has no screen of its own: it ends long work, as Ctrl+C does."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
from typing import Any

from sinkchat.cli.terminal import is_terminal

ESCAPE = b"\x1b"

SEQUENCE = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|O[ -~])")
"""What an arrow or a function key sends (ECMA-48, "control sequences"; SS3): it begins as Esc does, and goes on."""


class EscapeKey:
    """While entered, keys are taken as they are pressed and not shown, where there is a terminal in the foreground.
    What is set at the terminal is set back, whatever happens; Ctrl+C and Ctrl+Z do what they always do."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._before: list[Any] = []

    def __enter__(self) -> EscapeKey:
        if not is_terminal(sys.stdin):
            return self
        descriptor = sys.stdin.fileno()
        try:
            # a background job that asks for the terminal is stopped
            if os.tcgetpgrp(descriptor) != os.getpgrp():
                return self
            self._before = termios.tcgetattr(descriptor)
            keys = termios.tcgetattr(descriptor)
            keys[3] &= ~(termios.ICANON | termios.ECHO)
            termios.tcsetattr(descriptor, termios.TCSADRAIN, keys)
        except (OSError, termios.error):
            return self
        self._descriptor = descriptor
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)
            self._descriptor = None

    def pressed(self) -> bool:
        """Whether Esc was pressed since this was asked last. Does not wait."""
        if self._descriptor is None or not select.select([self._descriptor], [], [], 0)[0]:
            return False
        return is_escape(os.read(self._descriptor, 1024))


def is_escape(keys: bytes) -> bool:
    """Whether Esc is among the keys that were pressed, once or more often."""
    return ESCAPE in SEQUENCE.sub(b"", keys)
