"""An evaluation from beginning to end, over a tiny model: what is run, kept, interrupted and gone on with."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from sinkchat.errors import SinkchatError
from sinkchat.lab.evaluate import Evaluator
from sinkchat.lab.files import document
from sinkchat.lab.plan import Plan
from sinkchat.lab.reading import read
from sinkchat.lab.results import FULL, Evaluation, Rule, Run
from sinkchat.lab.source import Text
from sinkchat.lab.work import Course, Moment, Piece
from tests.engine.listening import OUT_OF_MEMORY
from tests.lab import tiny

TEXT = Text("the keeper", tiny.TEXT * 12, "0" * 64)
PLAN = Plan(
    policies=("full", "window", "sinks", "recompute"),
    windows=(64,),
    sinks=(1, 4),
    tokens=300,
    generate=40,
    seeds=(1, 2),
)


def evaluator(plan: Plan = PLAN, before: Evaluation | None = None, **model) -> Evaluator:
    return Evaluator(tiny.loaded(**model), TEXT, plan, before=before)


def go_on(_moment: Moment) -> bool:
    return True


def finished(evaluator: Evaluator) -> Evaluation:
    *_, last = evaluator.run(go_on)
    assert last is evaluator.result
    return last


@pytest.fixture(scope="module")
def whole() -> Evaluation:
    return finished(evaluator())


def timeless(evaluation: Evaluation) -> Evaluation:
    """Without what differs from one time to the next, and after a journey through a file."""
    runs = [replace(run, tokens_per_second=0.0) for run in evaluation.runs]
    return document.from_json(document.to_json(replace(evaluation, created="", runs=runs)))


def test_every_rule_is_run_in_the_plans_order(whole) -> None:
    assert tuple(run.rule for run in whole.runs) == PLAN.rules()
    assert whole.complete
    assert all(run.complete and run.tokens == 300 for run in whole.runs)
    assert (whole.tokens, whole.bin) == (300, 16)


def test_runs_are_compared_with_the_full_cache(whole) -> None:
    full, *others = whole.runs
    assert full.loss_full_same_positions is None
    losses = read(tiny.loaded(), Rule("full"), evaluator()._ids, lambda _done: True).losses
    for run in others:
        assert run.first_eviction == 64
        assert run.loss_full_same_positions == pytest.approx(sum(losses[65:]) / len(losses[65:]))


def test_of_rules_that_differ_by_degrees_one_writes(whole) -> None:
    assert [(one.rule.policy, one.rule.sinks, one.seed) for one in whole.generation] == [
        (policy, sinks, seed)
        for policy, sinks in (("full", 0), ("window", 0), ("sinks", 4), ("recompute", 0))
        for seed in (1, 2)
    ]
    assert all(one.tokens == 40 for one in whole.generation)


def test_what_is_done_is_told_after_each_piece() -> None:
    known = [(len(one.runs), len(one.generation), one.complete) for one in evaluator().run(go_on)]
    runs, pieces = len(PLAN.rules()), len(PLAN.rules()) + 8
    assert known == [*((min(n, runs), max(0, n - runs), False) for n in range(1, pieces + 1)), (runs, 8, True)]


def test_the_work_is_followed_to_its_end() -> None:
    moments: list[Moment] = []
    for _ in evaluator().run(lambda moment: moments.append(moment) is None):
        pass
    assert {moment.pieces for moment in moments} == {len(PLAN.rules()) + 8}
    assert sorted({moment.number for moment in moments}) == list(range(1, moments[-1].pieces + 1))
    for before, after in pairwise(moments):
        assert (before.number, before.done) <= (after.number, after.done)
        assert after.done <= after.total


def test_a_token_of_the_full_cache_is_more_work_the_further_it_is_read(monkeypatch) -> None:
    import sinkchat.lab.evaluate as module

    kept: list[Piece] = []

    class Kept(Course):
        def __init__(self, pieces, follow) -> None:
            kept.extend(pieces)
            super().__init__(pieces, follow)

    monkeypatch.setattr(module, "Course", Kept)
    for tokens in (300, 600):
        for _ in evaluator(replace(PLAN, tokens=tokens)).run(lambda _moment: False):
            pass
    costs = {(piece.what, piece.tokens): piece.cost for piece in kept}
    bounded = costs["4 sinks, window 64", 300]
    assert bounded == costs["4 sinks, window 64", 600]
    assert bounded < costs["full", 300] < costs["full", 600]


@pytest.mark.parametrize("when", [0, 1, 5, 20, 30])
def test_an_interrupted_evaluation_is_gone_on_with_to_the_same_end(whole, when) -> None:
    left = [when]

    def enough(_moment: Moment) -> bool:
        left[0] -= 1
        return left[0] >= 0

    first = evaluator()
    for _ in first.run(enough):
        pass
    assert not first.result.complete
    kept = document.from_json(document.to_json(first.result))
    assert timeless(finished(evaluator(before=kept))) == timeless(whole)


def test_what_is_done_is_not_done_again(whole) -> None:
    moments: list[Moment] = []
    again = evaluator(before=whole)
    for _ in again.run(lambda moment: moments.append(moment) is None):
        pass
    assert moments == []
    assert again.result.runs == whole.runs


def test_losses_of_each_token_that_were_not_kept_are_measured_again(whole) -> None:
    last = finished(evaluator(replace(PLAN, per_token=True), before=whole))
    assert all(run.losses is not None and len(run.losses) == 300 for run in last.runs)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"text_sha256": "1" * 64}, "text"),
        ({"model": "another"}, "model"),
        ({"dtype": "bfloat16"}, "dtype"),
        ({"quant": "int8"}, "quantization"),
    ],
)
def test_only_the_same_is_gone_on_with(whole, change, named) -> None:
    with pytest.raises(SinkchatError, match=f"another {named}") as told:
        evaluator(before=replace(whole, subject=replace(whole.subject, **change)))
    assert told.value.exit_code == 2
    with pytest.raises(SinkchatError, match="another number of tokens"):
        evaluator(replace(PLAN, tokens=200), before=whole)
    with pytest.raises(SinkchatError, match=r"another number of tokens in a point .* \(7, not"):
        evaluator(before=replace(whole, bin=7))


def test_what_differs_is_told_in_words(whole) -> None:
    other = replace(whole.subject, model="other", revision="b179")
    with pytest.raises(SinkchatError, match=r"of another model \(other at b179, not tiny\)"):
        evaluator(before=replace(whole, subject=other))


def test_a_device_that_fails_costs_one_run_and_is_told(monkeypatch, whole) -> None:
    import sinkchat.lab.evaluate as module

    def failing(loaded, rule, ids, watching):
        if rule.sinks == 1:
            raise OUT_OF_MEMORY
        return read(loaded, rule, ids, watching)

    monkeypatch.setattr(module, "read", failing)
    broken = evaluator(replace(PLAN, generate=0))
    last = finished(broken)
    assert [run.rule for run in last.runs] == [rule for rule in PLAN.rules() if rule.sinks != 1]
    assert not last.complete
    (said,) = broken.failures
    assert said.startswith("1 sink, window 64: the memory of cpu")


def without_full(monkeypatch, error: bool = True) -> list[Rule]:
    """The device fails under the full cache; returns what is read."""
    import sinkchat.lab.evaluate as module

    tried: list[Rule] = []

    def failing(loaded, rule, ids, watching):
        tried.append(rule)
        if rule == FULL and error:
            raise OUT_OF_MEMORY
        return read(loaded, rule, ids, watching)

    monkeypatch.setattr(module, "read", failing)
    return tried


READING = replace(PLAN, generate=0)


def beside_full(run: Run) -> tuple[float | None, ...]:
    return run.loss_same_positions, run.loss_full_same_positions, run.slope_over_full, run.slope_over_full_error


def test_runs_that_lack_their_control_are_read_again_beside_it(monkeypatch, whole) -> None:
    with monkeypatch.context() as failing:
        without_full(failing)
        first = finished(evaluator(READING))
    assert [run.rule for run in first.runs] == [rule for rule in PLAN.rules() if rule != FULL]
    assert all(beside_full(run) == (None,) * 4 for run in first.runs)
    again = finished(evaluator(READING, before=first))
    assert again.complete
    assert [beside_full(run) for run in again.runs] == [beside_full(run) for run in whole.runs]
    added = finished(evaluator(READING, before=finished(evaluator(replace(READING, policies=("sinks",))))))
    assert [beside_full(run) for run in added.runs] == [beside_full(run) for run in whole.runs]


def test_what_was_compared_with_part_of_the_full_cache_is_not_taken_for_the_whole(whole) -> None:
    full, *others = replace(whole, generation=()).runs
    cut = replace(whole, generation=(), complete=False, runs=(replace(full, complete=False, tokens=100), *others))
    ended = evaluator(READING, before=cut)
    for _ in ended.run(lambda moment: moment.number == 1):
        pass
    assert ended.result.runs[0].tokens == 300
    assert all(beside_full(run) == (None,) * 4 for run in ended.result.runs[1:])
    again = finished(evaluator(READING, before=ended.result))
    assert [beside_full(run) for run in again.runs] == [beside_full(run) for run in whole.runs]


def test_a_device_that_fails_under_the_control_of_a_resumed_evaluation_is_told(monkeypatch, whole) -> None:
    before = replace(whole, generation=(), runs=whole.runs[:1])
    without_full(monkeypatch)
    broken = evaluator(READING, before=before)
    last = finished(broken)
    (said,) = broken.failures
    assert said.startswith("full: the memory of cpu")
    assert not last.complete
    assert len(last.runs) == len(PLAN.rules())
    tried = without_full(monkeypatch, error=False)
    assert finished(evaluator(READING, before=last)).complete
    assert tried == list(PLAN.rules()), "the others are read again, beside the control"


def test_writing_that_the_full_cache_has_not_read_is_not_done(whole) -> None:
    """Esc while it reads: the text is there, its loss under the full cache is not."""
    unread = [one if one.rule == FULL else replace(one, loss_full=None) for one in whole.generation]
    last = finished(evaluator(before=replace(whole, generation=unread)))
    assert all(one.loss_full is not None for one in last.generation)


def test_an_end_that_is_asked_for_when_all_is_done_cuts_nothing(whole) -> None:
    late = evaluator(READING)
    for _ in late.run(lambda moment: (moment.number, moment.done) != (len(PLAN.rules()), 300)):
        pass
    assert late.result.complete


@pytest.mark.parametrize(
    ("plan", "named"),
    [
        (replace(PLAN, sinks=(4,)), "a run of 1 sink, window 64"),
        (replace(PLAN, policies=("full", "sinks")), "a run of window 64, no sinks"),
        (replace(PLAN, generate=0), "writing of full"),
        (replace(PLAN, seeds=(1,)), "writing of full \\(seed 2\\)"),
        (replace(PLAN, prompt="The sea. " * 20), "writing of full"),
    ],
)
def test_a_file_that_has_more_than_is_asked_for_is_not_gone_on_with(whole, plan, named) -> None:
    with pytest.raises(SinkchatError, match=f"has {named}.*not what is asked for now") as told:
        evaluator(plan, before=whole)
    assert told.value.exit_code == 2


def test_a_tokenizer_without_a_line_break_is_told_before_anything_runs(monkeypatch) -> None:
    import sinkchat.lab.reading as module

    monkeypatch.setattr(module, "_line_break", lambda _tokenizer: None)
    with pytest.raises(SinkchatError, match="leave out newlines"):
        evaluator(replace(READING, sink_tokens=("newlines",)))


def test_the_full_cache_is_read_to_twice_the_trained_length_and_counts_up_to_it() -> None:
    plan = replace(PLAN, windows=(32,), policies=("full", "sinks"), sinks=(4,), tokens=400, generate=0)
    full, bounded = finished(evaluator(plan, trained=100)).runs
    assert (full.tokens, full.complete) == (200, True)
    losses = read(tiny.loaded(trained=100), Rule("full"), evaluator(plan)._ids[:200], lambda _done: True).losses
    assert bounded.tokens == 400
    assert bounded.loss_full_same_positions == pytest.approx(sum(losses[33:100]) / 67)


@pytest.mark.parametrize(
    ("plan", "named"),
    [
        (Plan(windows=(8192,)), "8,192 entries is longer than the 4,096"),
        (Plan(windows=(64,), tokens=60), "the window holds 64"),
        (Plan(windows=(64,), tokens=10**6), "fewer than the 1,000,000"),
        (Plan(windows=(4000,)), "the window holds 4,000"),
        (replace(PLAN, prompt="Sea", generate=12), "12 tokens are to be written behind a prompt of"),
        (replace(PLAN, windows=(8, 100)), "the window holds 100: .*; give --generate [0-9]+ or more, or --window"),
    ],
)
def test_what_would_show_nothing_is_told_before_anything_runs(plan, named) -> None:
    with pytest.raises(SinkchatError, match=named) as told:
        evaluator(plan)
    assert told.value.exit_code == 2


@pytest.mark.parametrize(("windows", "tokens"), [((64,), 6144), ((64, 1000), 8000)])
def test_a_run_reads_eight_windows_unless_told_otherwise(windows, tokens) -> None:
    text = replace(TEXT, text=TEXT.text * 20)
    plan = Plan(policies=("full", "window"), windows=windows)
    first = Evaluator(tiny.loaded(), text, plan).result
    assert first.subject.text_tokens > 8000
    assert first.tokens == tokens


def test_writing_goes_past_every_window_by_the_least_that_shows_something() -> None:
    writing = replace(PLAN, windows=(64, 200))
    with pytest.raises(SinkchatError, match="nothing would ever be evicted") as told:
        evaluator(writing)
    least = int(str(told.value).split("--generate ")[1].split()[0])
    evaluator(replace(writing, generate=least))
    with pytest.raises(SinkchatError, match=f"after the first eviction, .* --generate {least} or more"):
        evaluator(replace(writing, generate=least - 1))
    widest = int(str(told.value).split("--window ")[1].split()[0])
    evaluator(replace(writing, windows=(widest,)))
    with pytest.raises(SinkchatError, match="the window holds"):
        evaluator(replace(writing, windows=(widest + 1,)))
    evaluator(replace(writing, policies=("full",)))


def test_a_full_cache_that_memory_does_not_hold_is_told_before_anything_runs(monkeypatch) -> None:
    import sinkchat.lab.evaluate as module

    monkeypatch.setattr(module, "free_bytes", lambda _device: 1000)
    with pytest.raises(SinkchatError, match="leave full out"):
        evaluator()
    evaluator(replace(PLAN, policies=("sinks",)))


def test_each_window_has_facts_of_its_own_and_the_full_cache_is_asked_for_all() -> None:
    plan = replace(PLAN, windows=(64, 128), policies=("full", "sinks"), sinks=(4,), generate=0, recall=True)
    first = evaluator(plan)
    asked = finished(first).recall
    assert {(one.rule.window, one.stream_window) for one in asked} == {(None, 64), (None, 128), (64, 64), (128, 128)}
    for rule, window in {(one.rule, one.stream_window) for one in asked}:
        within = 4096 if rule.policy == "full" else None  # past the trained length it is no control
        count = sum(one.asked for one in asked if (one.rule, one.stream_window) == (rule, window))
        assert count == len(first._streams[window].asked_within(within)) > 40
    moments: list[Moment] = []
    for _ in evaluator(plan, before=first.result).run(lambda moment: moments.append(moment) is None):
        pass
    assert moments == [], "nothing is asked again"
