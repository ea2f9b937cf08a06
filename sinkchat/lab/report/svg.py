"""Line charts as inline SVG: labels stand at the ends of the lines, and room is kept for every word that is written.

A chart is drawn for a given width in pixels and scales down from there. Colours come from the classes of
palette.py, so that a drawing follows the theme of its page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from sinkchat.lab.report import lettering
from sinkchat.lab.telling.scale import Axis

SIZE = 12.0
ROW = 15.0
"""Height of a line of text."""
_STUB = 19.0


@dataclass(frozen=True, slots=True)
class Dot:
    """A measured point; hollow where the fact was out of sight. `low` and `high` are the ends of its error bar."""

    x: float
    y: float
    filled: bool = True
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One thing over the axis. A point that is not finite is a gap."""

    name: str
    classes: str
    points: Sequence[tuple[float, float]]
    faint: Sequence[tuple[float, float]] = ()
    """What the line is a mean of, drawn pale."""
    dots: Sequence[Dot] = ()
    quiet: bool = False
    """Drawn thin, without a label."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on the x axis, with a vertical line."""

    x: float
    label: str
    classes: str = ""


@dataclass(frozen=True, slots=True)
class Level:
    """A height on the y axis, with a horizontal line, labelled like a line."""

    y: float
    label: str
    classes: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """The part of a drawing that lies between the axes, in pixels."""

    left: float
    top: float
    width: float
    height: float
    across: Axis
    up: Axis

    def x(self, value: float) -> float:
        return self.left + self.width * self.across.share(value)

    def y(self, value: float) -> float:
        return self.top + self.height * (1 - self.up.share(value))

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


def line_chart(
    lines: Sequence[Line],
    across: Axis,
    up: Axis,
    *,
    width: float,
    height: float,
    described: str,
    marks: Sequence[Mark] = (),
    levels: Sequence[Level] = (),
    labelled: bool = True,
    classes: str = "",
) -> str:
    """An `<svg>` of `width` by `height`; `described` is read aloud in its place. Without `labelled` the lines have no
    names at their ends, for a page that has a legend beside the chart."""
    names = [line.name for line in lines if not line.quiet and line.name] + [level.label for level in levels]
    names = names if labelled else []
    longest = max((lettering.width(name, SIZE) for name in names), default=0.0)
    room = min(longest, 0.42 * width)
    right = room + _STUB + 14 if names else max(12.0, 0.6 * lettering.width(across.ticks[-1][1], SIZE) + 2)
    left = max((lettering.width(label, SIZE) for _, label in up.ticks), default=0.0) + 10
    plot_width = width - left - right
    rows = _rows_of_marks(marks, across, left, plot_width, width)
    top = ROW + 5 + ROW * (max(rows, default=-1) + 1)
    plot = Plot(left, top, plot_width, height - top - 2 * ROW - 9, across, up)
    parts = [
        f'<svg class="chart {classes}" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(described)}">',
        *_grid(plot, width),
        *(_mark(plot, mark, row, width) for mark, row in zip(marks, rows, strict=True)),
        *_inside(plot, lines, levels),
        *(_labels(plot, lines, levels, room) if labelled else []),
        "</svg>",
    ]
    return "".join(parts)


def text(x: float, y: float, words: str, anchor: str = "start", classes: str = "") -> str:
    """`y` is the baseline."""
    kind = f' class="{classes}"' if classes else ""
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{where}{kind}>{escape(words)}</text>'


def path(points: Sequence[tuple[float, float]]) -> str:
    """The `d` of a line through points in pixels; what is not finite is left out and breaks the line."""
    parts: list[str] = []
    pen = "M"
    for x, y in points:
        if not (math.isfinite(x) and math.isfinite(y)):
            pen = "M"
            continue
        parts.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "L"
    return "".join(parts)


def _grid(plot: Plot, width: float) -> list[str]:
    parts = [text(0, ROW - 3, lettering.cut(plot.up.title, SIZE, width), classes="title")]
    below = math.inf
    for value, label in sorted(plot.up.ticks):
        y = plot.y(value)
        parts.append(f'<path class="grid" d="M{plot.left:.1f} {y:.1f}H{plot.right:.1f}"/>')
        # Round figures on a logarithmic axis come closer and closer: what has no room keeps its line alone.
        if below - y >= ROW - 1:
            parts.append(text(plot.left - 7, y + 4, label, "end"))
            below = y
    parts.append(f'<path class="axis" d="M{plot.left:.1f} {plot.bottom:.1f}H{plot.right:.1f}"/>')
    taken = -math.inf
    for value, label in plot.across.ticks:
        x, half = plot.x(value), lettering.width(label, SIZE) / 2
        parts.append(f'<path class="axis" d="M{x:.1f} {plot.bottom:.1f}v4"/>')
        if x - half > taken and x + half <= width:
            parts.append(text(x, plot.bottom + ROW + 1, label, "middle"))
            taken = x + half + 8
    parts.append(text(plot.left, plot.bottom + 2 * ROW + 4, plot.across.title, classes="title"))
    return parts


def _span(mark: Mark, x: float, width: float) -> tuple[float, float]:
    """Where a mark's label stands: beside its line, to the right where there is room."""
    long = lettering.width(mark.label, SIZE)
    start = x - 3 if x - 3 + long <= width else max(0.0, width - long)
    return start, start + long


def _rows_of_marks(marks: Sequence[Mark], across: Axis, left: float, plot_width: float, width: float) -> list[int]:
    """The row above the plot in which each mark's label meets no other."""
    taken: list[list[tuple[float, float]]] = []
    rows = []
    for mark in marks:
        start, end = _span(mark, left + plot_width * across.share(mark.x), width)
        row = next(
            (at for at, spans in enumerate(taken) if all(end + 10 < low or high + 10 < start for low, high in spans)),
            len(taken),
        )
        if row == len(taken):
            taken.append([])
        taken[row].append((start, end))
        rows.append(row)
    return rows


def _mark(plot: Plot, mark: Mark, row: int, width: float) -> str:
    x = plot.x(mark.x)
    start, _ = _span(mark, x, width)
    # Row 0 is the nearest to the plot.
    baseline = plot.top - 5 - ROW * row
    line = f'<path class="mark {mark.classes}" d="M{x:.1f} {baseline + 3:.1f}V{plot.bottom:.1f}"/>'
    return line + text(start, baseline, mark.label, classes=f"marked {mark.classes}")


def _inside(plot: Plot, lines: Sequence[Line], levels: Sequence[Level]) -> list[str]:
    """What is drawn between the axes. A nested `<svg>` cuts what would leave them."""
    box = f"{plot.left:.1f} {plot.top - 4:.1f} {plot.width + 4:.1f} {plot.height + 5:.1f}"
    x, y, wide, high = box.split()
    parts = [f'<svg x="{x}" y="{y}" width="{wide}" height="{high}" viewBox="{box}">']
    for level in levels:
        parts.append(
            f'<path class="level {level.classes}" d="M{plot.left:.1f} {plot.y(level.y):.1f}H{plot.right:.1f}"/>'
        )
    for kind in ("faint", "line"):
        for line in sorted(lines, key=lambda one: not one.quiet):
            points = line.faint if kind == "faint" else line.points
            drawn = path([(plot.x(at), plot.y(value)) for at, value in points if math.isfinite(at)])
            if drawn:
                style = "faint" if kind == "faint" else "line quiet" if line.quiet else "line"
                parts.append(f'<path class="{style} {line.classes}" d="{drawn}"/>')
    parts.append("</svg>")
    parts += [_dot(plot, dot, line.classes) for line in lines for dot in line.dots if math.isfinite(dot.y)]
    return parts


def _dot(plot: Plot, dot: Dot, classes: str) -> str:
    x, y = plot.x(dot.x), plot.y(dot.y)
    bar = ""
    if dot.low is not None and dot.high is not None:
        bar = f'<path class="bar {classes}" d="M{x:.1f} {plot.y(dot.low):.1f}V{plot.y(dot.high):.1f}"/>'
    return (
        f'{bar}<circle class="{"dot" if dot.filled else "dot hollow"} {classes}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
    )


def _labels(plot: Plot, lines: Sequence[Line], levels: Sequence[Level], room: float) -> list[str]:
    """The names, each as near to its line's end as the others let it, with a piece of the line before it."""
    ends: list[tuple[float, float, str, str]] = []
    for line in lines:
        finite = [(at, value) for at, value in line.points if math.isfinite(at) and math.isfinite(value)]
        if line.name and not line.quiet and finite:
            ends.append((plot.x(finite[-1][0]), plot.y(finite[-1][1]), line.name, f"line {line.classes}"))
    ends += [(plot.right, plot.y(level.y), level.label, f"level {level.classes}") for level in levels]
    ends.sort(key=lambda end: end[1])
    heights = spread([min(plot.bottom, max(plot.top, end[1])) for end in ends], ROW, plot.top + 6, plot.bottom)
    parts = []
    for (x, y, name, classes), place in zip(ends, heights, strict=True):
        start = plot.right + 8
        y = min(plot.bottom, max(plot.top, y))
        # A line that ends early is led to its name, and so is one whose name had to give way.
        if x < plot.right - 4 or abs(place - y) > 3:
            parts.append(f'<path class="leader" d="M{x + 2:.1f} {y:.1f}H{plot.right:.1f}L{start:.1f} {place:.1f}"/>')
        parts.append(f'<path class="{classes}" d="M{start:.1f} {place:.1f}h{_STUB - 5:g}"/>')
        parts.append(text(start + _STUB, place + 4, lettering.cut(name, SIZE, room)))
    return parts


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The sorted places, moved as little as they must to be `gap` apart within `low`..`high`; if that is too little
    room for all, they reach beyond `high`."""
    # Blocks of places that touch; each sits at the mean of what its members want.
    blocks: list[tuple[float, int]] = []
    for place in wanted:
        blocks.append((place, 1))
        while len(blocks) > 1 and blocks[-2][0] + gap * (blocks[-2][1] + blocks[-1][1]) / 2 > blocks[-1][0]:
            (first, many), (second, more) = blocks[-2:]
            blocks[-2:] = [((first * many + second * more) / (many + more), many + more)]
    places = [middle + gap * (at - (many - 1) / 2) for middle, many in blocks for at in range(many)]
    for index in range(len(places) - 1, -1, -1):
        limit = high if index == len(places) - 1 else places[index + 1] - gap
        places[index] = min(places[index], limit)
    for index in range(len(places)):
        limit = low if index == 0 else places[index - 1] + gap
        places[index] = max(places[index], limit)
    return places
