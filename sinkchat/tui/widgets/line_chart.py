"""A line chart of braille dots: two by four to a cell, so every glyph is narrow and the line is fine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from textual.content import Content
from textual.widgets import Static

from sinkchat.tui.series import Points

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BLANK = 0x2800
AXIS = 5
"""Cells left of the plot: the ends of the axis, and its line."""

_CEILINGS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 30.0, 50.0, 100.0)


def ceiling(values: Sequence[float | None]) -> float:
    """The end of an axis from 0 that holds the values: one of a few, so that it seldom moves."""
    highest = max((value for value in values if value is not None), default=0.0)
    return next((end for end in _CEILINGS if highest <= end), highest)


def plot(values: Sequence[float | None], width: int, height: int, low: float, high: float) -> list[list[int]]:
    """Braille patterns, `[height][width]`: the newest value at the right edge, each joined to the one before."""
    dots = [[0] * width for _ in range(height)]
    shown = values[-2 * width :]
    left = 2 * width - len(shown)
    rows = 4 * height
    before: int | None = None
    for column, value in enumerate(shown, left):
        if value is None:
            before = None
            continue
        row = _row(value, rows, low, high)
        first, last = (row, row) if before is None else _join(before, row)
        for y in range(first, last + 1):
            dots[y // 4][column // 2] |= _DOTS[column % 2][y % 4]
        before = row
    return dots


def _row(value: float, rows: int, low: float, high: float) -> int:
    """Dot row of a value, 0 at the top; what lies outside the axis is drawn at its end."""
    share = (value - low) / (high - low) if high > low else 0.0
    return rows - 1 - round(min(1.0, max(0.0, share)) * (rows - 1))


def _join(before: int, row: int) -> tuple[int, int]:
    """The dots of a column that reach from the former value to this one."""
    if row > before:
        return before + 1, row
    return (row, before - 1) if row < before else (row, row)


class LineChart(Static):
    """One or two lines over time, the ends of the axis at the left, marks where something changed."""

    def __init__(self, *, id: str | None = None, percent: bool = False) -> None:
        super().__init__(id=id, markup=False)
        self._percent = percent
        self._lines: Sequence[Points] = ()
        self._colors: Mapping[str, str] = {}

    def show(self, lines: Sequence[Points], colors: Mapping[str, str]) -> None:
        """`lines` are drawn on top of each other, the first one last; `colors` by the points' tags."""
        if lines != self._lines:
            self._lines, self._colors = lines, colors
            self.refresh()

    @property
    def room(self) -> int:
        """Points that fit."""
        return 2 * max(1, self.size.width - AXIS)

    def render(self) -> Content:
        width, height = self.size.width - AXIS, self.size.height - 1
        if width < 4 or height < 1:
            return Content("")
        high = 1.0 if self._percent else ceiling([point.value for line in self._lines for point in line.points])
        rows = self._cells(width, height, high)
        labels = self._labels(height, high)
        parts: list[str | Content | tuple[str, str]] = []
        for number, (label, row) in enumerate(zip(labels, rows, strict=True)):
            parts += [(label, "$muted"), ("│" if label.isspace() else "┤", "$rule"), *row, "\n"]
            if number == height - 1:
                parts += [" " * (AXIS - 1), ("╵", "$rule"), *self._marks(width)]
        return Content.assemble(*parts)

    def _labels(self, height: int, high: float) -> list[str]:
        top, bottom = ("100%", "0%") if self._percent else (f"{high:g}", "0")
        labels = [top] + [""] * (height - 2) + [bottom] if height > 1 else [top]
        return [label.rjust(AXIS - 1) for label in labels]

    def _cells(self, width: int, height: int, high: float) -> list[list[tuple[str, str]]]:
        """Each row of the plot as runs of one colour."""
        grid = [[(" ", "")] * width for _ in range(height)]
        for line in reversed(self._lines):
            patterns = plot([point.value for point in line.points], width, height, 0.0, high)
            tags = [point.tag for point in line.points[-2 * width :]]
            tags = [""] * (2 * width - len(tags)) + tags
            for y, row in enumerate(patterns):
                for x, pattern in enumerate(row):
                    if pattern:
                        grid[y][x] = (chr(_BLANK + pattern), self._colors.get(tags[2 * x + 1] or tags[2 * x], ""))
        for x, _name in self._mark_columns(width):
            for cells in grid:
                if cells[x][0] == " ":
                    cells[x] = ("┊", "$horizon")
        return [_runs(cells) for cells in grid]

    def _mark_columns(self, width: int) -> list[tuple[int, str]]:
        if not self._lines:
            return []
        line = self._lines[0]
        shift = 2 * width - len(line.points)
        columns = [((index + shift) // 2, name) for index, name in line.marks]
        return [(min(column, width - 1), name) for column, name in columns if column >= 0]

    def _marks(self, width: int) -> list[tuple[str, str]]:
        """The names of what changed, each below its mark; where two do not fit, the newer one is named."""
        text = " " * width
        free = width
        for column, name in reversed(self._mark_columns(width)):
            start = min(column, width - cell_len(name))
            if start < 0 or start + cell_len(name) > free:
                continue
            text = text[:start] + name + text[start + len(name) :]
            free = start - 1
        return [(text, "$horizon")]


def _runs(row: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    runs: list[tuple[str, str]] = []
    for glyph, style in row:
        if runs and runs[-1][1] == style:
            runs[-1] = (runs[-1][0] + glyph, style)
        else:
            runs.append((glyph, style))
    return runs
