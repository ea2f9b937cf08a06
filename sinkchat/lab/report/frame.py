"""A chart in its frame: drawn for a wide and for a narrow page, with a legend, a title and a caption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from sinkchat.lab import order
from sinkchat.lab.report.svg import Level, Line, Mark, line_chart
from sinkchat.lab.results import Evaluation, Run
from sinkchat.lab.telling.scale import Axis

WIDE, NARROW, SMALL = 1000.0, 358.0, 484.0
"""Widths in pixels: of a chart on a desk or on paper, on a phone, and of one of two beside each other."""
LABELLED = 9
"""Lines of a chart that have a name; of more runs the others are drawn thin."""
WINDOWS = 6
"""Windows that have charts of their own."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its words."""

    title: str
    body: str
    caption: str


def figure(chart: Figure) -> str:
    title = f"<h3>{escape(chart.title)}</h3>" if chart.title else ""
    caption = f"<figcaption>{escape(chart.caption)}</figcaption>" if chart.caption else ""
    return f"<figure>{title}{chart.body}{caption}</figure>"


def both_widths(
    lines: Sequence[Line],
    axes: Sequence[tuple[Axis, Axis]],
    *,
    height: float,
    described: str,
    marks: Sequence[Mark] = (),
    levels: Sequence[Level] = (),
) -> str:
    """The chart drawn for a wide page with names at the lines, and for a narrow one with a legend below; `axes` for
    each. The page shows one of them."""
    wide = line_chart(
        lines, *axes[0], width=WIDE, height=height, described=described, marks=marks, levels=levels, classes="wide"
    )
    narrow = line_chart(
        lines,
        *axes[1],
        width=NARROW,
        height=min(height, 250),
        described=described,
        marks=marks,
        levels=levels,
        labelled=False,
        classes="narrow",
    )
    return wide + narrow + legend(lines, levels, "narrow")


def half_width(
    lines: Sequence[Line],
    across: Axis,
    up: Axis,
    *,
    height: float,
    described: str,
    marks: Sequence[Mark] = (),
    levels: Sequence[Level] = (),
    labelled: bool = True,
) -> str:
    """A chart for one of two columns, drawn for a wide and a narrow page."""
    drawn = (
        line_chart(
            lines,
            across,
            up,
            width=width,
            height=height,
            described=described,
            marks=marks,
            levels=levels,
            labelled=labelled,
            classes=classes,
        )
        for width, classes in ((SMALL, "wide"), (NARROW, "narrow"))
    )
    return f"<div>{''.join(drawn)}</div>"


def legend(lines: Sequence[Line], levels: Sequence[Level] = (), classes: str = "") -> str:
    """The names of the lines beside pieces of them."""
    named = [(f"line {line.classes}", line.name) for line in lines if line.name and not line.quiet]
    named += [(f"level {level.classes}", level.label) for level in levels]
    keys = "".join(
        f'<li><svg class="key" width="22" height="8" viewBox="0 0 22 8" aria-hidden="true"><path class="{kind}" '
        f'd="M1 4H21"/></svg>{escape(name)}</li>'
        for kind, name in named
    )
    return f'<ul class="keys {classes}">{keys}</ul>' if keys else ""


def eviction_marks(runs: Sequence[Run], evaluation: Evaluation, last: int) -> list[Mark]:
    """Where the first entry left, and where the model's training ends, if that is inside."""
    firsts = sorted({run.first_eviction for run in runs if run.first_eviction is not None})
    marks = [Mark(float(first), f"first eviction, {first:,}", "eviction") for first in firsts[:2]]
    trained = evaluation.subject.trained_length
    if 0 < trained < last:
        marks.append(Mark(float(trained), f"trained length, {trained:,}", "trained"))
    return marks


def shown_windows(evaluation: Evaluation) -> list[int]:
    """All, or as many as WINDOWS, evenly from the smallest to the largest."""
    windows = order.windows([run.rule for run in evaluation.runs])
    if len(windows) <= WINDOWS:
        return windows
    return [windows[round(at * (len(windows) - 1) / (WINDOWS - 1))] for at in range(WINDOWS)]
