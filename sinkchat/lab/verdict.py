"""Whether a bounded cache is as good as it has to be: a regression, told by perplexity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sinkchat.errors import UsageError
from sinkchat.lab.figures import perplexity
from sinkchat.lab.results import Evaluation, Rule, Run

NO_FULL = "no full cache was read beside it"
TOO_FAR = "the full cache read nothing within its trained length past the first eviction"


@dataclass(frozen=True, slots=True)
class Judged:
    """A run beside what it is held against, over the same tokens."""

    rule: Rule
    perplexity: float
    control: float
    """The full cache's perplexity, or the baseline's for the same rule."""
    ratio: float
    failed: bool


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A run that says nothing either way."""

    rule: Rule
    reason: str
    """As in `4 sinks, window 512 could not be judged: it was not read to the end`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    fail_above: float
    """The largest ratio that passes."""
    baseline: bool
    """Whether runs are held against an earlier evaluation's, instead of against the full cache."""
    judged: Sequence[Judged]
    """One or more, in the order of the runs."""
    unjudged: Sequence[Unjudged]

    @property
    def failures(self) -> Sequence[Judged]:
        return tuple([run for run in self.judged if run.failed])

    @property
    def failed(self) -> bool:
        return any(run.failed for run in self.judged)


def judge(evaluation: Evaluation, fail_above: float, baseline: Evaluation | None = None) -> Verdict:
    """Hold every bounded run against the full cache on the same positions, or against the baseline's run of the same
    rule.

    Raises `UsageError` for a ratio that is none, a baseline of something else, and where no run can be judged.
    """
    if not (math.isfinite(fail_above) and fail_above > 0):
        raise UsageError(f"A run cannot be judged by {fail_above} times a perplexity; give a number above 0.")
    if baseline is not None:
        check_baseline(evaluation, baseline)
    earlier = {run.rule: run for run in baseline.runs} if baseline is not None else None
    found = [
        _against_full(evaluation, run, fail_above) if earlier is None else _against(earlier, run, fail_above)
        for run in evaluation.runs
        if run.rule.policy != "full"
    ]
    judged = tuple([one for one in found if isinstance(one, Judged)])
    unjudged = tuple([one for one in found if isinstance(one, Unjudged)])
    if not judged:
        raise UsageError(_nothing(evaluation, baseline is not None, unjudged))
    return Verdict(fail_above, baseline is not None, judged, unjudged)


def check_baseline(evaluation: Evaluation, baseline: Evaluation) -> None:
    """Raises `UsageError` that names what differs, where perplexities of the two are not of the same tokens. Needs no
    runs, so that it can be asked before anything is measured."""
    now, then = evaluation.subject, baseline.subject
    differences = [
        f"its {name} is {_named(old)}, and here it is {_named(new)}"
        for name, old, new in (
            ("model", then.model, now.model),
            ("text's SHA-256", then.text_sha256, now.text_sha256),
            ("text's length in tokens", then.text_tokens, now.text_tokens),
            ("number of tokens read", baseline.tokens, evaluation.tokens),
        )
        if old != new
    ]
    if differences:
        said = "; ".join(differences)
        raise UsageError(f"The baseline is of something else: {said}; evaluate the same, or name another baseline.")


def _named(value: str | int) -> str:
    return f"{value:,}" if isinstance(value, int) else value


def sentence(verdict: Verdict) -> str:
    """What the verdict is, each failing run with its figures, and what could not be judged."""
    over = "the baseline's" if verdict.baseline else "the full cache's on the same positions"
    limit = f"{verdict.fail_above:.12g} times {over}"
    count = len(verdict.judged)
    if verdict.failed:
        runs = "; ".join(_figures(run, verdict.fail_above) for run in verdict.failures)
        words = f"{len(verdict.failures):,} of {_runs(count)} had a perplexity of more than {limit}: {runs}."
    else:
        worst = max(verdict.judged, key=lambda run: run.ratio)
        all_ = "The one run that was judged had" if count == 1 else f"All {count:,} runs that were judged had"
        highest = "it was" if count == 1 else "the highest was"
        words = f"{all_} a perplexity of at most {limit}; {highest} {_figures(worst, verdict.fail_above)}."
    if not verdict.unjudged:
        return words
    others = "; ".join(f"{other.rule.name} ({other.reason})" for other in verdict.unjudged)
    return f"{words} {_runs(len(verdict.unjudged))} could not be judged: {others}."


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count:,} runs"


def _figures(run: Judged, limit: float) -> str:
    return f"{run.rule.name} with {_figure(run.perplexity)}, {_ratio(run.ratio, limit)} times {_figure(run.control)}"


def _figure(value: float, digits: int = 2) -> str:
    return f"{value:,.{digits}f}" if value < 1e6 else f"{value:.3g}"


def _ratio(ratio: float, limit: float) -> str:
    """With as many digits as it takes to tell it from the limit."""
    digits = 2
    while digits < 12 and ratio != limit and _figure(ratio, digits) == _figure(limit, digits):
        digits += 1
    return _figure(ratio, digits)


def _against_full(evaluation: Evaluation, run: Run, fail_above: float) -> Judged | Unjudged:
    if reason := _unfinished(run):
        return Unjudged(run.rule, reason)
    if not any(other.rule.policy == "full" for other in evaluation.runs):
        return Unjudged(run.rule, NO_FULL)
    if run.loss_same_positions is None or run.loss_full_same_positions is None:
        return Unjudged(run.rule, TOO_FAR)
    if not math.isfinite(run.loss_full_same_positions):
        return Unjudged(run.rule, "the full cache's own perplexity is not finite")
    return _judged(run.rule, run.loss_same_positions, run.loss_full_same_positions, fail_above)


def _against(earlier: Mapping[Rule, Run], run: Run, fail_above: float) -> Judged | Unjudged:
    if reason := _unfinished(run):
        return Unjudged(run.rule, reason)
    then = earlier.get(run.rule)
    if then is None:
        return Unjudged(run.rule, "the baseline has no such run")
    if reason := _unfinished(then):
        return Unjudged(run.rule, f"in the baseline {reason}")
    if (then.tokens, then.first_eviction) != (run.tokens, run.first_eviction):
        return Unjudged(run.rule, "the baseline's perplexity is over other positions")
    assert run.loss_after is not None
    assert then.loss_after is not None
    if not math.isfinite(then.loss_after):
        return Unjudged(run.rule, "the baseline's own perplexity is not finite")
    return _judged(run.rule, run.loss_after, then.loss_after, fail_above)


def _unfinished(run: Run) -> str | None:
    if not run.complete:
        return "it was not read to the end"
    if run.first_eviction is None or run.loss_after is None:
        return "nothing was read past a first eviction"
    return None


def _judged(rule: Rule, loss: float, control: float, fail_above: float) -> Judged:
    found, held, ratio = perplexity(loss), perplexity(control), perplexity(loss - control)
    assert found is not None
    assert held is not None
    assert ratio is not None
    # Nothing that is not a number is at most anything, and so it fails.
    return Judged(rule, found, held, ratio, not (math.isfinite(found) and ratio <= fail_above))


def _nothing(evaluation: Evaluation, baseline: bool, unjudged: Sequence[Unjudged]) -> str:
    if not unjudged:
        return "No run can be judged: no bounded cache was read; add sinks or window to --policies."
    reasons: dict[str, list[str]] = {}
    for other in unjudged:
        reasons.setdefault(other.reason, []).append(other.rule.name)
    if baseline:
        way = "name a baseline in which the same rules were evaluated to the end"
    elif NO_FULL in reasons:
        way = "add full to --policies, or give an earlier --json as --baseline"
    elif TOO_FAR in reasons:
        length = evaluation.subject.trained_length
        way = f"take a --window well below the trained length of {length:,}, or give an earlier --json as --baseline"
    else:
        way = "read a text to the end that is longer than the window"
    said = "; ".join(f"{_few(names)} ({reason})" for reason, names in reasons.items())
    return f"No run can be judged: {said}; {way}."


def _few(names: Sequence[str]) -> str:
    if len(names) <= 3:
        return "; ".join(names)
    return f"{'; '.join(names[:2])}; and {len(names) - 2:,} more"
