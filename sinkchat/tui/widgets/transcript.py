"""What was said, with the horizon drawn through it.

One widget that draws lines, not a widget per message: its cost is that of what can be seen, however long the chat.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from sinkchat.tui.text.horizon import find_horizon
from sinkchat.tui.text.passage import Passage, Sight
from sinkchat.tui.text.stack import LOADED_LINES, Stack
from sinkchat.tui.widgets.pen import GUTTER, Pen, Shade

MEASURE = 104
"""The widest a line of text gets, in cells: longer ones are hard to read."""

_VOICES = ("person", "thinking", "reply", "system", "file", "notice", "warning")
_STYLES = {
    *_VOICES,
    *(f"{voice}-mark" for voice in _VOICES),
    *("out", "kept", "horizon", "label", "ornament"),
    *("strong", "em", "strike", "code", "link", "heading", "block"),
    *("code-keyword", "code-string", "code-number", "code-comment", "code-name"),
}


@dataclass(frozen=True, slots=True)
class _Rule:
    """The horizon between the lines: drawn above line `y`, with an empty line behind it if `height` is 2."""

    y: int
    height: int
    words: str


class Transcript(ScrollView, can_focus=False):
    """The passages of a chat, newest at the bottom, which is followed until somebody scrolls up."""

    ALLOW_SELECT = True
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"transcript--{name}" for name in _STYLES}

    class Followed(Message):
        """The newest line came into view, or left it."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.sight = Sight(0, 0, 0)
        self.following = True
        self.folds_thinking = True
        """Whether thinking that begins is folded."""
        self._stack = Stack()
        self._rule: _Rule | None = None
        self._shades: dict[int, Shade] = {}
        self._moving = False
        self._strips: dict[int, Strip] = {}  # what is drawn, by the row of the view
        self._pen = Pen(self._component)

    @property
    def passages(self) -> list[Passage]:
        return self._stack.passages

    @property
    def laid_out_lines(self) -> int:
        """Bounded, whatever the length of the chat."""
        return self._stack.height

    # -- what is said: whoever changes something calls `settle` when all is changed

    def add(self, passage: Passage) -> None:
        self._stack.add(passage)

    def changed(self, passage: Passage) -> None:
        """The passage grew, or what is said below it is something else."""
        self._stack.changed(passage)

    def look(self, sight: Sight) -> None:
        """The model sees something else now: move the horizon."""
        self.sight = sight

    def settle(self) -> None:
        """Draw what changed, with the newest line in view if it is followed."""
        self._shades.clear()
        if not self._stack.width:
            return
        if self.following:
            self._stack.trim()
        self._place_rule()
        with self._moves():
            self._grow()
            if self.following:
                self.scroll_to(y=self.max_scroll_y, animate=False)
        self._draw_changed()

    def _grow(self) -> None:
        """Let the scroll bar know the height. Only where the bar comes or goes must the screen be laid out again."""
        size, room = Size(self.size.width, self._height), self.size.height
        if (size.height > room) != (self.virtual_size.height > room) or size.width != self.virtual_size.width:
            self.virtual_size = size
        elif size != self.virtual_size:
            self.set_reactive(Transcript.virtual_size, size)
            self._scroll_update(size)

    def _draw_changed(self) -> None:
        """Send only the rows that look different to the terminal."""
        former, self._strips = self._strips, {}
        for y in range(self.size.height):
            self._strips[y] = strip = self._paint(y)
            if former and former.get(y) != strip:
                self.refresh(Region(0, y, self.size.width, 1))
        if not former:
            self.refresh()

    def _draw_all(self) -> None:
        self._strips.clear()
        self.refresh()

    @property
    def _height(self) -> int:
        return self._stack.height + (self._rule.height if self._rule else 0)

    # -- thinking

    def fold_thinking(self, folded: bool) -> None:
        """Fold or unfold all thinking, and what comes of it."""
        self.folds_thinking = folded
        for passage in self.passages:
            if passage.voice == "thinking":
                passage.fold(folded)
        self.screen.clear_selection()
        self._stack.renew()
        self.follow()

    def on_click(self, event: events.Click) -> None:
        """The label of thinking opens and closes it."""
        y = event.y + self.scroll_offset.y
        if self._rule and y >= self._rule.y:
            y = max(self._rule.y, y - self._rule.height)
        found = self._stack.line(y)
        if found is not None and found[0].kind == "label" and found[1].voice == "thinking":
            self.screen.clear_selection()
            found[1].fold(not found[1].folded)
            self.changed(found[1])
            self.settle()

    # -- scrolling

    @property
    def lines_below(self) -> int:
        return max(0, round(self.max_scroll_y - self.scroll_y))

    def follow(self) -> None:
        """Go to the newest line, and stay there."""
        if not self.following:
            self.following = True
            self.post_message(self.Followed())
        self.settle()

    def page(self, pages: float) -> None:
        """Scroll by so many heights of the view, up if negative."""
        self.scroll_to(y=self.scroll_y + round(pages * max(1, self.size.height - 2)), animate=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        self._strips.clear()
        super().watch_scroll_y(old_value, new_value)
        if self._moving or round(old_value) == round(new_value):
            return
        at_end = new_value >= self.max_scroll_y
        changed = at_end != self.following
        self.following = at_end
        if changed or not at_end:
            self.post_message(self.Followed())
        if new_value < LOADED_LINES // 4 and not self._stack.whole:
            self.call_after_refresh(self._load_older)

    def _load_older(self) -> None:
        before = self._height
        if not self._stack.load_older():
            return
        self._place_rule()
        with self._moves():
            self._grow()
            self.scroll_to(y=self.scroll_y + self._height - before, animate=False)
        self._draw_all()

    @contextmanager
    def _moves(self) -> Iterator[None]:
        """What scrolls in here is not somebody who scrolls."""
        self._moving = True
        try:
            yield
        finally:
            self._moving = False

    def on_resize(self, event: events.Resize) -> None:
        width = max(1, min(self.scrollable_content_region.width - GUTTER - 1, MEASURE))
        if width != self._stack.width:
            self.screen.clear_selection()
            self._stack.resize(width)
        self._strips.clear()
        self.settle()
        # Nothing scrolls until the bar has its place, and no further word may come to make up for it.
        self.call_after_refresh(self.settle)

    # -- the horizon

    def _place_rule(self) -> None:
        self._rule = None
        horizon = find_horizon(self._stack.passages, self.sight)
        if horizon is None:
            return
        y = self._stack.find(horizon.passage, horizon.offset)
        if y is None:
            return
        if horizon.offset:
            self._rule = _Rule(y, 1, horizon.words)
        else:
            # Between two messages: below the empty line, with another one after the rule.
            self._rule = _Rule(min(y + 1, self._stack.height), 2, horizon.words)

    def _paint_rule(self, words: str) -> Strip:
        width = min(self.size.width, self._stack.width + GUTTER)
        text = f"── {words} "
        if len(text) > width:
            text = f"── {words.removeprefix('horizon · ')} "
        if len(text) > width:
            text = "── horizon "
        strip = Strip([Segment((text + "─" * width)[:width], self._pen.style("base", "horizon"))], width)
        return strip.extend_cell_length(self.size.width, self._pen.style("base"))

    # -- drawing

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._pen.forget()
        self._strips.clear()

    def _component(self, name: str) -> Style:
        if name == "base":
            return self.rich_style
        if name == "selection":
            return self.screen.get_component_rich_style("screen--selection")
        if name not in _STYLES:
            return Style.null()
        return self.get_component_rich_style(f"transcript--{name}", partial=True)

    def render_line(self, y: int) -> Strip:
        if y not in self._strips:
            self._strips[y] = self._paint(y)
        return self._strips[y]

    def _paint(self, y: int) -> Strip:
        """Row `y` of the view."""
        width, base = self.size.width, self._pen.style("base")
        y += self.scroll_offset.y
        rule = self._rule
        if rule and rule.y <= y < rule.y + rule.height:
            return self._paint_rule(rule.words) if y == rule.y else Strip.blank(width, base)
        if rule and y >= rule.y:
            y -= rule.height
        found = self._stack.line(y)
        if found is None:
            return Strip.blank(width, base)
        line, passage = found
        name = self._stack.name(y)
        strip = self._pen.line(
            line, passage, self._shade(passage), self._stack.width + GUTTER, name, self._selected(line.text, name)
        )
        return strip.extend_cell_length(width, base)

    def _shade(self, passage: Passage) -> Shade:
        shade = self._shades.get(id(passage))
        if shade is None:
            shade = Shade(passage.cut(self.sight), passage.kept(self.sight), passage.unread_from)
            self._shades[id(passage)] = shade
        return shade

    # -- selection

    def selection_updated(self, selection: Selection | None) -> None:
        self._draw_all()

    def _selected(self, text: str, name: int) -> tuple[int, int] | None:
        selection = self.text_selection
        span = selection.get_span(name) if selection else None
        return (span[0], len(text) if span[1] == -1 else span[1]) if span else None

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text as it was written: lines that were only wrapped are put together again."""
        text, first = "", True
        for y in range(self._stack.height):
            span = selection.get_span(self._stack.name(y))
            found = self._stack.line(y)
            if span is None or found is None:
                continue
            line = found[0]
            piece = line.text[span[0] : None if span[1] == -1 else span[1]]
            text += piece if line.soft or first else "\n" + piece
            first = False
        return text, "\n"
