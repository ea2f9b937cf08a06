"""Charts of the loss over position, and of how far above the full cache's it lies."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sinkchat.lab import order
from sinkchat.lab.report.frame import LABELLED, Figure, both_widths, eviction_marks, shown_windows
from sinkchat.lab.report.palette import Colours
from sinkchat.lab.report.svg import Level, Line
from sinkchat.lab.results import Evaluation, Run
from sinkchat.lab.telling import apart, scale, smooth

PALE = 2
"""Lines whose single bins are drawn too: of more, nothing would be seen."""


def loss_charts(evaluation: Evaluation, colours: Colours) -> list[Figure]:
    """For each window: the loss over position, and how far above the full cache's it lies."""
    figures = []
    for window in shown_windows(evaluation):
        for title, runs in order.panels([run for run in order.of_window(evaluation, window) if run.curve], window):
            figures.append(_losses(evaluation, colours, runs, title))
            gap = _above_full(evaluation, colours, runs)
            if gap is not None:
                figures.append(gap)
    only_full = [run for run in evaluation.runs if run.rule.policy == "full" and run.curve]
    if not figures and only_full:
        figures.append(_losses(evaluation, colours, only_full, "full cache"))
    return figures


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
    compared = apart.compared(evaluation, runs)
    if not compared:
        return None
    span = smooth.span_of(max(len(curve) for _, curve in compared))
    named = order.telling([run for run, _ in compared], LABELLED - 1)
    lines = [
        Line(
            order.short_name(run.rule),
            colours.of(run.rule),
            smooth.line(curve, run.first_eviction, span),
            quiet=run not in named,
        )
        for run, curve in compared
    ]
    values = [value for line in lines for _, value in line.points]
    up = [scale.linear([0.0, *values], "loss above the full cache's, nats", room=room) for room in (5, 4)]
    last = apart.last_compared(evaluation, runs, [run for run, _ in compared])
    return Figure(
        "",
        both_widths(
            lines,
            [(scale.tokens(last), up[0]), (scale.tokens(last, room=4), up[1])],
            height=250,
            described=f"How far each rule's loss lies above the full cache's: {', '.join(one.name for one in lines)}",
            marks=eviction_marks([run for run, _ in compared], evaluation, last),
            levels=[Level(0.0, "full cache", "k-full")],
        ),
        f"The same, less the full cache's loss on the same tokens; means over about {span * evaluation.bin:,} "
        "tokens, before and after the first eviction apart. 0.69 nats are twice the perplexity.",
    )
