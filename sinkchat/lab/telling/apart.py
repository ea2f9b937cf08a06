"""How far a run's losses lie above the full cache's on the same tokens: the text's ups and downs are out of it."""

from __future__ import annotations

from collections.abc import Sequence

from sinkchat.lab.results import Evaluation, Run
from sinkchat.lab.telling import smooth


def compared(evaluation: Evaluation, runs: Sequence[Run]) -> list[tuple[Run, list[tuple[float, float]]]]:
    """The runs that have a control past their first eviction, each with its curve as `above` gives it."""
    full = next((run for run in runs if run.rule.policy == "full"), None)
    if full is None:
        return []
    found = []
    for run in runs:
        curve = above(run, full, evaluation.bin, evaluation.subject.trained_length)
        if run.first_eviction is not None and len(curve) >= 3 and curve[-1][0] > run.first_eviction:
            found.append((run, curve))
    return found


def last_compared(evaluation: Evaluation, runs: Sequence[Run], compared: Sequence[Run]) -> int:
    """Tokens that an axis for `compared` of `runs` holds: as far as both they and their control go."""
    full = max((run.tokens for run in runs if run.rule.policy == "full"), default=0)
    return min(full, evaluation.subject.trained_length, max(run.tokens for run in compared))


def above(run: Run, full: Run, bin: int, trained: int) -> list[tuple[float, float]]:
    """(middle of a bin, mean loss above the full cache's): of the bins that hold the same tokens in both, within the
    trained length."""
    control = {(point.position, min(point.position + bin, full.tokens)): point.loss for point in full.curve}
    # replaced tokens have no loss, so a bin with some of them is a mean over fewer
    first = 0 if run.rule.sink_tokens == "text" else run.rule.sinks
    found = []
    for middle, point in zip(smooth.middles(run), run.curve, strict=True):
        end = min(point.position + bin, run.tokens)
        if first <= point.position and end <= trained and (point.position, end) in control:
            found.append((middle, point.loss - control[point.position, end]))
    return found
