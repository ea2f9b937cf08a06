"""Reads a journal: everything in it that is whole, and exactly what is not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sinkchat.chat.line import FIRST, START, Entry, Line, NewerLine, read_line
from sinkchat.chat.records import TornLine
from sinkchat.errors import JournalError
from sinkchat.files import open_regular


@dataclass(frozen=True, slots=True)
class Damage:
    """Something between or around whole records is not as it was written."""

    line: int
    """Number of the line in the file, from 1."""
    what: str
    """Half a sentence that goes with "line 12"."""

    def __str__(self) -> str:
        return f"line {self.line} {self.what}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a journal's file held."""

    entries: tuple[Entry, ...]
    """Every record that is whole, before and after any damage."""
    damage: tuple[Damage, ...]
    torn: int
    """Bytes of a last line that was cut short, as when the program is killed; this is no damage."""
    unended: bool
    """True when the last line is whole and only its end is missing."""
    checksum: str
    """Of the last whole line: what the next one must name."""
    next_number: int


def read_journal(path: Path) -> Reading:
    """All that can be read. Raises `JournalError` when the file cannot be opened or is from a later version."""
    try:
        with open_regular(path) as file:
            content = file.read()
    except OSError as error:
        raise JournalError(
            f"The journal {path} cannot be read ({error.strerror}); check that it exists and is yours."
        ) from error
    lines = content.split(b"\n")
    tail = lines.pop()  # b"" when the last line is ended
    reader = _Reader(path)
    for number, raw in enumerate(lines, 1):
        reader.take(number, raw)
    unended = bool(tail) and reader.take_unended(len(lines) + 1, tail)
    return Reading(
        entries=tuple(reader.entries),
        damage=tuple(reader.damage),
        torn=0 if unended else len(tail),
        unended=unended,
        checksum=reader.checksum,
        next_number=reader.next_number,
    )


class _Reader:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[Entry] = []
        self.damage: list[Damage] = []
        self.checksum = FIRST
        self.next_number = 0
        self._gap = False  # since the last whole line, some were damaged

    def take(self, number: int, raw: bytes) -> None:
        line, lost = self._line(number, raw)
        if lost:
            self.damage.append(Damage(number, "is damaged"))
            self._gap = True
        if line is None:
            return
        entry = line.entry
        if entry.number < self.next_number:
            self.damage.append(Damage(number, "stands where it does not belong"))
            return
        if not self._gap and not self._follows(line):
            missing = entry.number - self.next_number
            what = f"comes after {missing} that are missing" if missing else "does not follow the one before"
            self.damage.append(Damage(number, what))
        self._gap = False
        self.entries.append(entry)
        self.checksum, self.next_number = line.checksum, entry.number + 1

    def take_unended(self, number: int, raw: bytes) -> bool:
        """Whether a last line without an end is whole all the same."""
        line, lost = self._line(number, raw)
        if line is None or lost or not self._follows(line):
            return False
        self.take(number, raw)
        return True

    def _follows(self, line: Line) -> bool:
        return line.entry.number == self.next_number and line.before == self.checksum

    def _line(self, number: int, raw: bytes) -> tuple[Line | None, bool]:
        """The line, or the whole one at its end; and whether anything in it is lost.

        What was torn when a program was killed stands before the record that tells of it, and is no loss.
        """
        try:
            line = read_line(raw)
            start = raw.rfind(START)
            if line is not None or start <= 0:
                return line, line is None
            line = read_line(raw[start:])
        except NewerLine:
            raise JournalError(
                f"Line {number} of the journal {self.path} is from a newer sinkchat; update sinkchat to read it."
            ) from None
        told = line is not None and self._follows(line) and line.entry.record == TornLine(start)
        return line, not told


def first_lines(path: Path, size: int) -> list[bytes]:
    """Whole lines from the start of a file, out of its first `size` bytes; always the first one."""
    with open_regular(path) as file:
        content = file.read(size)
        if b"\n" not in content:
            content += file.readline()
    return content.split(b"\n")[:-1]


def last_lines(path: Path, size: int) -> list[bytes]:
    """Whole lines from the end of a file, out of its last `size` bytes; what was cut short is left out."""
    with open_regular(path) as file:
        start = max(0, file.seek(0, os.SEEK_END) - size)
        file.seek(start)
        lines = file.read().split(b"\n")[:-1]
    return lines[1:] if start else lines
