"""Rows of text and the lines they are laid out in: every character knows where in the source it came from.

A row is what stands between two line breaks of a passage, with its styles; a line is what fits in the width of the
screen. The source offsets let the horizon fall at a token, wherever Markdown and wrapping have moved its text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len, split_graphemes

Kind = Literal["prose", "code", "heading", "rule", "table", "table-rule", "label", "gap"]

Span = tuple[int, int, str]
"""From, to (characters of the row's text), and style names with a space between."""

TAB = 4

LONGEST = 4000
"""Characters of a row of plain text: a longer line goes on in another row, so that none takes long to lay out."""

_WORD = re.compile(r"\s*\S+\s*|\s+")
# Terminals disagree about the width of joined emoji and of variation selectors; without them all agree.
_UNSTEADY = re.compile("[\ufe0e\ufe0f]|(?<=[\u2600-\u27bf\U0001f000-\U0001faff\ufe0f])\u200d")


@dataclass(frozen=True, slots=True)
class Cell:
    """Text with styles, and the source offset of each of its characters."""

    text: str
    source: Sequence[int]
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """Text between two line breaks. `lead` stands before its first line, `rest` before the further ones."""

    cell: Cell
    offset: int
    """Where in the source the row begins, also when it is empty."""
    kind: Kind = "prose"
    lead: str = ""
    rest: str = ""
    columns: tuple[Cell, ...] = ()
    """The cells of a table's row; `cell` is empty then."""
    widths: tuple[int, ...] = ()
    """The natural widths of the table's columns, in character cells."""
    joined: bool = False
    """The row goes on with the former one: there is no line break between them."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the screen: `lead` is ornament, `text` is what was written."""

    lead: str
    text: str
    source: Sequence[int]
    spans: tuple[Span, ...]
    offset: int
    end: int
    """Source offsets of the line's first character and behind its last one."""
    kind: Kind
    soft: bool
    """The line goes on where the former one was full."""


def steady(text: str, offset: int) -> Cell:
    """The text with tabs expanded and without the code points whose width terminals disagree about."""
    if "\t" not in text and not _UNSTEADY.search(text):
        return Cell(text, range(offset, offset + len(text)))
    shown: list[str] = []
    source: list[int] = []
    dropped = {match.start() for match in _UNSTEADY.finditer(text)}
    for index, character in enumerate(text):
        if index in dropped:
            continue
        piece = " " * (TAB - len(shown) % TAB) if character == "\t" else character
        shown.extend(piece)
        source.extend([offset + index] * len(piece))
    return Cell("".join(shown), source)


def plain_rows(text: str, offset: int = 0) -> list[Row]:
    """A row for each line of the text as it is."""
    rows = []
    for line in text.split("\n"):
        start = 0
        while len(line) - start > LONGEST:
            space = line.rfind(" ", start, start + LONGEST)
            end = space + 1 if space > start else start + LONGEST
            rows.append(Row(steady(line[start:end], offset + start), offset + start, joined=start > 0))
            start = end
        rows.append(Row(steady(line[start:], offset + start), offset + start, joined=start > 0))
        offset += len(line) + 1
    return rows


def wrap(text: str, width: int) -> list[tuple[int, int]]:
    """Where to break the text so that no part is wider than `width` cells: (from, to) of each part.

    Breaks fall between words; blanks at a break hang over the edge. A word wider than the width is folded between
    graphemes, and a grapheme wider than the width stands alone.
    """
    width = max(1, width)
    if len(text) <= width and cell_len(text) <= width:
        return [(0, len(text))]
    parts: list[tuple[int, int]] = []
    start, used = 0, 0
    for match in _WORD.finditer(text):
        word = match.group()
        room = cell_len(word.rstrip())
        if used + room > width and used:
            parts.append((start, match.start()))
            start, used = match.start(), 0
        if room > width:
            for at in _folds(word, width, used):
                parts.append((start, match.start() + at))
                start = match.start() + at
            used = cell_len(text[start : match.end()])
        else:
            used += cell_len(word)
    parts.append((start, len(text)))
    return parts


def _folds(word: str, width: int, used: int) -> list[int]:
    folds = []
    for start, _end, size in split_graphemes(word)[0]:
        if used + size > width and used:
            if word[start:].isspace():
                break
            folds.append(start)
            used = 0
        used += size
    return folds


def lay_out(row: Row, width: int) -> list[Line]:
    """The row's lines in a width of so many cells."""
    if row.columns:
        return _lay_out_table(row, width)
    room = max(1, width - cell_len(row.rest))
    lines = []
    for start, end in wrap(row.cell.text, room):
        cell = _cut(row.cell, start, end)
        lines.append(_line(row, cell, soft=start > 0 or row.joined, lead=row.rest if start else row.lead))
    return lines


def _lay_out_table(row: Row, width: int) -> list[Line]:
    gap = 2
    widths = _fit(row.widths, width - cell_len(row.rest) - gap * (len(row.widths) - 1))
    if row.kind == "table-rule":
        rule = (" " * gap).join("─" * size for size in widths)
        return [_line(row, Cell(rule, [row.offset] * len(rule)), soft=False, lead=row.rest)]
    parts = [wrap(cell.text, size) for cell, size in zip(row.columns, widths, strict=False)]
    lines = []
    last = row.offset
    for index in range(max(len(part) for part in parts)):
        text = ""
        source: list[int] = []
        spans: list[Span] = []
        for cell, part, size in zip(row.columns, parts, widths, strict=False):
            piece = _cut(cell, *part[index]) if index < len(part) else Cell("", ())
            shown = piece.text.rstrip()
            spans += [(a + len(text), b + len(text), style) for a, b, style in piece.spans]
            source += piece.source[: len(shown)]
            last = max(last, source[-1] if source else last)
            blank = " " * (size + gap - cell_len(shown))
            text += shown + blank
            source += [last] * len(blank)
        keep = len(text.rstrip())
        lines.append(_line(row, Cell(text[:keep], source[:keep], tuple(spans)), soft=False, lead=row.rest))
    return lines


def _fit(natural: tuple[int, ...], room: int) -> list[int]:
    """Widths that together fit in the room: the widest columns give way first."""
    widths = list(natural)
    while sum(widths) > room and max(widths) > 1:
        widest = max(widths)
        next_widest = max((size for size in widths if size < widest), default=1)
        several = [index for index, size in enumerate(widths) if size == widest]
        excess = sum(widths) - room
        step = min(widest - next_widest, -(-excess // len(several))) or 1
        for index in several:
            widths[index] = max(1, widths[index] - step)
    return widths


def _cut(cell: Cell, start: int, end: int) -> Cell:
    spans = tuple(
        (max(a, start) - start, min(b, end) - start, style) for a, b, style in cell.spans if a < end and b > start
    )
    return Cell(cell.text[start:end], cell.source[start:end], spans)


def _line(row: Row, cell: Cell, *, soft: bool, lead: str) -> Line:
    offset = cell.source[0] if cell.source else row.offset
    end = cell.source[-1] + 1 if cell.source else row.offset + 1
    return Line(lead, cell.text, cell.source, cell.spans, offset, end, row.kind, soft)
