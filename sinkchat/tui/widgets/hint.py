"""A line above the input box that answers what was just done. It goes with the next thing one does."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from sinkchat.chat.printable import visible


class Hint(Static):
    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self.display = False

    @property
    def words(self) -> str:
        return str(self.content) if self.display else ""

    def say(self, text: str, *, error: bool = False) -> None:
        self.set_class(error, "-error")
        self.update(Content(visible(text)))
        self.display = bool(text)

    def clear(self) -> None:
        self.display = False
