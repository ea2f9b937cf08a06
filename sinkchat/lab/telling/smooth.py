"""A curve made readable: a running mean that never mixes what was before the first eviction with what came after."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sinkchat.lab.results import Run

Curve = Sequence[tuple[float, float]]
"""(middle of a bin, what it is the mean of)."""


def smoothed(run: Run, span: int) -> list[tuple[float, float]]:
    """The run's losses: the mean of the `span` bins around each, each side of the first eviction apart.

    Near an edge the mean is over the bins that are there. A bin that is no finite number is a gap and is left out of
    its neighbours' means.
    """
    losses = [point.loss for point in run.curve]
    return line(list(zip(middles(run), losses, strict=True)), run.first_eviction, span)


def line(curve: Curve, first_eviction: int | None, span: int) -> list[tuple[float, float]]:
    """As `smoothed`, of anything."""
    # The bin in which the first entry left is counted where most of its tokens are.
    cut = len(curve) if first_eviction is None else sum(at <= first_eviction for at, _ in curve)
    result: list[tuple[float, float]] = []
    for part in (curve[:cut], curve[cut:]):
        means = running_mean([value for _, value in part], span)
        result += [(at, mean) for (at, _), mean in zip(part, means, strict=True)]
    return result


def span_of(bins: int) -> int:
    """Bins that a smoothed point is the mean of: a twentieth of the curve, an odd number."""
    return max(1, bins // 20) | 1


def middles(run: Run) -> list[float]:
    """Position of the middle of each bin of the run's curve."""
    starts = [point.position for point in run.curve]
    ends = [*starts[1:], max(run.tokens, starts[-1] + 1)] if starts else []
    return [(start + end - 1) / 2 for start, end in zip(starts, ends, strict=True)]


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
