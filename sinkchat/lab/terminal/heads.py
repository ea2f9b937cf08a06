"""A head map in a terminal: shades or figures for what each head gives of its attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sinkchat.chat.printable import visible
from sinkchat.engine.events import Heads
from sinkchat.lab.telling import numerals
from sinkchat.lab.terminal.columns import folded

SHADES = " ░▒▓█"
DIGITS = "0123456789"


def head_map(heads: Heads, width: int, title: str, *, ascii: bool = False) -> str:
    """Layers downwards, heads to the right, a shade for each share: ` ░▒▓█` for fifths, or 0 to 9 for tenths.

    A cell is two characters wide where there is room. Of more heads than there is room for, neighbours share a cell
    that tells their mean, and the last line says so. A layer without sinks is a row of `-`.
    """
    width = max(20, width)
    columns = max((len(row) for row in heads), default=0)
    lines = folded(visible(title), width) if title else []
    if not columns:
        return "\n".join([*lines, "There is no layer with sinks to show."])
    margin = max(len("layer"), len(str(len(heads) - 1))) + 2
    room = width - margin
    together = -(-columns // room)
    cells = -(-columns // together)
    wide = 2 if 2 * cells <= room else 1
    lines.append(" " * margin + "head")
    lines.append("layer".ljust(margin) + _numbered(cells, together, wide, room))
    for layer, row in enumerate(heads):
        groups = [row[at : at + together] for at in range(0, columns, together)]
        signs = "".join(_shade(group, ascii) * wide for group in groups)
        lines.append(f"{layer:>{margin - 2}} {'|' if ascii else '▏'}{signs}".rstrip())
    lines += folded(_shades_told(heads, together, ascii), width)
    return "\n".join(numerals.plain(line) if ascii else line for line in lines)


def _numbered(cells: int, together: int, wide: int, room: int) -> str:
    """Numbers of heads above their cells, as many as have room."""
    line = ""
    step = max(1, -(-8 // wide))
    for cell in range(0, cells, step):
        label = str(cell * together)
        if cell * wide + len(label) <= room and (not line or cell * wide > len(line)):
            line = line.ljust(cell * wide) + label
    return line


def _shade(group: Sequence[float | None], ascii: bool) -> str:
    known = [share for share in group if share is not None and not math.isnan(share)]
    if not known:
        return "-"
    share = min(1.0, max(0.0, sum(known) / len(known)))
    scale_of = DIGITS if ascii else SHADES
    return scale_of[min(len(scale_of) - 1, int(share * len(scale_of)))]


def _shades_told(heads: Heads, together: int, ascii: bool) -> str:
    told = (
        "0: under 10 % of a head's attention, 9: 90 % and more."
        if ascii
        else "Blank: under 20 % of a head's attention, ░ under 40, ▒ under 60, ▓ under 80, █ 80 % and more."
    )
    if any(share is None for row in heads for share in row):
        told += " -: no sinks in this layer."
    return told + (f" Each cell is the mean of {together} heads." if together > 1 else "")
