"""Markdown to rows: what was written, with its markup turned into styles and nothing lost.

Raw HTML, entities, backslashes and link definitions stay as they were written, so the text that is shown is always
the source with some markup characters left out; that is what makes a source offset for every character possible.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len

from sinkchat.tui.text.code import highlight
from sinkchat.tui.text.row import Cell, Row, Span, steady

BULLETS = ("•", "◦", "▪")
_INLINE = {"strong": "strong", "em": "em", "s": "strike", "link": "link"}


@dataclass(frozen=True, slots=True)
class Section:
    """A top-level block: the source it covers, `start` to `end`, and its rows."""

    start: int
    end: int
    rows: tuple[Row, ...]


def parse(source: str, offset: int = 0, *, finished: bool = True) -> list[Section]:
    """The top-level blocks of a Markdown text that begins at `offset` of a longer one.

    While the text is not `finished`, a code fence that is still open is left uncoloured.
    """
    return [_Section(source, offset, finished).read(tokens) for tokens in _top_level(_PARSER.parse(source))]


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return parser.disable(["html_block", "html_inline", "reference", "entity", "escape"])


_PARSER = _make_parser()


def _top_level(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    block: list[Token] = []
    for token in tokens:
        block.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield block
            block = []


@dataclass
class _Prefix:
    """What stands before each line of a nested block: `first` once, `rest` from then on."""

    first: str
    rest: str


@dataclass
class _Section:
    """Reads one top-level block. Offsets are the source's own until `offset` is added to them."""

    source: str
    offset: int
    finished: bool
    rows: list[Row] = field(default_factory=list)
    prefixes: list[_Prefix] = field(default_factory=list)
    lists: list[bool] = field(default_factory=list)
    """Of the lists around this block, whether each is ordered."""
    starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.starts = [0, *(match.end() for match in re.finditer("\n", self.source))]

    def read(self, tokens: list[Token]) -> Section:
        first, last = tokens[0].map or (0, 0)
        index = 0
        while index < len(tokens):
            index = self._block(tokens, index)
        start, end = self._line_start(first), self._line_start(last)
        return Section(self.offset + start, self.offset + end, tuple(self.rows))

    def _line_start(self, line: int) -> int:
        return self.starts[line] if line < len(self.starts) else len(self.source)

    def _block(self, tokens: list[Token], index: int) -> int:
        """Reads the block at `index`; returns where the next one is."""
        token = tokens[index]
        line = token.map[0] if token.map else 0
        if token.type in ("bullet_list_open", "ordered_list_open"):
            self.lists.append(token.type == "ordered_list_open")
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            self.lists.pop()
        elif token.type == "list_item_open":
            self._spread(line)
            mark = f"{token.info}{token.markup} " if self.lists[-1] else BULLETS[(len(self.lists) - 1) % 3] + " "
            self.prefixes.append(_Prefix(mark, " " * len(mark)))
        elif token.type == "blockquote_open":
            self._spread(line)
            self.prefixes.append(_Prefix("│ ", "│ "))
        elif token.type in ("list_item_close", "blockquote_close"):
            self.prefixes.pop()
        elif token.type == "inline":
            self._text(token, "heading" if tokens[index - 1].type == "heading_open" else "prose")
        elif token.type in ("paragraph_open", "heading_open"):
            self._spread(line)
        elif token.type in ("fence", "code_block"):
            self._spread(line)
            self._code(token)
        elif token.type == "hr":
            self._spread(line)
            self._row(Cell("", ()), self._line_start(line), "rule")
        elif token.type == "table_open":
            self._spread(line)
            return self._table(tokens, index)
        return index + 1

    def _spread(self, line: int) -> None:
        """An empty row where the source has an empty line before this block of a nested one."""
        start = self._line_start(line)
        above = self.source[self._line_start(line - 1) : start] if line else "x"
        if self.rows and not above.strip(" \t>\n") and not self._unused_mark():
            lead = "".join(prefix.rest for prefix in self.prefixes).rstrip()
            self.rows.append(Row(Cell("", ()), self.offset + max(0, start - 1), lead=lead))

    def _unused_mark(self) -> bool:
        return bool(self.prefixes) and self.prefixes[-1].first != self.prefixes[-1].rest

    def _row(self, cell: Cell, at: int, kind: str, **more: object) -> None:
        lead = "".join(prefix.first for prefix in self.prefixes)
        rest = "".join(prefix.rest for prefix in self.prefixes)
        for prefix in self.prefixes:
            prefix.first = prefix.rest
        if self.offset:
            cell = _moved(cell, self.offset)
        self.rows.append(Row(cell, at + self.offset, kind, lead, rest, **more))  # type: ignore[arg-type]

    def _text(self, token: Token, kind: str) -> None:
        line = token.map[0] if token.map else 0
        last = token.map[1] if token.map else line + 1
        for cell, at in _Inline(self.source, self._line_start(line), self._line_start(last)).read(token):
            self._row(cell, at, kind)

    def _code(self, token: Token) -> None:
        line, last = token.map or (0, 0)
        lines = token.content.split("\n")
        if lines and not lines[-1]:
            lines.pop()
        if token.type == "fence":
            line += 1
        language = token.info.split()[0] if token.info.split() else ""
        # An open fence grows at every token: it is coloured once, when it closes.
        closed = token.type != "fence" or self.finished or self._closed(token, last)
        spans = highlight(token.content, language) if closed else []
        if not lines:
            self._row(Cell("", ()), self._line_start(line), "code")
        start = 0
        for number, text in enumerate(lines):
            begin, end = self._line_start(line + number), self._line_start(line + number + 1)
            at = self.source.find(text, begin, end) if text else begin
            cell = steady(text, at) if at >= 0 else self._partly_tab(text, begin, end)
            at = max(begin, at)
            if spans:
                cell = Cell(cell.text, cell.source, tuple(_within(spans, cell, start - at, start, len(text))))
            self._row(cell, at, "code")
            start += len(text) + 1

    def _partly_tab(self, text: str, begin: int, end: int) -> Cell:
        """A line of code whose first blanks are part of a tab: they stand for it."""
        words = text.lstrip()
        at = max(begin, self.source.find(words, begin, end))
        blanks = len(text) - len(words)
        rest = steady(words, at)
        return Cell(" " * blanks + rest.text, [max(begin, at - 1)] * blanks + list(rest.source))

    def _closed(self, token: Token, last: int) -> bool:
        final = self.source[self._line_start(last - 1) : self._line_start(last)].strip(" \t>\n")
        return last - (token.map or (0, 0))[0] > 1 and len(final) >= 3 and set(final) <= set(token.markup)

    def _table(self, tokens: list[Token], index: int) -> int:
        table: list[list[tuple[Cell, int]]] = []
        header = True
        while tokens[index].type != "table_close":
            token = tokens[index]
            if token.type == "tr_open":
                table.append([])
                line = token.map[0] if token.map else 0
                cursor, end = self._line_start(line), self._line_start(line + 1)
            elif token.type == "inline":
                cells = list(_Inline(self.source, cursor, end).read(token))
                cell, at = cells[0] if cells else (Cell("", ()), cursor)
                if cell.source:
                    cursor = cell.source[-1] + 1
                if header:
                    cell = Cell(cell.text, cell.source, (*cell.spans, (0, len(cell.text), "strong")))
                table[-1].append((cell, at))
            elif token.type == "thead_close":
                header = False
            index += 1
        count = max(len(row) for row in table)
        widths = tuple(
            max(max(1, cell_len(row[i][0].text)) if i < len(row) else 1 for row in table) for i in range(count)
        )
        for number, row in enumerate(table):
            columns = tuple(_moved(cell, self.offset) for cell, _at in row)
            self._row(Cell("", ()), row[0][1], "table", columns=columns, widths=widths)
            if number == 0:
                self._row(Cell("", ()), row[-1][1], "table-rule", columns=columns, widths=widths)
        return index + 1


def _moved(cell: Cell, by: int) -> Cell:
    if isinstance(cell.source, range):
        return Cell(cell.text, range(cell.source.start + by, cell.source.stop + by), cell.spans)
    return Cell(cell.text, [offset + by for offset in cell.source], cell.spans)


def _within(spans: Sequence[Span], cell: Cell, shift: int, start: int, length: int) -> Iterator[Span]:
    """The spans of a whole code block that fall in this line, in characters of the line as it is shown."""
    for a, b, style in spans:
        if a < start + length and b > start:
            low, high = max(a, start) - shift, min(b, start + length) - shift
            shown = [index for index, offset in enumerate(cell.source) if low <= offset < high]
            if shown:
                yield shown[0], shown[-1] + 1, style


@dataclass
class _Inline:
    """Reads one inline token: walks the source beside the text that Markdown made of it."""

    source: str
    cursor: int
    end: int

    def read(self, token: Token) -> Iterator[tuple[Cell, int]]:
        """A cell for each line, and where in the source the line begins."""
        text: list[str] = []
        source: list[int] = []
        spans: list[Span] = []
        open_: list[tuple[str, int]] = []
        line = self.cursor
        for child in [*(token.children or ()), _END]:
            if child.type in ("softbreak", "hardbreak", "end"):
                spans += [(start, len(text), style) for style, start in open_]
                yield _cell(text, source, spans), line
                text, source, spans, open_ = [], [], [], [(style, 0) for style, _start in open_]
                newline = self.source.find("\n", self.cursor, self.end)
                line = self.cursor = newline + 1 if newline >= 0 else self.cursor
            elif child.type.endswith("_open"):
                open_.append((_INLINE[child.type[:-5]], len(text)))
            elif child.type.endswith("_close"):
                if child.type == "link_close" and child.markup != "autolink":
                    self._target(text, source)
                style, start = open_.pop()
                spans.append((start, len(text), style))
            else:
                start = len(text)
                if child.type == "code_inline":
                    self._walk(child.content, text, source)
                else:
                    self._take(child.content, text, source)
                if child.type == "code_inline":
                    spans.append((start, len(text), "code"))
                elif child.type == "image":
                    self._target(text, source)
                    spans.append((start, len(text), "link"))

    def _take(self, content: str, text: list[str], source: list[int]) -> None:
        at = self.source.find(content, self.cursor, self.end)
        if at >= 0:
            text.extend(content)
            source.extend(range(at, at + len(content)))
            self.cursor = at + len(content)
        else:
            self._walk(content, text, source)

    def _walk(self, content: str, text: list[str], source: list[int]) -> None:
        """For code over several lines: its line breaks became blanks, and marks of lists and quotes are left out."""
        for character in content:
            at = self.cursor
            while at < self.end and self.source[at] != character and (character, self.source[at]) != (" ", "\n"):
                at += 1
            if at < self.end:
                self.cursor = at + 1
            text.append(character)
            source.append(max(0, self.cursor - 1))

    def _target(self, text: list[str], source: list[int]) -> None:
        """Shows where a link leads: ` (target)` in place of `](target)`."""
        start = self.source.find("](", self.cursor, self.end)
        stop = self.source.find(")", start, self.end)
        if start < 0 or stop < 0:
            return
        text.extend(" (" + self.source[start + 2 : stop + 1])
        source.extend(range(start, stop + 1))
        self.cursor = stop + 1


_END = Token("end", "", 0)


def _cell(text: list[str], source: list[int], spans: list[Span]) -> Cell:
    shown = steady("".join(text), 0)
    if isinstance(shown.source, range):
        return Cell(shown.text, source, tuple(span for span in spans if span[0] < span[1]))
    # Some characters were expanded or dropped: move the spans along.
    index = list(shown.source)
    moved = []
    for a, b, style in spans:
        inside = [i for i, original in enumerate(index) if a <= original < b]
        if inside:
            moved.append((inside[0], inside[-1] + 1, style))
    return Cell(shown.text, [source[original] for original in index], tuple(moved))
