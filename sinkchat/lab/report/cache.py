"""Charts of the cache itself: how many entries it holds, how many have left, and what the sinks take of attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from sinkchat.lab import order
from sinkchat.lab.report.frame import LABELLED, Figure, both_widths, eviction_marks, half_width, shown_windows
from sinkchat.lab.report.palette import Colours
from sinkchat.lab.report.svg import Line
from sinkchat.lab.results import Evaluation, Point, Run
from sinkchat.lab.telling import scale, smooth


def memory_charts(evaluation: Evaluation, colours: Colours) -> list[Figure]:
    """KV entries and evictions over position. Rules that are alike in this are one line."""
    runs = [run for run in order.ordered(evaluation.runs) if run.curve]
    if not runs:
        return []
    last = max(run.tokens for run in runs)
    entries = _alike(runs, colours, lambda point: point.kv_entries)
    evictions = _alike(runs, colours, lambda point: point.evicted)
    charts = []
    for lines, title, told in (
        (entries, "KV entries held, fullest layer", "KV entries held over position"),
        (evictions, "entries evicted so far", "entries evicted over position"),
    ):
        values = [value for line in lines for _, value in line.points]
        up = scale.linear(values, title, room=4, zero=True)
        charts.append(half_width(lines, scale.tokens(last, room=4), up, height=220, described=told))
    return [
        Figure(
            "",
            f'<div class="pair">{"".join(charts)}</div>',
            "At the end of each bin. A bounded cache stops growing at its window; then as much leaves as comes in. "
            "Rules that are alike in this are one line, with their number.",
        )
    ]


def _alike(runs: Sequence[Run], colours: Colours, value: Callable[[Point], int]) -> list[Line]:
    """A line for each course that occurs, named after the rules that take it."""
    courses: dict[tuple[tuple[float, float], ...], list[Run]] = {}
    for run in runs:
        middles = smooth.middles(run)
        course = tuple((at, float(value(point))) for at, point in zip(middles, run.curve, strict=True))
        courses.setdefault(course, []).append(run)
    lines = []
    for points, same in courses.items():
        sample = max(same, key=lambda run: (order.is_plain(run.rule), run.rule.policy == "sinks"))
        lines.append(Line(_common_name(same), colours.of(sample.rule), points))
    # A window of its own colour would be a new meaning of colour: of many windows the widest are named.
    for number, line in enumerate(lines):
        if number >= LABELLED:
            lines[number] = Line(line.name, line.classes, line.points, quiet=True)
    return lines


def _common_name(same: Sequence[Run]) -> str:
    windows = order.windows([run.rule for run in same])
    if not windows:
        return "full"
    many = f" ({len(same)})" if len(same) > 1 else ""
    if len(windows) > 1:
        return f"several windows{many}"
    return f"{'recompute' if same[0].rule.policy == 'recompute' else 'window'} {windows[0]:,}{many}"


def share_charts(evaluation: Evaluation, colours: Colours) -> list[Figure]:
    """For each window: the share of attention of the sinks over position."""
    figures = []
    for window in shown_windows(evaluation):
        shared = [run for run in order.of_window(evaluation, window) if _has_shares(run)]
        figures += [_share_chart(evaluation, colours, runs, title) for title, runs in order.panels(shared, window)]
    return figures


def _share_chart(evaluation: Evaluation, colours: Colours, runs: Sequence[Run], title: str) -> Figure:
    last = max(run.tokens for run in runs)
    named = order.telling(runs, LABELLED)
    lines = [
        Line(order.short_name(run.rule), colours.of(run.rule), _shares(run), quiet=run not in named) for run in runs
    ]
    up = scale.shares([value for line in lines for _, value in line.points], "share of attention, mean over heads")
    return Figure(
        f"Attention to the sinks: {title}",
        both_widths(
            lines,
            [(scale.tokens(last), up), (scale.tokens(last, room=4), up)],
            height=230,
            described=f"Share of attention over position, {title}",
            marks=eviction_marks(runs, evaluation, last),
        ),
        _whose(runs),
    )


def _whose(runs: Sequence[Run]) -> str:
    watched = sorted({run.watched for run in runs if not run.rule.sinks})
    if not watched:
        return "What the sinks take."
    oldest = f"{watched[0]:,}" if len(watched) == 1 else f"{watched[0]:,} to {watched[-1]:,}"
    return f"What the sinks take; for rules without sinks, what the {oldest} oldest entries take that are still kept."


def _has_shares(run: Run) -> bool:
    return any(point.sink_share is not None and math.isfinite(point.sink_share) for point in run.curve)


def _shares(run: Run) -> list[tuple[float, float]]:
    shares = [math.nan if point.sink_share is None else point.sink_share for point in run.curve]
    return list(zip(smooth.middles(run), shares, strict=True))
