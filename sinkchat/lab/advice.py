"""How many sinks a model needs, judged by the losses of the same tokens with more of them. Free of torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from sinkchat.engine.events import Heads
from sinkchat.errors import UsageError
from sinkchat.lab import order
from sinkchat.lab.results import Evaluation, Run

HALF = 0.5
"""A head that gives the sinks more than this is said to rest on them."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A run beside the best one, token by token past the first eviction."""

    run: Run
    excess: float
    """Mean loss above the best run's, in nats."""
    error: float
    """Its standard error, as if the differences of the tokens were independent."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The fewest sinks that are enough, and what says so."""

    chosen: Compared
    best: Compared
    """With the lowest loss."""
    compared: Sequence[Compared]
    """All runs, by their number of sinks."""

    @property
    def sinks(self) -> int:
        return self.chosen.run.rule.sinks


@dataclass(frozen=True, slots=True)
class Resting:
    """A head that gives the sinks much of its attention."""

    layer: int
    head: int
    share: float


def advise(evaluation: Evaluation) -> Advice:
    """Over the runs of `evaluation` that keep 0 or more sinks in one window and have the loss of each token.

    Raises UsageError when no run saw enough to say anything.
    """
    runs = [
        run
        for run in evaluation.runs
        if run.rule.policy in ("window", "sinks")
        and run.complete
        and run.loss_after is not None
        and run.losses is not None  # it may be of an evaluation that did not keep them
    ]
    if not runs:
        raise UsageError("No run came to its end, so nothing can be said of the number of sinks; let one come to it.")
    runs.sort(key=lambda run: run.rule.sinks)
    best, enough = min(runs, key=order.after), order.fewest_enough(runs)
    compared = {run.rule: _beside(run, best) for run in runs}
    assert enough is not None
    return Advice(compared[enough.rule], compared[best.rule], tuple(compared.values()))


def resting(heads: Heads | None, above: float = HALF) -> list[Resting]:
    """The heads that give the sinks more than `above` of their attention, most first."""
    found = [
        Resting(layer, head, share)
        for layer, shares in enumerate(heads or ())
        for head, share in enumerate(shares)
        if share is not None and share > above
    ]
    return sorted(found, key=lambda one: -one.share)


def _beside(run: Run, best: Run) -> Compared:
    assert run.losses is not None
    assert best.losses is not None
    first = (run.first_eviction or 0) + 1
    pairs = zip(run.losses[first:], best.losses[first:], strict=True)
    differences = [one - other for one, other in pairs if one is not None and other is not None]
    if not differences or not all(map(math.isfinite, differences)):
        return Compared(run, math.nan, math.nan)
    excess = fmean(differences)
    spread = math.fsum((difference - excess) ** 2 for difference in differences)
    count = len(differences)
    error = math.sqrt(spread / (count - 1) / count) if count > 1 else math.nan
    return Compared(run, excess, error)
