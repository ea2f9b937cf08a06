"""A bounded cache fails when it is worse than it may be, passes when it is not, and is never judged by what is not
there."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkchat.errors import UsageError
from sinkchat.lab.results import Evaluation, Rule, Run, Subject
from sinkchat.lab.verdict import check_baseline, judge, sentence

FULL = Rule("full")
SINKS = Rule("sinks", sinks=4, window=512)
WINDOW = Rule("window", window=512)

SUBJECT = Subject(
    model="small",
    revision=None,
    family="llama",
    layers=2,
    heads=2,
    trained_length=8192,
    dtype="float32",
    quant="none",
    device="cpu",
    text_name="poem.txt",
    text_sha256="ab" * 32,
    text_tokens=9000,
)


def run(rule: Rule, loss: float | None, full: float | None = None, **others: object) -> Run:
    """One that has `loss` past its first eviction, and everywhere; `full` is the control's over the same tokens."""
    bounded = rule.policy != "full"
    made = Run(
        rule=rule,
        complete=True,
        tokens=6144,
        watched=4,
        loss_mean=loss,
        loss_before=loss,
        loss_after=loss if bounded else None,
        slope_after=None,
        slope_error=None,
        loss_same_positions=None if full is None else loss,
        loss_full_same_positions=full,
        slope_over_full=None,
        slope_over_full_error=None,
        collapse_at=None,
        first_eviction=512 if bounded else None,
        evictions=6144 - 512 if bounded else 0,
        recomputed=0,
        kv_entries_max=512,
        kv_bytes=1,
        sink_share_mean=None,
        sink_share_heads=None,
        tokens_per_second=500.0,
        curve=(),
        head_maps=(),
    )
    return replace(made, **others)  # type: ignore[arg-type]


def evaluation(*runs: Run, **others: object) -> Evaluation:
    made = Evaluation(SUBJECT, 6144, 26, "2026-11-29T20:15:00Z", "sinkchat 0.1.0", ("sinkchat", "eval"), True, runs)
    return replace(made, **others)  # type: ignore[arg-type]


def beside_full(ratio: float, control: float = 10.5) -> Evaluation:
    full = math.log(control)
    return evaluation(run(FULL, full), run(SINKS, full + math.log(ratio), full))


def told(evaluation: Evaluation, fail_above: float = 1.25, baseline: Evaluation | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        judge(evaluation, fail_above, baseline)
    return str(caught.value)


@given(st.floats(0.1, 50), st.floats(0.1, 50))
def test_a_run_fails_when_it_exceeds_the_multiple_of_the_full_cache(ratio: float, limit: float) -> None:
    verdict = judge(beside_full(ratio), limit)
    (judged,) = verdict.judged
    assert judged.rule == SINKS
    assert judged.ratio == pytest.approx(ratio)
    assert judged.perplexity == pytest.approx(10.5 * ratio)
    assert judged.control == pytest.approx(10.5)
    if not math.isclose(ratio, limit):
        assert verdict.failed == judged.failed == (ratio > limit)


def test_exactly_the_limit_passes() -> None:
    assert not judge(evaluation(run(FULL, 2.0), run(SINKS, 2.0, 2.0)), 1.0).failed


def test_it_is_the_same_positions_that_are_compared() -> None:
    good = run(SINKS, 3.0, 2.4, loss_same_positions=2.5)
    assert judge(evaluation(run(FULL, 9.0), good), 1.25).judged[0].ratio == pytest.approx(math.exp(0.1))


def test_the_full_cache_is_not_judged() -> None:
    verdict = judge(beside_full(1.1), 1.25)
    assert [judged.rule for judged in verdict.judged] == [SINKS]
    assert verdict.unjudged == ()


@pytest.mark.parametrize("loss", [math.nan, math.inf, 800.0])
def test_a_perplexity_that_is_not_finite_fails(loss: float) -> None:
    verdict = judge(evaluation(run(FULL, 2.0), run(SINKS, loss, 799.9 if loss == 800.0 else 2.0)), 1.25)
    assert verdict.failed
    assert "4 sinks, window 512" in sentence(verdict)


def test_a_control_that_is_not_finite_judges_nothing() -> None:
    for control in (math.nan, math.inf):
        assert "not finite" in told(evaluation(run(FULL, 2.0), run(SINKS, 2.0, control)))
        now, then = evaluation(run(SINKS, 2.0)), evaluation(run(SINKS, control))
        assert "not finite" in told(now, 1.25, then)


def test_a_failure_is_named_with_its_figures() -> None:
    full = math.log(10.5)
    verdict = judge(
        evaluation(
            run(FULL, full),
            run(SINKS, full + math.log(1.1), full),
            run(WINDOW, full + math.log(1.92), full),
            run(Rule("window", window=256), full, full, complete=False),
        ),
        1.25,
    )
    assert sentence(verdict) == (
        "1 of 2 runs had a perplexity of more than 1.25 times the full cache's on the same positions: "
        "window 512, no sinks with 20.16, 1.92 times 10.50. "
        "1 run could not be judged: window 256, no sinks (it was not read to the end)."
    )


def test_what_passes_is_told_with_the_highest() -> None:
    assert sentence(judge(beside_full(1.1), 1.25)) == (
        "The one run that was judged had a perplexity of at most 1.25 times the full cache's on the same positions; "
        "it was 4 sinks, window 512 with 11.55, 1.10 times 10.50."
    )


def test_a_ratio_beside_its_limit_is_told_with_enough_digits() -> None:
    assert "1.25004 times" in sentence(judge(beside_full(1.25004), 1.25))
    assert "1.250 times" not in sentence(judge(beside_full(1.24996), 1.25))


def test_without_a_full_cache_or_a_baseline_nothing_is_judged() -> None:
    reason = told(evaluation(run(SINKS, 2.0), run(WINDOW, 3.0)))
    assert "4 sinks, window 512; window 512, no sinks (no full cache was read beside it)" in reason
    assert "add full to --policies" in reason
    assert "--baseline" in reason


def test_past_the_trained_length_nothing_is_judged_without_a_baseline() -> None:
    far = evaluation(run(FULL, 2.0), run(Rule("window", window=9000), 3.0))
    assert "trained length of 8,192" in told(far)
    assert "--baseline" in told(far)
    assert not judge(far, 1.25, far).failed


def test_a_text_in_which_nothing_left_is_not_judged() -> None:
    reason = told(evaluation(run(FULL, 2.0), run(SINKS, 2.0, first_eviction=None, loss_after=None)))
    assert "nothing was read past a first eviction" in reason
    assert "no bounded cache was read" in told(evaluation(run(FULL, 2.0)))
    assert "no bounded cache was read" in told(evaluation())


def test_many_runs_that_cannot_be_judged_make_no_endless_sentence() -> None:
    many = [run(Rule("window", window=window), 2.0) for window in range(100, 200)]
    assert "and 98 more" in told(evaluation(*many))


def test_a_baseline_is_held_against_run_by_run() -> None:
    then = evaluation(run(WINDOW, 3.0), run(SINKS, 2.4), run(FULL, 2.3))
    now = evaluation(run(FULL, 2.3), run(SINKS, 2.9, 2.3), run(WINDOW, 3.0, 2.3))
    verdict = judge(now, 1.25, then)
    assert [(judged.rule, judged.failed) for judged in verdict.judged] == [(SINKS, True), (WINDOW, False)]
    assert verdict.judged[0].ratio == pytest.approx(math.exp(0.5))
    assert verdict.judged[0].control == pytest.approx(math.exp(2.4))
    assert sentence(verdict).startswith(
        "1 of 2 runs had a perplexity of more than 1.25 times the baseline's: 4 sinks, window 512 with 18.17, "
        "1.65 times 11.02."
    )


def test_an_evaluation_is_no_worse_than_itself() -> None:
    itself = beside_full(9.0)
    assert not judge(itself, 1.0, itself).failed


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        (run(WINDOW, 2.0), "the baseline has no such run"),
        (run(replace(SINKS, positions="absolute"), 2.0), "the baseline has no such run"),
        (run(SINKS, 2.0, complete=False), "in the baseline it was not read to the end"),
        (run(SINKS, None, first_eviction=None), "in the baseline nothing was read past a first eviction"),
        (run(SINKS, 2.0, tokens=5000), "the baseline's perplexity is over other positions"),
        (run(SINKS, 2.0, first_eviction=500), "the baseline's perplexity is over other positions"),
    ],
)
def test_a_run_that_the_baseline_does_not_answer_is_not_judged(then: Run, reason: str) -> None:
    assert reason in told(evaluation(run(SINKS, 2.0)), 1.25, evaluation(then))
    both = judge(evaluation(run(SINKS, 2.0), run(WINDOW, 2.0)), 1.25, evaluation(then, run(WINDOW, 2.0)))
    assert [(other.rule, other.reason) for other in both.unjudged] == [(SINKS, reason)]


@pytest.mark.parametrize(
    ("then", "difference"),
    [
        (evaluation(tokens=5000), "its number of tokens read is 5,000, and here it is 6,144"),
        (evaluation(subject=replace(SUBJECT, model="other")), "its model is other, and here it is small"),
        (
            evaluation(subject=replace(SUBJECT, text_sha256="cd" * 32)),
            "its text's SHA-256 is cdcd.* here it is abab",
        ),
        (evaluation(subject=replace(SUBJECT, text_tokens=8000)), "its text's length in tokens is 8,000"),
    ],
)
def test_a_baseline_of_something_else_is_told_with_what_differs(then: Evaluation, difference: str) -> None:
    with pytest.raises(UsageError, match=difference):
        check_baseline(evaluation(), then)
    with pytest.raises(UsageError, match=difference):
        judge(evaluation(run(SINKS, 2.0)), 1.25, replace(then, runs=(run(SINKS, 2.0),)))


def test_what_may_be_in_question_may_differ() -> None:
    subject = replace(SUBJECT, revision="later", dtype="bfloat16", quant="nf4", device="cuda:0", text_name="-")
    check_baseline(evaluation(), evaluation(subject=subject))


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan, math.inf])
def test_a_limit_that_is_none_is_told(limit: float) -> None:
    assert "give a number above 0" in told(beside_full(1.1), limit)
