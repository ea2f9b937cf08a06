"""Lines of figures: a name at the left, its value at the right, as wide as the place that they stand in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.widgets import Static

ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class FigureRow:
    """`name` gives way to `value` where both do not fit."""

    name: str
    value: str = ""
    name_style: str = "$muted"
    value_style: str = "$foreground"
    note: str = ""
    """Quietly behind the name, where there is room."""


class FigureRows(Static):
    """Redrawn only when a figure is another one."""

    def __init__(self, rows: Sequence[FigureRow] = (), *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes, markup=False)
        self._rows = tuple(rows)

    @property
    def rows(self) -> tuple[FigureRow, ...]:
        return self._rows

    def show(self, *rows: FigureRow) -> None:
        if rows != self._rows:
            taller = len(rows) != len(self._rows)
            self._rows = rows
            self.refresh(layout=taller)

    def render(self) -> Content:
        width = self.size.width
        return Content("\n").join([_line(row, width) for row in self._rows])

    def get_content_height(self, *_args: object) -> int:
        return len(self._rows)


def _line(row: FigureRow, width: int) -> Content:
    value = shorten(row.value, width)
    room = width - cell_len(value) - (1 if value else 0)
    name = shorten(row.name, room) if room > 1 else ""
    note = row.note if cell_len(name + row.note) <= room else ""
    gap = " " * (width - cell_len(name + note) - cell_len(value))
    return Content.assemble((name, row.name_style), (note, "$muted"), gap, (value, row.value_style))


def shorten(text: str, width: int) -> str:
    """The text in at most so many cells, an ellipsis in place of what is left out."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + ELLIPSIS if width > 0 else ""


def shorten_start(text: str, width: int) -> str:
    """The end of the text in at most so many cells."""
    if cell_len(text) <= width:
        return text
    kept = ""
    for character in reversed(text):
        if cell_len(character + kept) > width - 1:
            break
        kept = character + kept
    return ELLIPSIS + kept.lstrip() if width > 0 else ""
