"""Axes: where a value stands between two ends, and the round figures that are written beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sinkchat.lab.telling import numerals


@dataclass(frozen=True, slots=True)
class Axis:
    """From `low` to `high`; `ticks` are values with what is written at them."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    title: str
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """0 at `low`, 1 at `high`; what lies outside is not moved in."""
        if self.logarithmic:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)


def linear(values: Sequence[float], title: str, *, room: int = 5, zero: bool = False) -> Axis:
    """An axis a little longer than the values need, with about `room` ticks; from 0 on if `zero`."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    if zero:
        low, high = min(0.0, low), max(0.0, high)
    if high - low < 1e-9 * max(1.0, abs(high)):
        low, high = (0.0, 1.0) if zero else (low - 0.5, high + 0.5)
    more = 0.04 * (high - low)
    low, high = low if zero and low == 0 else low - more, high + more
    step = _step((high - low) / room)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    marks = [at * step for at in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    return Axis(low, high, [(mark, f"{mark:,.{digits}f}".replace("-", "−")) for mark in marks], title)


def shares(values: Sequence[float], title: str) -> Axis:
    """From 0 % to a round share that holds the values."""
    highest = max((value for value in values if math.isfinite(value)), default=1.0)
    end = next((end for end in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if highest <= end), 1.0)
    return Axis(0.0, end, [(end * part / 4, f"{100 * end * part / 4:g} %") for part in range(5)], title)


def tokens(last: int, title: str = "position in the text, tokens", *, room: int = 6) -> Axis:
    """From 0 to exactly `last`, ticks at round counts: `4,000`, `200k`, `1M`."""
    last = max(1, last)
    step = max(1, int(_step(last / room)))
    return Axis(0.0, float(last), [(float(at), short(at, last)) for at in range(0, last + 1, step)], title)


def short(value: int, largest: int) -> str:
    """A count of tokens as it is written at an axis that reaches to `largest`."""
    if largest >= 1_000_000:
        return f"{value / 1e6:g}M" if value else "0"
    if largest >= 20_000:
        return f"{value / 1000:g}k" if value else "0"
    return f"{value:,}"


def perplexities(losses: Sequence[float], title: str) -> Axis:
    """Logarithmic, of perplexities: equal steps are equal differences of loss. Takes losses, and is one of losses."""
    finite = [loss for loss in losses if math.isfinite(loss)]
    low, high = (min(finite), max(finite)) if finite else (1.0, 2.0)
    spread = max(high - low, 0.2)
    low, high = low - 0.08 * spread, high + 0.08 * spread
    best: list[float] = []
    first, last = math.floor(low / math.log(10)) - 1, math.ceil(high / math.log(10)) + 1
    for bases in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), tuple(1 + tenth / 10 for tenth in range(90))):
        # Exponents beyond what a float holds would not be a perplexity that anybody reads.
        marks = [math.log(base) + power * math.log(10) for power in range(first, last + 1) for base in bases]
        best = [mark for mark in marks if low <= mark <= high]
        if len(best) >= 3:
            break
    while len(best) > 7:
        best = best[::2]
    return Axis(low, high, [(mark, _round_perplexity(mark)) for mark in best], title)


def _round_perplexity(loss: float) -> str:
    if loss > math.log(999_999):
        power = loss / math.log(10)
        return f"{10 ** (power - math.floor(power + 1e-9)):.2g}e{math.floor(power + 1e-9)}"
    return f"{float(f'{math.exp(loss):.3g}'):,g}" if loss < math.log(999) else numerals.perplexity(loss)


def even(labels: Sequence[str], title: str) -> Axis:
    """One place for each label, at 0, 1, 2, ..., equally far apart and half a step from the ends."""
    return Axis(-0.5, max(1, len(labels)) - 0.5, [(float(at), label) for at, label in enumerate(labels)], title)


def doubling(values: Sequence[int], title: str) -> Axis:
    """Logarithmic, with a tick at each of the values: for distances that double."""
    kept = sorted({value for value in values if value > 0}) or [1]
    ticks = [(float(value), f"{value:,}") for value in kept]
    return Axis(kept[0] / 1.25, kept[-1] * 1.25, ticks, title, logarithmic=True)


def _step(rough: float) -> float:
    """1, 2 or 5 times a power of ten: the smallest that is not less."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= rough * (1 - 1e-9)), 10 * power)
