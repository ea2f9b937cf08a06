"""What the command line knows of the terminal: whether there is one, and a line of progress on it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from typing import TextIO

from sinkchat.errors import SinkchatError
from sinkchat.models.progress import Progress


def is_terminal(stream: TextIO | None) -> bool:
    """Whether the stream exists, is open, and is a terminal."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def is_foreground(stream: TextIO, *, unless_known: bool = False) -> bool:
    """Whether the terminal is this program's: a job in the background neither reads it nor writes over its lines.
    unless_known: what is said of a terminal that is not the one the program was started from."""
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return unless_known


def columns() -> int:
    """Of the terminal; 80 where there is none."""
    return shutil.get_terminal_size().columns


def can_show(characters: str) -> bool:
    """Whether standard output has them."""
    try:
        characters.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def say(text: str) -> None:
    """Write to standard output, at once. A reader that has gone is a `BrokenPipeError`; raises `SinkchatError` for
    anything else that keeps the text from being written."""
    if sys.stdout is None:
        raise SinkchatError("There is no standard output to write to; start sinkchat with one.")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon_stdout()
        raise SinkchatError(f"The output cannot be written: {error.strerror}.") from error


def complain(message: str) -> None:
    """Say one sentence on stderr. What a file or a model wrote in it reaches the terminal as visible symbols."""
    from sinkchat.chat.printable import visible

    tell(f"sinkchat: {visible(message)}\n")


def tell(text: str) -> None:
    """Write to standard error, at once."""
    # There may be no stderr, or nobody who reads it: then there is nobody to tell.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()


def encodable(stream: TextIO | None) -> None:
    """Let a terminal that cannot show a character show its number instead of failing."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def abandon_stdout() -> None:
    """Nobody reads stdout any more: whatever is still buffered goes nowhere, at exit too."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class ProgressLine:
    """One line on stderr that is written over; silent, without any escape, where stderr is not a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = is_terminal(self._stream)
        self._stage = ""
        self._written = 0.0
        self._dirty = False

    def show(self, progress: Progress) -> None:
        """Write the line again; at most ten times a second within a stage."""
        self.write(progress.stage, sentence(progress))

    def write(self, stage: str, text: str) -> None:
        """As `show`, in words of one's own."""
        now = time.monotonic()
        if not self._live or (stage == self._stage and now - self._written < 0.1):
            return
        self._stage, self._written = stage, now
        if is_foreground(self._stream, unless_known=True):  # else somebody is typing at a shell in this line
            self._dirty = True
            self._put(f"\r\x1b[2K{text[: self._width() - 1]}")

    def clear(self) -> None:
        """Take the line away, before anything else is written."""
        if self._dirty and is_foreground(self._stream, unless_known=True):
            self._put("\r\x1b[2K")
        self._dirty, self._stage = False, ""

    def _put(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone, the work is not
            self._live = False

    def _width(self) -> int:
        """Of its own terminal: standard output may lead elsewhere."""
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or columns()
        except (OSError, ValueError):
            return columns()


def sentence(progress: Progress) -> str:
    """`Fetching the small model: 12.0 of 93.0 MB`."""
    stage = progress.stage[:1].upper() + progress.stage[1:]
    if progress.total is None and not progress.done:
        return f"{stage} ..."
    scale, unit, digits = (1e6, "MB", 1) if progress.unit == "B" else (1.0, progress.unit, 0)
    done = f"{progress.done / scale:,.{digits}f}"
    of = "" if progress.total is None else f" of {progress.total / scale:,.{digits}f}"
    return f"{stage}: {done}{of} {unit}".rstrip()
