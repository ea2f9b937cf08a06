"""A plot out of characters: lines of braille dots, two by four to a cell, each with letters on it that name it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from sinkchat.lab.telling.scale import Axis

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BLANK = 0x2800
_APART = 18
"""Cells from one letter on a line to its next."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A line, the letter that stands on it, and its colour as the number of an ANSI escape."""

    mark: str
    points: Sequence[tuple[float, float]]
    colour: str


Cell = tuple[str, str]
"""A character and its colour; no colour is the terminal's own."""


def plot(
    traces: Sequence[Trace],
    across: Axis,
    up: Axis,
    width: int,
    height: int,
    marks: Sequence[float],
    ascii: bool,
    level: float | None = None,
) -> list[list[Cell]]:
    """Cells, `[height][width]`. `marks` are places on the x axis with a vertical line behind the traces, `level` one
    on the y axis with a horizontal line."""
    dots = [[0] * width for _ in range(height)]
    colours = [[""] * width for _ in range(height)]
    letters: dict[tuple[int, int], Cell] = {}
    for number, trace in enumerate(traces):
        rows = _rows(trace, across, up, 2 * width, 4 * height)
        before: int | None = None
        for column, row in enumerate(rows):
            if row is None:
                before = None
                continue
            for y in _joined(before, row):
                dots[y // 4][column // 2] |= _DOTS[column % 2][y % 4]
                colours[y // 4][column // 2] = trace.colour
            before = row
        drawn = [(column, row) for column, row in enumerate(rows) if row is not None]
        for column, row in _lettered(drawn, number, len(traces), ascii):
            letters.setdefault((row // 4, column // 2), (trace.mark, trace.colour))
    behind = {min(width - 1, max(0, round(across.share(mark) * (width - 1)))) for mark in marks}
    floor = None if level is None else row_of(level, up, height)
    cells: list[list[Cell]] = []
    for y in range(height):
        line: list[Cell] = []
        for x in range(width):
            if (y, x) in letters:
                line.append(letters[y, x])
            elif dots[y][x] and not ascii:
                line.append((chr(_BLANK + dots[y][x]), colours[y][x]))
            else:
                line.append((_ground(x in behind, y == floor, ascii), ""))
        cells.append(line)
    return cells


def row_of(value: float, up: Axis, height: int) -> int:
    """The row of cells that a value is drawn in, 0 at the top."""
    return _dot_row(up.share(value), 4 * height) // 4


def _dot_row(share: float, rows: int) -> int:
    return rows - 1 - round(min(1.0, max(0.0, share)) * (rows - 1))


def _ground(marked: bool, level: bool, ascii: bool) -> str:
    """What is seen behind the traces."""
    if level:
        return ("+" if ascii else "┼") if marked else ("-" if ascii else "─")
    return (":" if ascii else "┊") if marked else " "


def _lettered(drawn: Sequence[tuple[int, int]], number: int, of: int, ascii: bool) -> Sequence[tuple[int, int]]:
    """Where the letters of a trace stand: everywhere if they are all that is drawn, else now and then and at the end,
    shifted for each trace, so that lines which run together still show all of their letters."""
    if ascii or not drawn:
        return drawn
    shift = (number * _APART) // max(1, of)
    return [drawn[-1 - number % min(3, len(drawn))], *(at for at in drawn if (at[0] // 2) % _APART == shift)]


def _rows(trace: Trace, across: Axis, up: Axis, columns: int, rows: int) -> list[int | None]:
    """The dot row of each dot column, 0 at the top: the mean of the points that fall into it, or between its
    neighbours where none does."""
    sums: dict[int, list[float]] = {}
    gaps: set[int] = set()
    for x, y in trace.points:
        column = min(columns - 1, max(0, round(across.share(x) * (columns - 1))))
        if math.isfinite(y):
            sums.setdefault(column, []).append(y)
        else:
            gaps.add(column)
    means = {column: sum(values) / len(values) for column, values in sums.items()}
    known = sorted(means)
    for left, right in itertools.pairwise(known):
        if any(left < gap < right for gap in gaps):
            continue
        for column in range(left + 1, right):
            means[column] = means[left] + (means[right] - means[left]) * (column - left) / (right - left)
    result: list[int | None] = []
    for column in range(columns):
        share = up.share(means[column]) if column in means else None
        result.append(None if share is None else _dot_row(share, rows))
    return result


def _joined(before: int | None, row: int) -> range:
    """The dots of a column that reach from the former one to this one."""
    if before is None or before == row:
        return range(row, row + 1)
    return range(before + 1, row + 1) if row > before else range(row, before)
