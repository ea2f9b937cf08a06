"""The last line of the screen: what goes on, what the cache holds where there is no panel, and the keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual.content import Content
from textual.widgets import Static

from sinkchat.tui.widgets.figure_rows import shorten


@dataclass(frozen=True, slots=True)
class Status:
    """`parts` and `keys` are dropped from their ends where the line is too narrow; `state` never is."""

    state: str = ""
    state_style: str = "$muted"
    parts: tuple[str, ...] = ()
    keys: tuple[tuple[str, str], ...] = ()
    """A key and what it does."""


class StatusLine(Static):
    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._status = Status()

    @property
    def status(self) -> Status:
        return self._status

    def show(self, status: Status) -> None:
        if status != self._status:
            self._status = status
            self.refresh()

    def render(self) -> Content:
        width = self.size.width
        state = shorten(self._status.state, width)
        parts, keys = _fitting(self._status, width - cell_len(state))
        left = Content.assemble((state, self._status.state_style), *[(f" · {part}", "$muted") for part in parts])
        right = Content("  ").join(
            [Content.assemble((key, "$foreground"), (f" {does}", "$muted")) for key, does in keys]
        )
        return Content.assemble(left, " " * (width - left.cell_length - right.cell_length), right)


def _fitting(status: Status, room: int) -> tuple[Sequence[str], Sequence[tuple[str, str]]]:
    """What fits: the first key matters most, then the parts, then the other keys."""
    parts: list[str] = []
    keys: list[tuple[str, str]] = []
    order: list[tuple[str, str] | str] = [*status.keys[:1], *status.parts, *status.keys[1:]]
    for item in order:
        size = cell_len(item) + 3 if isinstance(item, str) else cell_len(item[0]) + cell_len(item[1]) + 3
        if size > room:
            continue
        room -= size
        if isinstance(item, str):
            parts.append(item)
        else:
            keys.append(item)
    return parts, keys
