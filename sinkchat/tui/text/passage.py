"""What one voice said, as the screen shows it: text that grows, and the token at which each piece of it was read.

A passage knows the position of every token of its text, so that the horizon can be drawn at the very token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sinkchat.tui import figures
from sinkchat.tui.text.flow import Flow, MarkdownFlow, PlainFlow
from sinkchat.tui.text.row import Cell, Line, Row, lay_out

Voice = Literal["system", "person", "file", "thinking", "reply", "notice", "warning"]

STANZA = 40
"""Rows that are laid out together."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What the model can see: the first `kept` tokens of a sequence, and those from `horizon` on."""

    sequence: int
    kept: int
    horizon: int


class Stanza:
    """A few rows of a passage, with their lines at the width they were last asked for."""

    def __init__(self, passage: Passage, rows: Sequence[Row], former: Stanza | None = None) -> None:
        self.passage = passage
        self.rows = tuple(rows)
        self._width: int = former._width if former else 0
        self._parts: list[list[Line]] = []
        self._lines: list[Line] | None = None
        if former:
            # Rows that are the same objects as before have the same lines.
            same = 0
            while same < min(len(self.rows), len(former._parts)) and self.rows[same] is former.rows[same]:
                same += 1
            self._parts = former._parts[:same]

    def lines(self, width: int) -> list[Line]:
        if width != self._width:
            self._width, self._parts, self._lines = width, [], None
        if self._lines is None:
            self._parts += [lay_out(row, width) for row in self.rows[len(self._parts) :]]
            self._lines = [line for part in self._parts for line in part]
        return self._lines


class Passage:
    """One message, file or notice. Texts given to it must be printable already."""

    def __init__(self, voice: Voice, text: str = "", *, label: str = "", sequence: int = 0, fence: str = "") -> None:
        """`fence`: the line that opened the code in which the text begins, where another passage has it."""
        self.voice = voice
        self.label = label
        self.sequence = sequence
        self.first: int | None = None
        """Position of the first token of the text."""
        self.footer = ""
        self.withdrawn = False
        """The text was taken back: the model never sees it again, and it is no part of the sequence."""
        self.folded = False
        """Thinking of which only the label is shown."""
        self.unread_from: int | None = None
        """Source offset from which on the model has not read the text (yet, or ever)."""
        self.stanzas: list[Stanza] = []
        self._ends: list[int] = []  # source offset at which each token's text ends
        self._flow: Flow = MarkdownFlow(fence) if voice == "reply" else PlainFlow()
        self._placed = 0  # final rows that are in full stanzas
        self._growing = True
        self.parts = [self]
        """All passages of this message, in order: what changes the cache cuts a message that is being written."""
        if text:
            self._flow.add(text)
        self._arrange()

    @property
    def text(self) -> str:
        return self._flow.source

    @property
    def tokens(self) -> int:
        return len(self._ends)

    def add(self, text: str) -> None:
        if text:
            self._flow.add(text)
            self._arrange()

    def mark(self, position: int, lengths: Sequence[int]) -> None:
        """The next tokens of the text, the first of them at `position`: how many of its characters each brought.
        Their positions follow each other without a gap. Their text is added next."""
        self._growing = True
        if self.first is None and lengths:
            self.first = position
        end = self._ends[-1] if self._ends else 0
        for length in lengths:
            end += length
            self._ends.append(end)

    def continued(self, voice: Voice | None = None) -> Passage:
        """The next part of the same message, in another voice if one is given."""
        part = Passage(voice or self.voice, sequence=self.sequence, fence=self._flow.open_fence)
        part.parts = self.parts
        self.parts.append(part)
        return part

    def finish(self) -> None:
        """Nothing is added for now: what was left open, such as a code fence, is shown as it stands."""
        self._flow.finish()
        if self.voice == "thinking" and self._growing:
            self._growing = False
            self._arrange_anew()  # its label says how long it was
        else:
            self._arrange()

    def fold(self, folded: bool) -> None:
        """Show the label of thinking alone, or all of it."""
        if folded != self.folded:
            self.folded = folded
            self._arrange_anew()

    def note(self, footer: str) -> bool:
        """A quiet line below the text. True if it is another one than before."""
        if footer == self.footer:
            return False
        self.footer = footer
        self._arrange()
        return True

    def read_up_to(self) -> int:
        """Source offset behind the last token that was read or said."""
        return min(self._ends[-1], len(self.text)) if self._ends else 0

    def cut(self, sight: Sight) -> int:
        """Source offset of the first character that the model sees, sinks aside; the length if it sees none."""
        if self.withdrawn:
            return len(self.text)
        gone = self.gone_tokens(sight)
        if gone == 0:
            return 0
        return len(self.text) if gone >= self.tokens else min(self._ends[gone - 1], len(self.text))

    def kept(self, sight: Sight) -> int:
        """Source offset up to which the text's tokens are sinks."""
        if self.sequence != sight.sequence or self.first is None or sight.kept <= self.first:
            return 0
        count = min(sight.kept - self.first, self.tokens)
        return min(self._ends[count - 1], len(self.text))

    def gone_tokens(self, sight: Sight) -> int:
        """How many tokens of the text, from its first, lie before the horizon."""
        if self.sequence < sight.sequence:
            return max(self.tokens, 1) if self.text else 0
        if self.first is None or self.sequence > sight.sequence or sight.horizon <= sight.kept:
            return 0  # right behind the sinks comes the oldest recent token: nothing is gone
        return max(0, min(sight.horizon - self.first, self.tokens))

    def unseen_tokens(self, sight: Sight) -> int:
        """How many tokens of the text the model cannot see: those before the horizon that are no sinks."""
        gone = self.gone_tokens(sight)
        if not gone or self.first is None or self.sequence != sight.sequence:
            return min(gone, self.tokens)
        return gone - max(0, min(sight.kept - self.first, gone))

    def _arrange_anew(self) -> None:
        self.stanzas, self._placed = [], 0
        self._arrange()

    def _arrange(self) -> None:
        """Puts the rows into stanzas; the full ones stay as they are."""
        if self.folded:
            self.stanzas = [Stanza(self, [*self._head(), *self._tail()])]
            return
        final = self._flow.final
        open_ = self.stanzas.pop() if self.stanzas else None
        while len(final) - self._placed > STANZA:
            rows = [*self._head(), *final[self._placed : self._placed + STANZA]]
            self.stanzas.append(Stanza(self, rows, open_))
            self._placed += STANZA
            open_ = None
        rows = [*self._head(), *final[self._placed :], *self._flow.open_rows, *self._tail()]
        self.stanzas.append(Stanza(self, rows, open_))

    def _head(self) -> Iterator[Row]:
        """An empty line above the passage, and its label."""
        if self._placed:
            return
        yield _ABOVE
        label = self._thinking_label() if self.voice == "thinking" else self.label
        if label:
            yield Row(Cell(label, (), ((0, len(label), "label"),)), 0, "label")

    def _thinking_label(self) -> str:
        said = figures.plural(self.tokens, "token")
        if not self.folded:
            # While it grows its first rows are final, and what stands in them cannot count.
            return "▾ thinking" if self._growing else f"▾ thought for {said}"
        return f"▸ thinking, {said} so far" if self._growing else f"▸ thought for {said}"

    def _tail(self) -> Iterator[Row]:
        if self.footer:
            yield Row(Cell(self.footer, (), ((0, len(self.footer), "label"),)), len(self.text), "label")


_ABOVE = Row(Cell("", ()), 0, "gap")
