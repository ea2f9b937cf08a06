"""Tables for a terminal: what does not fit is left out a column at a time, and no number is ever cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sinkchat.lab.telling.numerals import plain

NAME = 22
"""Cells that the first column is folded to before a column is left out."""


@dataclass(frozen=True, slots=True)
class Column:
    """Figures below a head of two words, aligned at the right. The larger `rank`, the sooner it is left out."""

    head: tuple[str, str]
    cells: Sequence[str]
    rank: int

    @property
    def width(self) -> int:
        return max(len(cell) for cell in (*self.head, *self.cells))


def laid_out(title: str, names: Sequence[str], columns: Sequence[Column], width: int, ascii: bool = False) -> str:
    """The table in lines of at most `width` cells; names are folded at their commas and words.

    A single column of figures always stays, however narrow the terminal is.
    """
    if ascii:
        names = [plain(name) for name in names]
        columns = [
            Column(
                (plain(column.head[0]), plain(column.head[1])), [plain(cell) for cell in column.cells], column.rank
            )
            for column in columns
        ]
    longest = max((len(name) for name in (*names, title)), default=0)
    least = min(longest, max(NAME if width >= 60 else 14, width // 4))
    kept = list(columns)
    while len(kept) > 1 and least + _taken(kept) > width:
        kept.remove(max(kept, key=lambda column: column.rank))
    room = max(8, min(longest, width - _taken(kept)))
    lines = []
    for part in (0, 1):
        line = (title if part else "").ljust(room)
        line += "".join(f"  {column.head[part].rjust(column.width)}" for column in kept)
        if line.strip():
            lines.append(line.rstrip())
    lines.append(("-" if ascii else "─") * min(width, room + _taken(kept)))
    for row, name in enumerate(names):
        first, *more = folded(name, room)
        figures = "".join(f"  {column.cells[row].rjust(column.width)}" for column in kept)
        lines.append((first.ljust(room) + figures).rstrip())
        lines += [f"  {line}" for line in more]
    return "\n".join(lines)


def _taken(columns: Sequence[Column]) -> int:
    return sum(column.width + 2 for column in columns)


def folded(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells, all but the first two shorter; a word that is longer is cut into pieces."""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        room = width if not lines else width - 2
        if line and len(line) + 1 + len(word) > room:
            lines.append(line)
            line, room = "", width - 2
        line = f"{line} {word}" if line else word
        while len(line) > room:
            lines.append(line[:room])
            line, room = line[room:], width - 2
    return [*lines, line]
