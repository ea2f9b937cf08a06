"""Which charts tell an evaluation, and what is drawn in each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from sinkchat.lab import order, scale, smooth
from sinkchat.lab.palette import Colours
from sinkchat.lab.results import Evaluation, Point, Run
from sinkchat.lab.scale import Axis
from sinkchat.lab.svg import Level, Line, Mark, line_chart

WIDE, NARROW, SMALL = 1000.0, 358.0, 484.0
"""Widths in pixels: of a chart on a desk or on paper, on a phone, and of one of two beside each other."""
LABELLED = 9
"""Lines of a chart that have a name; of more runs the others are drawn thin."""
PALE = 2
"""Lines whose single bins are drawn too: of more, nothing would be seen."""
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


def loss_charts(evaluation: Evaluation, colours: Colours) -> list[Figure]:
    """For each window: the loss over position, and how far above the full cache's it lies."""
    figures = []
    for window in shown_windows(evaluation):
        for title, runs in order.panels([run for run in order.of_window(evaluation, window) if run.curve], window):
            figures.append(_losses(evaluation, colours, runs, title))
            apart = _above_full(evaluation, colours, runs)
            if apart is not None:
                figures.append(apart)
    only_full = [run for run in evaluation.runs if run.rule.policy == "full" and run.curve]
    if not figures and only_full:
        figures.append(_losses(evaluation, colours, only_full, "full cache"))
    return figures


def shown_windows(evaluation: Evaluation) -> list[int]:
    """All, or as many as WINDOWS, evenly from the smallest to the largest."""
    windows = order.windows([run.rule for run in evaluation.runs])
    if len(windows) <= WINDOWS:
        return windows
    return [windows[round(at * (len(windows) - 1) / (WINDOWS - 1))] for at in range(WINDOWS)]


def _losses(evaluation: Evaluation, colours: Colours, runs: Sequence[Run], title: str) -> Figure:
    last = max(run.tokens for run in runs)
    span = smooth.span_of(max(len(run.curve) for run in runs))
    named = order.telling(runs, LABELLED)
    spotted = order.telling(runs, PALE)
    lines = [
        Line(
            order.short_name(run.rule),
            colours.of(run.rule),
            smooth.smoothed(run, span),
            smooth.smoothed(run, 1) if span > 1 and run in spotted else (),
            quiet=run not in named,
        )
        for run in runs
    ]
    bold = [value for line in lines for _, value in line.points]
    pale = sorted(value for line in lines for _, value in line.faint if math.isfinite(value))
    # A single bin is noise and may leave the axis; what is drawn bold never does.
    middle = pale[len(pale) // 50 : len(pale) - len(pale) // 50]
    up = [scale.linear([*bold, *middle], "loss, nats per token", room=room) for room in (7, 5)]
    whose = " and ".join(order.short_name(run.rule) for run in spotted)
    caption = f"Bold: means over {span} bins of {evaluation.bin:,} tokens each, before and after the first eviction "
    caption += f"apart. Pale: the single bins ({whose})."
    if span == 1:
        caption = f"Means over {evaluation.bin:,} tokens."
    elif pale and (pale[0] < up[0].low or pale[-1] > up[0].high):
        caption += " Some of them lie outside of what is shown."
    caption += _unlabelled(len(runs) - len(named)) + _gaps(runs)
    return Figure(
        f"Loss over position: {title}",
        both_widths(
            lines,
            [(scale.tokens(last), up[0]), (scale.tokens(last, room=4), up[1])],
            height=360,
            described=f"Loss over position, {title}: {', '.join(line.name for line in lines if not line.quiet)}",
            marks=eviction_marks(runs, evaluation, last),
        ),
        caption,
    )


def _unlabelled(count: int) -> str:
    if not count:
        return ""
    return (
        f" {count} more {'run is' if count == 1 else 'runs are'} drawn thin, without a name: named are, of each "
        "policy and kind of positions, the lowest and the highest, then those that come first in the table."
    )


def _gaps(runs: Sequence[Run]) -> str:
    gaps = sum(not math.isfinite(point.loss) for run in runs for point in run.curve)
    return f" {gaps:,} means are no finite numbers and are left out." if gaps else ""


def _above_full(evaluation: Evaluation, colours: Colours, runs: Sequence[Run]) -> Figure | None:
    """Difference to the control: what the text itself does is out of it. Only where the full cache is one."""
    full = next((run for run in runs if run.rule.policy == "full"), None)
    trained = evaluation.subject.trained_length
    if full is None:
        return None
    control = {point.position: point.loss for point in full.curve if point.position + evaluation.bin <= trained}
    named = order.telling([run for run in runs if run is not full], LABELLED - 1)
    lines = []
    last = 0
    for run in runs:
        both = [point for point in run.curve if point.position in control]
        if run is full or run.first_eviction is None or len(both) < 3 or both[-1].position <= run.first_eviction:
            continue
        last = max(last, both[-1].position + evaluation.bin)
        span = smooth.span_of(len(both))
        apart = [
            Point(point.position, point.loss - control[point.position], point.kv_entries, point.evicted, None)
            for point in both
        ]
        points = smooth.line(apart, run.first_eviction, both[-1].position + evaluation.bin, span)
        lines.append(Line(order.short_name(run.rule), colours.of(run.rule), points, quiet=run not in named))
    if not lines:
        return None
    values = [value for line in lines for _, value in line.points]
    up = [scale.linear([0.0, *values], "loss above the full cache's, nats", room=room) for room in (5, 4)]
    last = min(last, max(run.tokens for run in runs))
    return Figure(
        "",
        both_widths(
            lines,
            [(scale.tokens(last), up[0]), (scale.tokens(last, room=4), up[1])],
            height=250,
            described=f"How far each rule's loss lies above the full cache's: {', '.join(one.name for one in lines)}",
            marks=eviction_marks(runs, evaluation, last),
            levels=[Level(0.0, "full cache", "k-full")],
        ),
        f"The same, less the full cache's loss on the same tokens; means over about {span * evaluation.bin:,} "
        "tokens, before and after the first eviction apart. 0.69 nats are twice the perplexity.",
    )
