"""What a run's losses come to: pure arithmetic, exact to rounding.

Losses are in nats, by position: the element at t is the loss of the token at t, None where it has none (the first
token of a text). Ranges are positions, both ends included; what reaches past the end is cut there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, islice

Losses = Sequence[float | None]

COLLAPSE_NATS = 0.5
COLLAPSE_TOKENS = 256
"""Losses that lie so far above a control's, in the mean over so many tokens, have parted from it."""

POINTS = 240
"""The most bins that a curve is drawn of."""
SMALLEST_BIN = 16

_NEAR = 1e-3
"""Nats, of a whole stretch's sum: far more than a running sum can be off, far less than anything of interest."""


def mean(values: Losses, first: int = 0, last: int | None = None) -> float | None:
    """Over those of `first`..`last` that there are, to the end if `last` is None; None if there are none."""
    there = [value for _, value in _pairs(values, first, last)]
    return math.fsum(there) / len(there) if there else None


def perplexity(loss: float | None) -> float | None:
    """`exp` of a mean loss; inf where that is past all numbers, None where there is no loss."""
    if loss is None:
        return None
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def slope(losses: Losses, first: int, last: int | None = None) -> tuple[float | None, float | None]:
    """Of the straight line of least squares through the losses at `first`..`last`, and its standard error.

    Both in nats per 1,000 tokens. The slope is None with fewer than two losses, its error with fewer than three; both
    are nan if a loss is not finite.
    """
    return _line(_pairs(losses, first, last))


def slope_of_difference(
    losses: Losses, control: Losses, first: int, last: int | None = None
) -> tuple[float | None, float | None]:
    """As `slope`, of `losses - control`, over the positions where both have one."""
    stop = None if last is None else last + 1
    both = enumerate(zip(islice(losses, first, stop), islice(control, first, stop), strict=False), first)
    return _line([(at, loss - other) for at, (loss, other) in both if loss is not None and other is not None])


def collapse_at(losses: Losses, control: Losses, first_eviction: int | None, last: int | None = None) -> int | None:
    """The first position past `first_eviction` from which the losses part from the control's and stay apart: more
    than COLLAPSE_NATS above them, in the mean over the next COLLAPSE_TOKENS, and over all from there to `last`, which
    are a quarter of all compared or more: fewer would not show that they stay.

    None if they never do, if nothing was evicted, or if fewer tokens than that have a control. A loss that is not
    finite lies above any; a control that is not finite is none, and ends the comparison.
    """
    if first_eviction is None:
        return None
    differences = _differences(losses, control, first_eviction + 1, last)
    if len(differences) < COLLAPSE_TOKENS:
        return None
    most = COLLAPSE_NATS * COLLAPSE_TOKENS
    broken = next(
        (at for at, difference in enumerate(differences) if not math.isfinite(difference)), len(differences)
    )
    # What follows each place, beyond the bound: above 0 where the losses stay apart from there on.
    rest = list(accumulate(difference - COLLAPSE_NATS for difference in reversed(differences[:broken])))[::-1]
    running = math.fsum(differences[:COLLAPSE_TOKENS]) if broken >= COLLAPSE_TOKENS else 0.0
    for start in range(len(differences) - COLLAPSE_TOKENS + 1):
        end = start + COLLAPSE_TOKENS
        # Running sums round at each step, so that what is close is summed anew.
        parts = end > broken or (running > most - _NEAR and math.fsum(differences[start:end]) > most)
        enough = 4 * start <= 3 * len(differences)
        if parts and (broken < len(differences) or (enough and _stays(differences, rest, start))):
            return first_eviction + 1 + start
        if end < len(differences):
            running += differences[end] - differences[start]
    return None


def _stays(differences: Sequence[float], rest: Sequence[float], start: int) -> bool:
    if abs(rest[start]) > _NEAR:
        return rest[start] > 0
    return math.fsum(differences[start:]) > COLLAPSE_NATS * (len(differences) - start)


def bin_size(tokens: int) -> int:
    """Tokens of a curve's point, so that POINTS points or fewer hold all of them."""
    return max(SMALLEST_BIN, -(-tokens // POINTS))


def binned(values: Losses, size: int) -> list[float | None]:
    """Means over bins of `size` positions: bin n begins at position n * size, the last may be shorter. None where
    none of a bin's positions has a value."""
    return [mean(values[start : start + size]) for start in range(0, len(values), size)]


def _pairs(values: Losses, first: int, last: int | None) -> list[tuple[int, float]]:
    """(position, value) of those that there are."""
    stop = None if last is None else last + 1
    return [(at, value) for at, value in enumerate(values[first:stop], first) if value is not None]


def _differences(losses: Losses, control: Losses, first: int, last: int | None) -> list[float]:
    """`losses - control` from `first` on, as far as both go on without a gap."""
    found: list[float] = []
    stop = None if last is None else last + 1
    for loss, other in zip(islice(losses, first, stop), islice(control, first, stop), strict=False):
        if loss is None or other is None or not math.isfinite(other):
            break
        found.append(loss - other)
    return found


def _line(pairs: Sequence[tuple[int, float]]) -> tuple[float | None, float | None]:
    count = len(pairs)
    if count < 2:
        return None, None
    if not all(math.isfinite(value) for _, value in pairs):
        return math.nan, math.nan if count > 2 else None
    middle = sum(at for at, _ in pairs) / count
    level = math.fsum(value for _, value in pairs) / count
    spread = math.fsum((at - middle) ** 2 for at, _ in pairs)
    rise = math.fsum((at - middle) * (value - level) for at, value in pairs) / spread
    if count == 2:
        return 1000 * rise, None
    left = math.fsum((value - level - rise * (at - middle)) ** 2 for at, value in pairs)
    return 1000 * rise, 1000 * math.sqrt(left / (count - 2) / spread)
