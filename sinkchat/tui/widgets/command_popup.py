"""The list above the input box of what may come next of a command."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from sinkchat.chat.printable import visible
from sinkchat.tui.suggestions import Suggestion
from sinkchat.tui.widgets.figure_rows import shorten

MOST_ROWS = 8


class CommandPopup(Static):
    """Hidden while there is nothing to suggest. The keys are the input box's."""

    class Picked(Message):
        """Somebody clicked a suggestion."""

        def __init__(self, suggestion: Suggestion) -> None:
            self.suggestion = suggestion
            super().__init__()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._suggestions: Sequence[Suggestion] = ()
        self._selected = 0
        self._top = 0
        self.display = False

    @property
    def selected(self) -> Suggestion | None:
        return self._suggestions[self._selected] if self.display else None

    def show(self, suggestions: Sequence[Suggestion]) -> None:
        if list(suggestions) != list(self._suggestions):
            self._suggestions = suggestions
            self._selected = self._top = 0
            self.styles.height = min(MOST_ROWS, len(suggestions))
        self.display = bool(suggestions)
        self.refresh()

    def hide(self) -> None:
        self.display = False

    def move(self, by: int) -> None:
        self._selected = (self._selected + by) % len(self._suggestions)
        rows = min(MOST_ROWS, len(self._suggestions))
        self._top = min(max(self._top, self._selected - rows + 1), self._selected)
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        index = self._top + event.y - self.gutter.top
        if 0 <= index < len(self._suggestions):
            self.post_message(self.Picked(self._suggestions[index]))

    def render(self) -> Content:
        width = self.size.width
        shown = self._suggestions[self._top : self._top + MOST_ROWS]
        names = max((cell_len(_name(item)) for item in self._suggestions), default=0)
        lines = []
        for number, item in enumerate(shown, self._top):
            line = _line(item, min(names, width), width)
            lines.append(line.stylize_before("on $selection") if number == self._selected else line)
        return Content("\n").join(lines)


def _name(item: Suggestion) -> str:
    return f"{visible(item.name)} {item.hint}".rstrip()


def _line(item: Suggestion, names: int, width: int) -> Content:
    name = shorten(visible(item.name), width)
    hint = shorten(f" {item.hint}" if item.hint else "", width - cell_len(name))
    left = Content.assemble((name, "$foreground"), (hint, "$muted"))
    for letter in item.letters:
        left = left.stylize("bold $sink", letter, letter + 1)
    room = width - names - 3 - (cell_len(item.key) + 2 if item.key else 0)
    help_ = shorten(item.help, room) if room > 10 else ""
    gap = " " * (names - left.cell_length + 3) if help_ else ""
    line = Content.assemble(left, gap, (help_, "$muted"))
    key = item.key if line.cell_length + cell_len(item.key) < width else ""
    return Content.assemble(line, " " * (width - line.cell_length - cell_len(key)), (key, "$muted"))
