"""A curve made readable: a running mean that never mixes what was before the first eviction with what came after."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sinkchat.lab.results import Point, Run

MOST = 480
"""Points of a line; more are joined by their mean, in groups of equal size."""


def smoothed(run: Run, span: int) -> list[tuple[float, float]]:
    """(middle of the bin, mean loss of the `span` bins around it), each side of the first eviction apart.

    Near an edge the mean is over the bins that are there. A bin that is no finite number is a gap and is left out of
    its neighbours' means.
    """
    return line(run.curve, run.first_eviction, run.tokens, span)


def line(points: Sequence[Point], first_eviction: int | None, tokens: int, span: int) -> list[tuple[float, float]]:
    """As `smoothed`, of any points; `tokens` is where the last bin ends."""
    middles = middle(points, tokens)
    # The bin in which the first entry left is counted where most of its tokens are.
    cut = len(points) if first_eviction is None else sum(at <= first_eviction for at in middles)
    size = max(1, -(-len(points) // MOST))
    result: list[tuple[float, float]] = []
    for start, end in ((0, cut), (cut, len(points))):
        means = running_mean([point.loss for point in points[start:end]], span)
        result += thinned(list(zip(middles[start:end], means, strict=True)), size)
    return result


def span_of(bins: int) -> int:
    """Bins that a smoothed point is the mean of: a twentieth of the curve, an odd number."""
    return max(1, bins // 20) | 1


def middle(points: Sequence[Point], tokens: int) -> list[float]:
    """Position of the middle of each bin."""
    ends = [point.position for point in points[1:]] + [max(tokens, points[-1].position + 1) if points else 0]
    return [(point.position + end - 1) / 2 for point, end in zip(points, ends, strict=True)]


def running_mean(values: Sequence[float], span: int) -> list[float]:
    """Mean of the finite ones of `span` values around each; nan where the value itself is not finite."""
    totals, counts = [0.0], [0]
    for value in values:
        finite = math.isfinite(value)
        totals.append(totals[-1] + (value if finite else 0.0))
        counts.append(counts[-1] + finite)
    result = []
    for index, value in enumerate(values):
        low, high = max(0, index - span // 2), min(len(values), index + span // 2 + 1)
        known = counts[high] - counts[low]
        result.append((totals[high] - totals[low]) / known if math.isfinite(value) and known else math.nan)
    return result


def thinned(line: Sequence[tuple[float, float]], size: int) -> list[tuple[float, float]]:
    """Each point the mean of `size` neighbours; a gap makes a gap of its group."""
    if size <= 1:
        return list(line)
    groups = [line[start : start + size] for start in range(0, len(line), size)]
    return [(sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups]
