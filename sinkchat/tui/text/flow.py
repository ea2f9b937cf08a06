"""Text that grows: its rows, of which all but the last few are final.

Only the open end is read again when text is added, so a reply costs the same per token however long it is.
"""

from __future__ import annotations

import re

from sinkchat.tui.text.markdown import Section, parse
from sinkchat.tui.text.row import Cell, Row, plain_rows

OPEN_END = 2000
"""Characters of a block that is still open before it is cut: it is read again with every addition, and a block that
never ends must not make that ever slower."""
OPEN_CODE = 6000
"""The same for a code fence, which is read fast, and coloured when it is cut."""

_FENCE = re.compile(r"[ ]{0,3}(```+|~~~+)")
_TABLE = re.compile(r"[ ]{0,3}\|?[ ]*:?-+:?[ ]*(\|[ ]*:?-+:?[ ]*)*\|?[ ]*")


class Flow:
    """Text that is added to. `final` rows never change again; `open_rows` are read anew with each addition."""

    def __init__(self) -> None:
        self.source = ""
        self.final: list[Row] = []
        self.open_rows: list[Row] = []
        self._settled = 0  # source before this offset is in `final`

    def add(self, text: str) -> None:
        self.source += text
        self._read(finished=False)

    def finish(self) -> None:
        """Nothing is added for now: what is still open is read as it stands."""
        self._read(finished=True)

    @property
    def open_fence(self) -> str:
        """The line that opened the code in which the text ends; empty where it ends in none."""
        return ""

    def _read(self, *, finished: bool) -> None:
        raise NotImplementedError


class PlainFlow(Flow):
    """Text shown as it is, line by line."""

    def _read(self, *, finished: bool) -> None:
        rows = plain_rows(self.source[self._settled :], self._settled)
        joined = bool(self.final) and self._settled > 0 and self.source[self._settled - 1] != "\n"
        if joined:
            rows[0] = Row(rows[0].cell, rows[0].offset, joined=True)
        self.final += rows[:-1]
        self.open_rows = rows[-1:] if rows[-1].cell.text else []
        self._settled = rows[-1].offset


class MarkdownFlow(Flow):
    """Markdown, block by block: a block is final when the next one has begun."""

    def __init__(self, fence: str = "") -> None:
        """`fence`: the text begins inside code that this line opened elsewhere."""
        super().__init__()
        self._head = fence  # the first lines of a fence or table that was cut, read again before its further parts
        self._joined = False

    @property
    def open_fence(self) -> str:
        first, *rest = (self._head + self.source[self._settled :]).lstrip("\n").splitlines(keepends=True) or [""]
        opened = _FENCE.match(first)
        if opened is None:
            return ""
        mark = opened.group(1)
        closed = any(_FENCE.match(line) and not line.strip().strip(mark[0]) and mark in line for line in rest)
        return "" if closed else first

    def _read(self, *, finished: bool) -> None:
        while len(self.source) - self._settled > OPEN_END and self._cut():
            pass
        sections = self._parse(self.source[self._settled :], finished=finished)
        for section in sections[:-1]:
            self.final += self._spaced(section)
            self._settled = section.end
            self._head, self._joined = "", False
        self.open_rows = [row for section in sections[-1:] for row in self._spaced(section)]

    def _parse(self, text: str, *, finished: bool) -> list[Section]:
        if not self._head:
            return parse(text, self._settled, finished=finished)
        sections = parse(self._head + text, self._settled - len(self._head), finished=finished)
        return [
            Section(
                max(self._settled, section.start),
                section.end,
                tuple(row for row in section.rows if row.offset >= self._settled),
            )
            for section in sections
        ]

    def _spaced(self, section: Section) -> list[Row]:
        """The section's rows below an empty one, unless it goes on with what is above."""
        if self._joined or not section.rows or not (self.final or section.start > 0):
            return list(section.rows)
        return [Row(Cell("", ()), max(0, section.rows[0].offset - 1)), *section.rows]

    def _cut(self) -> bool:
        """Makes the first part of a block that grew too long final. False when there is nothing to cut: the block is
        of a kind that may be longer, or there are several, which settle by themselves."""
        room = OPEN_CODE if _FENCE.match(self._head or self.source[self._settled : self._settled + 8]) else OPEN_END
        if len(self.source) - self._settled <= room:
            return False
        text = self.source[self._settled : self._settled + room]
        sections = self._parse(self.source[self._settled :], finished=False)
        if len(sections) > 1:
            return False
        at = text.rfind("\n") + 1 or text.rfind(" ") + 1 or len(text)
        for section in self._parse(text[:at], finished=True):
            self.final += self._spaced(section)
            self._joined = True
        self._head = self._head or _head_of(text)
        self._settled += at
        return True


def _head_of(text: str) -> str:
    """What a further part of a cut block needs before it to be read as what it is."""
    lines = text.split("\n", 2)
    if _FENCE.match(lines[0]):
        return lines[0] + "\n"
    if len(lines) > 1 and "|" in lines[0] and _TABLE.fullmatch(lines[1]):
        return f"{lines[0]}\n{lines[1]}\n"
    return ""
