"""The messages that were sent and wait for their turn."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from sinkchat.chat.printable import visible
from sinkchat.tui.widgets.figure_rows import shorten

SHOWN = 3


class Waiting(Static):
    """Hidden while nothing waits."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._labels: tuple[str, ...] = ()
        self.display = False

    def show(self, labels: Sequence[str]) -> None:
        if tuple(labels) != self._labels:
            self._labels = tuple(labels)
            self.display = bool(labels)
            self.styles.height = min(SHOWN, len(labels))
            self.refresh(layout=True)

    def render(self) -> Content:
        shown = list(self._labels[:SHOWN])
        if len(self._labels) > SHOWN:
            shown[-1] = f"and {len(self._labels) - SHOWN + 1} more"
        width = self.size.width
        rows = [shorten("waits: " + " ".join(visible(label).split()), width) for label in shown]
        return Content("\n".join(rows))
