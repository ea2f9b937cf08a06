"""The first sentence of a report claims what its records say, and not more."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from sinkchat.lab.results import Evaluation, Rule, Run
from sinkchat.lab.telling import finding
from tests.lab import sample

FULL, NONE, FOUR = Rule("full"), Rule("window", window=512), Rule("sinks", sinks=4, window=512)


def changed(evaluation: Evaluation, policy: str, **fields: object) -> Evaluation:
    runs = [replace(run, **fields) if run.rule.policy == policy else run for run in evaluation.runs]  # type: ignore[arg-type]
    return replace(evaluation, runs=runs)


def with_losses(sinks: float, none: float, full: float | None) -> Evaluation:
    """Losses after the first eviction, and flat."""
    evaluation = sample.evaluation([FULL, NONE, FOUR] if full is not None else [NONE, FOUR])
    for policy, loss in (("sinks", sinks), ("window", none)):
        same = loss if full is not None else None
        evaluation = changed(
            evaluation,
            policy,
            loss_after=loss,
            loss_same_positions=same,
            loss_full_same_positions=full,
            slope_over_full=0.001 if full is not None else None,
            slope_over_full_error=0.002 if full is not None else None,
            slope_after=0.001,
            slope_error=0.002,
            collapse_at=None,
        )
    return evaluation


def test_sinks_beside_none_with_a_control() -> None:
    evaluation = changed(with_losses(math.log(11.6), math.log(20.2), math.log(10.5)), "window", collapse_at=700)
    assert finding.headline(evaluation) == (
        "With 4 sinks and a window of 512 the loss stays flat: perplexity 11.6 after the first eviction, 1.10 times "
        "the full cache's. Without sinks it is 20.2, 1.92 times the full cache's, parting from the full "
        "cache at position 700."
    )
    assert finding.control(evaluation).startswith("The control is the full cache on the same tokens")


def test_a_run_that_ended_early_is_not_held_against_those_that_did_not() -> None:
    """Its loss is of other tokens, and may be the lowest for no reason of its own."""
    evaluation = with_losses(2.4, 3.0, 2.3)
    easy = replace(evaluation.runs[2], rule=replace(FOUR, sinks=8), complete=False, loss_after=1.0)
    assert finding.headline(replace(evaluation, runs=[*evaluation.runs, easy])) == finding.headline(evaluation)
    alone = replace(evaluation, runs=[evaluation.runs[0], easy])
    assert finding.headline(alone).startswith("With 8 sinks")


def test_without_a_control_nothing_is_compared_with_one() -> None:
    evaluation = with_losses(math.log(11.6), math.log(20.2), None)
    assert finding.headline(evaluation) == (
        "With 4 sinks and a window of 512 the loss stays flat: perplexity 11.6 after the first eviction. Without "
        "sinks it is 20.2."
    )
    assert finding.control(evaluation).startswith("There is no control")


def test_where_sinks_make_no_difference_it_is_said() -> None:
    assert "no difference worth telling" in finding.headline(with_losses(2.4, 2.405, 2.39))
    assert "lower than with them" in finding.headline(with_losses(2.6, 2.4, 2.39))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"slope_over_full": 0.2, "slope_over_full_error": 0.01},
            "rises by 0.200 ± 0.010 nats per 1,000 tokens against",
        ),
        (
            {"slope_over_full": -0.2, "slope_over_full_error": 0.01},
            "falls by 0.200 ± 0.010 nats per 1,000 tokens against",
        ),
        ({"slope_over_full": 0.02, "slope_over_full_error": 0.1}, "no trend that these figures can tell from chance"),
        ({"slope_over_full": 0.0, "slope_over_full_error": 0.1}, "no trend that these figures can tell from chance"),
        ({"slope_over_full": None}, "too few tokens for a trend"),
        ({"collapse_at": 900}, "the loss parts from the full cache's at position 900 and stays apart"),
        ({"loss_after": math.nan}, "no finite number"),
        ({"loss_after": math.inf}, "no finite number"),
    ],
)
def test_flat_is_only_what_is_flat(fields: dict[str, float | None], words: str) -> None:
    text = finding.headline(changed(with_losses(2.4, 3.0, 2.3), "sinks", **fields))
    assert words in text
    assert "flat" not in text


def test_a_control_of_a_part_is_not_taken_for_one_of_all() -> None:
    evaluation = changed(with_losses(2.4, 3.0, 2.3), "sinks", loss_same_positions=2.45)
    assert "times the full cache's where that is a control" in finding.headline(evaluation)


def test_the_fewest_sinks_that_are_enough_are_told() -> None:
    rules = [FULL, NONE, *(Rule("sinks", sinks=sinks, window=512) for sinks in (1, 2, 4, 8))]
    evaluation = sample.evaluation(rules)
    losses = {1: 2.6, 2: 2.41, 4: 2.40, 8: 2.40}
    runs = [
        replace(run, loss_after=losses[run.rule.sinks]) if run.rule.policy == "sinks" else run
        for run in evaluation.runs
    ]
    assert finding.headline(replace(evaluation, runs=runs)).startswith("With 2 sinks and a window of 512")


def test_varied_rules_are_no_ground_for_the_first_sentence() -> None:
    far = Rule("sinks", "absolute", sinks=4, window=512, start_position=200_000)
    text = finding.headline(sample.evaluation([FULL, NONE, far]))
    assert text.startswith("Without sinks, window 512,")


def test_nothing_evicted_says_nothing_of_eviction() -> None:
    text = finding.headline(sample.evaluation([FULL, FOUR], tokens=300))
    assert text.startswith("Nothing was evicted")
    assert "flat" not in text


@pytest.mark.parametrize(
    ("rules", "start"),
    [
        ([], "Nothing was measured"),
        ([FULL], "The full cache reads 6,144 tokens at perplexity"),
        ([FOUR], "With 4 sinks and a window of 512"),
        ([NONE], "Without sinks, window 512,"),
        ([Rule("recompute", window=512)], "Recompute, window 512:"),
        ([Rule("recompute", window=256), Rule("recompute", window=512)], "Recompute, window 512:"),
    ],
)
def test_whatever_was_measured_has_a_first_sentence(rules: list[Rule], start: str) -> None:
    assert finding.headline(sample.evaluation(rules)).startswith(start)


def test_past_the_trained_length_the_missing_control_is_explained() -> None:
    evaluation = sample.evaluation([FULL, Rule("sinks", sinks=4, window=9000)], tokens=20_000)
    assert finding.control(evaluation).startswith("There is no control past the first eviction")


def test_an_interruption_is_said() -> None:
    evaluation = changed(sample.evaluation([FULL, FOUR]), "sinks", complete=False)
    assert finding.incomplete(replace(evaluation, complete=False)) == (
        "This evaluation did not come to its end; 1 of 2 runs ended early and tell of the tokens they read."
    )
    assert finding.incomplete(sample.evaluation([FULL])) == ""


def test_that_sinks_do_not_remember_is_said_only_where_it_was_seen() -> None:
    asked = [sample.asked(FOUR, distance) for distance in (128, 1024, 2048)]
    empty = sample.evaluation([])
    assert "Sinks do not remember" in finding.recall(replace(empty, recall=[replace(one, right=2) for one in asked]))
    told = finding.recall(replace(empty, recall=[replace(one, right=19) for one in asked]))
    assert "Sinks do not remember" not in told
    assert "more often than guessing" in told
    inside = finding.recall(replace(empty, recall=asked[:1]))
    assert "Once it had left" not in inside
    assert "Sinks" not in inside


def test_no_sentence_is_told_of_no_run() -> None:
    runs: list[Run] = []
    assert finding.control(replace(sample.evaluation([FULL]), runs=runs)).startswith("There is no control")
