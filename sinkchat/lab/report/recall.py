"""Charts of recall: whether a fact is known, against how long ago it was read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from sinkchat.lab import order
from sinkchat.lab.report.frame import LABELLED, Figure, half_width, legend
from sinkchat.lab.report.palette import Colours
from sinkchat.lab.report.svg import Dot, Level, Line, Mark
from sinkchat.lab.results import Evaluation, Recall, Rule
from sinkchat.lab.telling import scale
from sinkchat.lab.telling.scale import Axis


def recall_charts(evaluation: Evaluation, colours: Colours) -> list[Figure]:
    """For each window: right answers, and the loss of the right answer, against distance."""
    figures = []
    for window in order.windows([one.rule for one in evaluation.recall]) or [0]:
        asked = [
            # A fact at the query itself would be infinitely far out on a logarithmic axis.
            replace(one, distance=max(1, one.distance))
            for one in evaluation.recall
            if (one.stream_window or one.rule.window or window) == window
        ]
        if not asked:
            continue
        rules = sorted({one.rule for one in asked}, key=order.place)[:LABELLED]
        groups = [[one for one in sorted(asked, key=_distance) if one.rule == rule] for rule in rules]
        # Dots of one distance stand beside each other, a few pixels apart, or the last rule would hide the others.
        aside = [1 + 0.035 * (at - (len(groups) - 1) / 2) for at in range(len(groups))]
        shifted = list(zip(groups, aside, strict=True))
        right = [_line(group, colours, [_answered(one, by) for one in group]) for group, by in shifted]
        losses = [
            _line(group, colours, [Dot(one.distance * by, one.loss, one.visible) for one in group])
            for group, by in shifted
        ]
        chance = [Level(max(one.chance for one in asked), "chance", "chance")]
        across = scale.doubling([one.distance for one in asked], "distance of the fact, tokens, logarithmic")
        nats = scale.linear(
            [y for line in losses for _, y in line.points], "loss of the right answer, nats", zero=True
        )
        charts = _chart(right, across, scale.shares([1.0], "right answers"), window, chance)
        charts += _chart(losses, across, nats, window, [])
        figures.append(
            Figure(
                f"Recall: window {window:,}" if window else "Recall",
                f'<div class="pair">{charts}</div>{legend(right, chance)}',
                "Filled: all of the fact was still in the cache when it was asked for. Hollow: it was not. Bars: "
                "95 % interval of the share (Wilson). Dots of one distance stand a little beside each other.",
            )
        )
    return figures


def _chart(lines: Sequence[Line], across: Axis, up: Axis, window: int, levels: Sequence[Level]) -> str:
    inside = across.low < window < across.high
    return half_width(
        lines,
        across,
        up,
        height=270,
        described=f"{up.title} against distance of the fact",
        marks=[Mark(float(window), f"window, {window:,}", "eviction")] if inside else (),
        levels=levels,
        labelled=False,
    )


def _line(group: Sequence[Recall], colours: Colours, dots: Sequence[Dot]) -> Line:
    rule: Rule = group[0].rule
    return Line(order.short_name(rule), colours.of(rule), [(dot.x, dot.y) for dot in dots], dots=dots)


def _answered(one: Recall, aside: float) -> Dot:
    low, high = interval(one.right, one.asked)
    return Dot(one.distance * aside, one.right / one.asked if one.asked else math.nan, one.visible, low, high)


def interval(right: int, asked: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927): within 0..1 for few answers too."""
    if not asked:
        return 0.0, 1.0
    z = 1.959964
    share = right / asked
    middle = (share + z * z / (2 * asked)) / (1 + z * z / asked)
    reach = z * math.sqrt(share * (1 - share) / asked + z * z / (4 * asked * asked)) / (1 + z * z / asked)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def _distance(one: Recall) -> tuple[int, bool]:
    return one.distance, not one.visible
