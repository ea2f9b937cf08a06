"""Turns a line of a passage into a strip of the screen: its styles, what is out of sight, what is selected."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from sinkchat.tui.text.passage import Passage, Voice
from sinkchat.tui.text.row import Kind, Line

GUTTER = 2
_BLOCKS: dict[Kind, tuple[str, ...]] = {"code": ("block",), "heading": ("heading",)}
"""Styles of whole lines."""
MARKS: dict[Voice, str] = {
    "person": "▌ ",
    "file": "┊ ",
    "system": "  ",
    "thinking": "  ",
    "reply": "  ",
    "notice": "· ",
    "warning": "! ",
}


@dataclass(frozen=True, slots=True)
class Shade:
    """What the model cannot see of a passage, in source offsets: before `cut` (but for the first `kept`) and from
    `unread` on."""

    cut: int
    kept: int
    unread: int | None


class Pen:
    """Paints lines with the styles that `style` names; a name is a component class of the transcript."""

    def __init__(self, style: Callable[[str], Style]) -> None:
        self._look_up = style
        self._styles: dict[tuple[str, ...], Style] = {}

    def forget(self) -> None:
        """The theme changed."""
        self._styles.clear()

    def style(self, *names: str) -> Style:
        """The named styles on top of each other."""
        if names not in self._styles:
            style = Style.null()
            for name in names:
                style += self._look_up(name)
            self._styles[names] = style
        return self._styles[names]

    def line(
        self, line: Line, passage: Passage, shade: Shade, width: int, y: int, selected: tuple[int, int] | None
    ) -> Strip:
        """The line in so many cells; `y` is what a selection calls it, `selected` the selected characters."""
        voice = passage.voice
        out = line.end <= shade.cut and line.offset >= shade.kept
        base = ["base", voice, *_BLOCKS.get(line.kind, ())]
        gutter_style = self.style("base", "out" if out else f"{voice}-mark")
        further = line.soft and voice in ("notice", "warning")
        segments = [Segment("  " if line.kind == "gap" or further else MARKS[voice], gutter_style)]
        used = GUTTER
        if line.lead:
            segments.append(Segment(line.lead, self.style("base", "out" if out else "ornament")))
            used += cell_len(line.lead)
        if line.kind in ("rule", "table-rule"):
            text = line.text or "─" * min(24, max(0, width - used))
            segments.append(Segment(text, self.style("base", "ornament")))
            used += cell_len(text)
        else:
            for segment in self._text(line, base, shade, y, selected):
                segments.append(segment)
                used += segment.cell_length
        if used < width:
            pad = self.style(*base) if line.kind == "code" else self.style("base")
            segments.append(Segment(" " * (width - used), pad + _offset(len(line.text), y)))
        strip = Strip(segments, max(used, width))
        return strip if used <= width else strip.crop(0, width)

    def _text(
        self, line: Line, base: list[str], shade: Shade, y: int, selected: tuple[int, int] | None
    ) -> list[Segment]:
        length = len(line.text)
        has_source = len(line.source) == length
        kept = bisect_left(line.source, shade.kept) if has_source else 0
        cut = bisect_left(line.source, shade.cut) if has_source else length if line.end <= shade.cut else 0
        unread = length
        if shade.unread is not None:
            unread = (
                bisect_left(line.source, shade.unread) if has_source else 0 if line.offset >= shade.unread else length
            )
        edges = {0, length, *(edge for edge in (kept, cut, unread) if edge < length)}
        for start, end, _style in line.spans:
            edges.update((start, end))
        if selected:
            edges.update(min(edge, length) for edge in selected)
        ordered = sorted(edge for edge in edges if 0 <= edge <= length)
        segments = []
        for start, end in pairwise(ordered):
            if start < kept:
                names = [*base, "kept"]
            elif start < cut or start >= unread:
                names = [*base, "out"]
            else:
                names = list(base)
                for a, b, styles in line.spans:
                    if a <= start < b:
                        names += styles.split()
            if selected and selected[0] <= start < selected[1]:
                names.append("selection")
            segments.append(Segment(line.text[start:end], self.style(*names) + _offset(start, y)))
        return segments


def _offset(x: int, y: int) -> Style:
    """Tells a selection which character this is."""
    return Style.from_meta({"offset": (x, y)})
