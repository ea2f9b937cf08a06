"""Keeps the terminal to ourselves: what native libraries print goes to the log file instead of through the screen."""

from __future__ import annotations

import fcntl
import io
import logging
import os
import select
import struct
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

USUAL_COLUMNS, USUAL_ROWS = 80, 24


class _Screen(io.FileIO):
    """The terminal, which can be closed while it is drawn on; what is drawn then nobody sees."""

    def __init__(self, descriptor: int, gone: Callable[[], None]) -> None:
        super().__init__(descriptor, "w")
        self._gone = gone

    def write(self, data: Any) -> int:
        try:
            while (written := super().write(data)) is None:
                # Another program has left the terminal in a state in which it does not wait for slow readers.
                select.select([], [self], [])
        except OSError:
            self._gone()
            return len(data)
        return written


@contextmanager
def guarded(log: Path, gone: Callable[[], None] = lambda: None) -> Iterator[TextIO | None]:
    """Inside, file descriptors 1 and 2 are the log file, and the screen is drawn through a duplicate of the terminal.

    Yields that duplicate, for programs that are started meanwhile; None where there is no terminal to guard. `gone`
    is called, from any thread and perhaps often, once the terminal is closed from the other side.
    """
    shown = next((descriptor for descriptor in (2, 1) if _is_terminal(descriptor)), None)
    if shown is None:
        yield None
        return
    _give_size(shown)
    screen = io.BufferedWriter(_Screen(os.dup(shown), gone))
    terminal = io.TextIOWrapper(screen, encoding="utf-8", errors="replace")
    target = _open_log(log)
    kept = {descriptor: os.dup(descriptor) for descriptor in (1, 2) if _is_terminal(descriptor)}
    streams = sys.__stdout__, sys.__stderr__
    logger, handler = logging.getLogger(), logging.StreamHandler(os.fdopen(os.dup(target), "w", encoding="utf-8"))
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for descriptor in kept:
            os.dup2(target, descriptor)
        # Textual draws on the one, and asks the other how large the terminal is.
        sys.__stdout__ = sys.__stderr__ = terminal  # type: ignore[misc]
        logger.addHandler(handler)
        yield terminal
    finally:
        logger.removeHandler(handler)
        handler.stream.close()
        sys.__stdout__, sys.__stderr__ = streams  # type: ignore[misc]
        terminal.flush()
        for descriptor, original in kept.items():
            os.dup2(original, descriptor)
            os.close(original)
        os.close(target)
        terminal.close()


def _give_size(descriptor: int) -> None:
    """Let a terminal that does not say how large it is, as on a serial line, be of the usual size: what draws on it
    would guess otherwise, at one place one size and at another place another."""
    try:
        if 0 in os.get_terminal_size(descriptor):
            size = struct.pack("HHHH", USUAL_ROWS, USUAL_COLUMNS, 0, 0)
            fcntl.ioctl(descriptor, termios.TIOCSWINSZ, size)
    except OSError:
        return


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _open_log(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError:
        # A screen that nobody prints through matters more than the log.
        return os.open(os.devnull, os.O_WRONLY)
