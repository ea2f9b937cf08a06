"""What was said, with the horizon drawn through it.

One widget that draws lines, not a widget per message: its cost is that of what can be seen, however long the chat.
Only the newest lines are laid out; older ones are as one scrolls up to them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from sinkchat.tui.text.passage import Passage, Sight, Stanza
from sinkchat.tui.text.row import Line
from sinkchat.tui.widgets.pen import GUTTER, Pen, Shade

KEPT_LINES = 1500
"""Lines laid out while the newest is followed."""
LOADED_LINES = 500
"""Lines laid out more when one scrolls up to the oldest of them."""
MEASURE = 104
"""The widest a line of text gets, in cells: longer ones are hard to read."""

_VOICES = ("person", "reply", "system", "file", "notice", "warning")
_STYLES = {
    *_VOICES,
    *(f"{voice}-mark" for voice in _VOICES),
    *("out", "kept", "horizon", "label", "ornament"),
    *("strong", "em", "strike", "code", "link", "heading", "block"),
    *("code-keyword", "code-string", "code-number", "code-comment", "code-name"),
}


class Transcript(ScrollView, can_focus=False):
    """The passages of a chat, newest at the bottom, which is followed until somebody scrolls up."""

    ALLOW_SELECT = True
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"transcript--{name}" for name in _STYLES}

    class Followed(Message):
        """The newest line came into view, or left it."""

        def __init__(self, following: bool) -> None:
            self.following = following
            super().__init__()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.passages: list[Passage] = []
        self.sight = Sight(0, 0, 0)
        self.following = True
        self._flat: list[Stanza] = []
        self._starts: list[int] = []  # of each passage's first stanza in `_flat`
        self._loaded = 0  # stanzas before this one are not laid out
        self._tops: list[int] = [0]  # y of each loaded stanza, and of what would come next
        self._shift = 0  # lines laid out above the first that ever was: keeps the names of lines in a selection
        self._width = 0
        self._rule: tuple[int, int, str] | None = None  # y, height, words
        self._shades: dict[int, Shade] = {}
        self._moving = False
        self._pen = Pen(self._component)

    # -- what is said

    def add(self, passage: Passage) -> None:
        self.passages.append(passage)
        self._starts.append(len(self._flat))
        self.changed(passage)

    def changed(self, passage: Passage) -> None:
        """The passage grew, or its figures changed: lay it out again."""
        index = len(self.passages) - 1
        while self.passages[index] is not passage:
            index -= 1
        same = self._replace(index)
        self._lay_out_from(same)

    def look(self, sight: Sight) -> None:
        """The model sees something else now: move the horizon."""
        if sight != self.sight:
            self.sight = sight
            self._lay_out_from(len(self._flat))

    def forget_all(self) -> None:
        self.passages.clear()
        self._flat.clear()
        self._starts.clear()
        self._loaded, self._tops, self._shift = 0, [0], 0
        self._lay_out_from(0)

    # -- scrolling

    def follow(self) -> None:
        """Go to the newest line, and stay there."""
        if not self.following:
            self.following = True
            self.post_message(self.Followed(True))
        self._settle()

    def page(self, pages: float) -> None:
        """Scroll by so many heights of the view, up if negative."""
        self.scroll_to(y=self.scroll_y + round(pages * max(1, self.size.height - 2)), animate=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._moving or round(old_value) == round(new_value):
            return
        at_end = new_value >= self.max_scroll_y
        if at_end != self.following:
            self.following = at_end
            self.post_message(self.Followed(at_end))
        if new_value < LOADED_LINES // 4 and self._loaded:
            self.call_after_refresh(self._load_older)

    @property
    def lines_below(self) -> int:
        return max(0, round(self.max_scroll_y - self.scroll_y))

    # -- laying out

    @property
    def mounted_lines(self) -> int:
        """Lines that are laid out now: bounded, whatever the length of the chat."""
        return self._tops[-1]

    def _replace(self, index: int) -> int:
        """Takes the stanzas of the passages from `index` on anew; returns the first that is another one."""
        start = self._starts[index]
        stanzas = [stanza for passage in self.passages[index:] for stanza in passage.stanzas]
        same = start
        while same - start < len(stanzas) and same < len(self._flat) and self._flat[same] is stanzas[same - start]:
            same += 1
        self._flat[same:] = stanzas[same - start :]
        for number in range(index, len(self.passages) - 1):
            self._starts[number + 1] = self._starts[number] + len(self.passages[number].stanzas)
        return same

    def _lay_out_from(self, stanza: int) -> None:
        """Counts the lines of the stanzas from this one on, and draws."""
        self._shades.clear()
        if not self._width:
            return
        del self._tops[max(1, stanza - self._loaded + 1) :]
        for index in range(self._loaded + len(self._tops) - 1, len(self._flat)):
            self._tops.append(self._tops[-1] + len(self._flat[index].lines(self._text_width)))
        if self.following and self.mounted_lines > 2 * KEPT_LINES:
            self._trim()
        self._place_rule()
        self._settle()

    def _trim(self) -> None:
        drop = bisect_right(self._tops, self.mounted_lines - KEPT_LINES) - 1
        gone = self._tops[drop]
        self._loaded += drop
        self._shift -= gone
        self._tops = [top - gone for top in self._tops[drop:]]

    def _load_older(self) -> None:
        if not self._loaded:
            return
        heights: list[int] = []
        while self._loaded and sum(heights) < LOADED_LINES:
            self._loaded -= 1
            heights.insert(0, len(self._flat[self._loaded].lines(self._text_width)))
        added = sum(heights)
        tops = [0]
        for height in heights:
            tops.append(tops[-1] + height)
        self._tops = tops[:-1] + [top + added for top in self._tops]
        self._shift += added
        before = self._rule[1] if self._rule else 0
        self._place_rule()
        after = self._rule[1] if self._rule else 0
        with self._moves():
            self.virtual_size = Size(self.size.width, self._height)
            self.scroll_to(y=self.scroll_y + added + after - before, animate=False)
        self.refresh()

    def _settle(self) -> None:
        with self._moves():
            self.virtual_size = Size(self.size.width, self._height)
            if self.following:
                self.scroll_to(y=self.max_scroll_y, animate=False)
        self.refresh()

    @contextmanager
    def _moves(self) -> Iterator[None]:
        """What scrolls in here is not somebody who scrolls."""
        self._moving = True
        try:
            yield
        finally:
            self._moving = False

    @property
    def _text_width(self) -> int:
        return max(1, min(self._width - GUTTER - 1, MEASURE))

    @property
    def _height(self) -> int:
        return self.mounted_lines + (self._rule[1] if self._rule else 0)

    def on_resize(self, event: events.Resize) -> None:
        width = self.scrollable_content_region.width
        if width == self._width:
            self._settle()
            return
        self._width = width
        self.screen.clear_selection()
        # Start with the newest lines only: laying out a long chat again would hold the resize up.
        self._loaded, self._tops, self._shift = len(self._flat), [0], 0
        heights: list[int] = []
        while self._loaded and sum(heights) < KEPT_LINES:
            self._loaded -= 1
            heights.insert(0, len(self._flat[self._loaded].lines(self._text_width)))
        for height in heights:
            self._tops.append(self._tops[-1] + height)
        self._lay_out_from(len(self._flat))

    # -- the horizon

    def _place_rule(self) -> None:
        self._rule = None
        found = self._horizon()
        if found is None:
            return
        passage, offset, words = found
        index = self._starts[self._index(passage)]
        last = index + len(passage.stanzas)
        while index < last - 1 and self._flat[index].lines(self._text_width)[-1].end <= offset:
            index += 1
        if index < self._loaded:
            return
        top = self._tops[index - self._loaded]
        lines = self._flat[index].lines(self._text_width)
        within = next((number for number, line in enumerate(lines) if line.end > offset), len(lines))
        if offset == 0:
            # Between two messages: below the empty line, with another one after the rule.
            self._rule = (top + min(1, len(lines)), 2, words)
        else:
            self._rule = (top + within, 1, words)

    def _index(self, passage: Passage) -> int:
        index = len(self.passages) - 1
        while self.passages[index] is not passage:
            index -= 1
        return index

    def _horizon(self) -> tuple[Passage, int, str] | None:
        """The passage and source offset before which nothing is seen, sinks aside, and the words for it."""
        passed: Passage | None = None
        for passage in self.passages:
            if passage.withdrawn or (not passage.tokens and passage.sequence == self.sight.sequence):
                continue
            gone = passage.gone_tokens(self.sight)
            if gone >= max(1, passage.tokens):
                passed = passage
                continue
            if passage.sequence != self.sight.sequence:
                continue
            if gone:
                return passage, passage.cut(self.sight), self._words(passage)
            return (passage, 0, self._words(None)) if passed else None
        return (passed, len(passed.text) + 1, self._words(None)) if passed else None

    def _words(self, passage: Passage | None) -> str:
        if passage:
            out = sum(part.unseen_tokens(self.sight) for part in passage.parts)
            total = sum(part.tokens for part in passage.parts)
            return f"horizon · {out:,} of {total:,} tokens of this message are out of sight"
        kept = self.sight.kept
        aside = f", {kept:,} sink{'s' if kept > 1 else ''} aside" if kept else ""
        return f"horizon · nothing above is in sight{aside}"

    # -- drawing

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._pen.forget()

    def _component(self, name: str) -> Style:
        if name == "base":
            return self.rich_style
        if name == "selection":
            return self.screen.get_component_rich_style("screen--selection")
        if f"transcript--{name}" not in self.COMPONENT_CLASSES:
            return Style.null()
        return self.get_component_rich_style(f"transcript--{name}", partial=True)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        y += self.scroll_offset.y
        if self._rule:
            at, height, words = self._rule
            if at <= y < at + height:
                return self._paint_rule(words, width) if y == at else Strip.blank(width, self._pen.style("base"))
            y -= height if y >= at else 0
        found = self._line_at(y)
        if found is None:
            return Strip.blank(width, self._pen.style("base"))
        line, passage = found
        name = y - self._shift
        selected = None
        if (selection := self.text_selection) is not None and (span := selection.get_span(name)) is not None:
            selected = (span[0], len(line.text) if span[1] == -1 else span[1])
        shade = self._shade(passage)
        strip = self._pen.line(line, passage, shade, self._text_width + GUTTER, name, selected)
        return strip.extend_cell_length(width, self._pen.style("base"))

    def _line_at(self, y: int) -> tuple[Line, Passage] | None:
        if not 0 <= y < self.mounted_lines:
            return None
        index = bisect_right(self._tops, y) - 1
        stanza = self._flat[self._loaded + index]
        return stanza.lines(self._text_width)[y - self._tops[index]], stanza.passage

    def _shade(self, passage: Passage) -> Shade:
        shade = self._shades.get(id(passage))
        if shade is None:
            shade = Shade(passage.cut(self.sight), passage.kept(self.sight), passage.unread_from)
            self._shades[id(passage)] = shade
        return shade

    def _paint_rule(self, words: str, width: int) -> Strip:
        style = self._pen.style("base", "horizon")
        width = min(width, self._text_width + GUTTER)
        text = f"── {words} "
        if len(text) > width:
            text = f"── {words.removeprefix('horizon · ')} "
        if len(text) > width:
            text = "── horizon "
        return Strip([Segment((text + "─" * width)[:width], style)], width).extend_cell_length(
            self.size.width, self._pen.style("base")
        )

    # -- selection

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text as it was written: lines that were only wrapped are put together again."""
        text = ""
        for y in range(self.mounted_lines):
            span = selection.get_span(y - self._shift)
            found = self._line_at(y)
            if span is None or found is None:
                continue
            line = found[0]
            piece = line.text[span[0] : None if span[1] == -1 else span[1]]
            text += piece if line.soft or not text else "\n" + piece
        return text, "\n"
