"""How many sinks are enough, and at which heads, from losses that are made up."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import replace

import pytest

from sinkchat.errors import UsageError
from sinkchat.lab.advice import advise, resting
from sinkchat.lab.order import ALIKE_NATS
from sinkchat.lab.results import Evaluation, Rule, Run
from tests.lab import sample

WINDOW = 512


def a_run(sinks: int, losses: list[float | None]) -> Run:
    rule = Rule("sinks", sinks=sinks, window=WINDOW) if sinks else Rule("window", window=WINDOW)
    (run,) = sample.evaluation([rule], tokens=len(losses)).runs
    after = [loss for loss in losses[WINDOW + 1 :] if loss is not None]
    return replace(run, losses=tuple(losses), first_eviction=WINDOW, loss_after=statistics.fmean(after))


def sweep(above: dict[int, float], noise: float = 0.1) -> Evaluation:
    """Losses so much above those of a text, by the number of sinks; the text is the same for all."""
    drawn = random.Random(1)
    text = [drawn.uniform(0, 6) for _ in range(3000)]
    runs = [
        a_run(sinks, [None, *(loss + excess + drawn.gauss(0, noise) for loss in text[1:])])
        for sinks, excess in above.items()
    ]
    return replace(sample.evaluation([]), runs=tuple(runs))


@pytest.mark.parametrize(
    ("above", "enough"),
    [
        ({0: 0.6, 1: 0.1, 2: 0.05, 4: 0.01, 8: 0.0}, 4),
        ({0: 0.6, 1: 0.005, 2: 0.0, 4: 0.002, 8: 0.001}, 1),
        ({0: 0.0, 1: 0.001, 4: 0.001}, 0),
        ({0: 0.9, 4: 0.3, 16: 0.0}, 16),
        ({4: 0.0}, 4),
        ({8: 0.0, 0: 0.6, 1: 0.001}, 1),
    ],
)
def test_the_fewest_that_no_other_number_betters_by_much_are_enough(above, enough) -> None:
    advice = advise(sweep(above))
    assert advice.sinks == enough
    assert [one.run.rule.sinks for one in advice.compared] == sorted(above)
    assert advice.best.run.loss_after == min(one.run.loss_after for one in advice.compared)


def test_the_excess_is_over_the_same_tokens_and_has_an_error() -> None:
    """The text's own ups and downs, which are far larger, are in neither."""
    evaluation = sweep({0: 0.6, 4: 0.0})
    without, with_four = advise(evaluation).compared
    by_sinks = {run.rule.sinks: run.losses[WINDOW + 1 :] for run in evaluation.runs}
    differences = [one - other for one, other in zip(by_sinks[0], by_sinks[4], strict=True)]
    assert without.excess == pytest.approx(statistics.fmean(differences))
    assert without.error == pytest.approx(statistics.stdev(differences) / math.sqrt(len(differences)))
    assert without.error < 0.01
    assert (with_four.excess, with_four.error) == (0.0, 0.0)


def test_losses_that_are_no_numbers_are_never_enough() -> None:
    good = sweep({1: 0.0, 4: ALIKE_NATS / 2})
    broken = a_run(0, [None, *[math.nan] * 2999])
    assert advise(replace(good, runs=(broken, *good.runs))).sinks == 1


def test_runs_that_were_cut_short_say_nothing() -> None:
    whole = sweep({0: 0.6, 4: 0.0})
    first, second = whole.runs
    assert advise(replace(whole, runs=(first, replace(second, complete=False)))).sinks == 0
    with pytest.raises(UsageError, match="No run came to its end"):
        advise(replace(whole, runs=()))


def test_the_heads_that_rest_on_the_sinks_are_told_most_first() -> None:
    heads = [[0.2, 0.9], [None, None], [0.51, 0.5]]
    assert [(one.layer, one.head, one.share) for one in resting(heads)] == [(0, 1, 0.9), (2, 0, 0.51)]
    assert resting(None) == []


def test_a_loss_past_all_numbers_has_no_excess() -> None:
    """Infinitely above at one token, and infinitely below at another."""
    good = sweep({1: 0.0, 4: 0.0})
    broken = [
        replace(run, losses=(*run.losses[: WINDOW + 100 + n], math.inf, *run.losses[WINDOW + 101 + n :]))
        for n, run in enumerate(good.runs)
    ]
    advice = advise(replace(good, runs=(*broken,)))
    assert any(math.isnan(one.excess) for one in advice.compared)


def test_runs_without_the_loss_of_each_token_say_nothing() -> None:
    whole = sweep({0: 0.6, 4: 0.0})
    first, second = whole.runs
    assert advise(replace(whole, runs=(first, replace(second, losses=None)))).sinks == 0
