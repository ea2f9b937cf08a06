"""The lines of all passages, on top of each other. Only the newest are laid out, and older ones when asked for."""

from __future__ import annotations

from bisect import bisect_right

from sinkchat.tui.text.passage import Passage, Stanza
from sinkchat.tui.text.row import Line

KEPT_LINES = 1500
"""Lines that stay laid out while the newest is followed."""
LOADED_LINES = 500
"""Lines that are laid out more at a time towards the oldest."""


class Stack:
    """`y` counts the lines that are laid out, from 0. `width` 0 means that nothing is laid out yet."""

    def __init__(self) -> None:
        self.passages: list[Passage] = []
        self.width = 0
        self._stanzas: list[Stanza] = []
        self._starts: list[int] = []  # of each passage's first stanza
        self._loaded = 0  # stanzas before this one are not laid out
        self._tops: list[int] = [0]  # y of each stanza that is laid out, and of what would come next
        self._shift = 0

    @property
    def height(self) -> int:
        return self._tops[-1]

    @property
    def whole(self) -> bool:
        """Everything there is, is laid out."""
        return self._loaded == 0

    def name(self, y: int) -> int:
        """What the line is called for good, whatever is laid out above it or dropped."""
        return y - self._shift

    def add(self, passage: Passage) -> None:
        self.passages.append(passage)
        self._starts.append(len(self._stanzas))
        self.changed(passage)

    def changed(self, passage: Passage) -> None:
        """The passage's rows are others now."""
        index = self._index(passage)
        start = self._starts[index]
        stanzas = [stanza for later in self.passages[index:] for stanza in later.stanzas]
        same = 0
        known = self._stanzas[start:]
        while same < min(len(stanzas), len(known)) and known[same] is stanzas[same]:
            same += 1
        self._stanzas[start + same :] = stanzas[same:]
        for number in range(index, len(self.passages) - 1):
            self._starts[number + 1] = self._starts[number] + len(self.passages[number].stanzas)
        self._count_from(start + same)

    def renew(self) -> None:
        """Any passage may have other rows: lay the newest out again."""
        self._stanzas, self._starts = [], []
        for passage in self.passages:
            self._starts.append(len(self._stanzas))
            self._stanzas += passage.stanzas
        self.resize(self.width)

    def resize(self, width: int) -> None:
        """Lay the newest lines out anew."""
        self.width = width
        self._loaded, self._tops, self._shift = len(self._stanzas), [0], 0
        self.load_older(KEPT_LINES)
        self._shift = 0

    def load_older(self, lines: int = LOADED_LINES) -> int:
        """Lay out at least so many lines more towards the oldest, if there are; returns how many."""
        heights: list[int] = []
        while self._loaded and sum(heights) < lines:
            self._loaded -= 1
            heights.append(self._height(self._loaded))
        added = sum(heights)
        tops = [0]
        for height in reversed(heights):
            tops.append(tops[-1] + height)
        self._tops = tops[:-1] + [top + added for top in self._tops]
        self._shift += added
        return added

    def trim(self) -> None:
        """Drop old lines, if there are many more than are kept."""
        if self.height <= 2 * KEPT_LINES:
            return
        drop = bisect_right(self._tops, self.height - KEPT_LINES) - 1
        gone = self._tops[drop]
        self._loaded += drop
        self._shift -= gone
        self._tops = [top - gone for top in self._tops[drop:]]

    def line(self, y: int) -> tuple[Line, Passage] | None:
        if not 0 <= y < self.height:
            return None
        index = bisect_right(self._tops, y) - 1
        stanza = self._stanzas[self._loaded + index]
        return stanza.lines(self.width)[y - self._tops[index]], stanza.passage

    def find(self, passage: Passage, offset: int) -> int | None:
        """y of the line with the character at this source offset, or of the first line behind the passage; None if
        that is not laid out."""
        index = self._starts[self._index(passage)]
        last = index + len(passage.stanzas) - 1
        while index < last and self._stanzas[index].lines(self.width)[-1].end <= offset:
            index += 1
        if index < self._loaded:
            return None
        lines = self._stanzas[index].lines(self.width)
        within = next((number for number, line in enumerate(lines) if line.end > offset), len(lines))
        return self._tops[index - self._loaded] + within

    def _index(self, passage: Passage) -> int:
        index = len(self.passages) - 1
        while self.passages[index] is not passage:
            index -= 1
        return index

    def _height(self, stanza: int) -> int:
        return len(self._stanzas[stanza].lines(self.width))

    def _count_from(self, stanza: int) -> None:
        if not self.width:
            return
        del self._tops[max(1, stanza - self._loaded + 1) :]
        for index in range(self._loaded + len(self._tops) - 1, len(self._stanzas)):
            self._tops.append(self._tops[-1] + self._height(index))
