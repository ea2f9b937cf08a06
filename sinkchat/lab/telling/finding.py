"""What an evaluation found, in sentences that say no more than its records do."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sinkchat.lab import order
from sinkchat.lab.results import Evaluation, Recall, Run
from sinkchat.lab.telling import numerals

FLAT_NATS = 0.05
"""A loss whose trend, from the first eviction to the end, adds less than this is called flat."""


def headline(evaluation: Evaluation) -> str:
    """One to three sentences: the fewest sinks that are enough, beside the same window without sinks."""
    runs = [run for run in evaluation.runs if run.loss_mean is not None]
    bounded = [run for run in runs if run.rule.policy != "full"]
    if not runs:
        return _without_runs(evaluation)
    if not bounded:
        return (
            f"The full cache reads {_tokens(runs[0].tokens)} at perplexity {numerals.perplexity(runs[0].loss_mean)}. "
            "No bounded cache was measured."
        )
    cut = [run for run in bounded if run.first_eviction is not None and run.loss_after is not None]
    # what ended early is of other tokens, and is told only where there is nothing else
    cut = [run for run in cut if run.complete] or cut
    if not cut:
        longest = max(run.tokens for run in bounded)
        return (
            f"Nothing was evicted: the {_tokens(longest)} that were read fit into every window, so these figures say "
            "nothing about what eviction does."
        )
    sinks, none = _pair(cut)
    if sinks is not None and none is not None:
        return f"{_sinks(sinks)} {_without(none, sinks)}"
    if sinks is not None:
        return _sinks(sinks)
    if none is not None:
        return _described(none, "Without sinks" + _window(none))
    worst, best = max(cut, key=order.after), min(cut, key=order.after)
    first = _described(best, _sentence_case(best.rule.name))
    return first if best is worst else f"{first} {_described(worst, _sentence_case(worst.rule.name))}"


def control(evaluation: Evaluation) -> str:
    """What the bounded runs are compared with, or why with nothing."""
    full = order.full(evaluation)
    cut = [run for run in evaluation.runs if run.rule.policy != "full" and run.first_eviction is not None]
    if full is None or full.loss_mean is None:
        return (
            "There is no control: the full cache was not measured, so what the text itself does is in every figure."
        )
    if not cut:
        return ""
    with_control = [run for run in cut if run.loss_full_same_positions is not None]
    reach = min(full.tokens, evaluation.subject.trained_length)
    shown = (
        "The control is the full cache on the same tokens, as far as the model was trained and the full cache read: "
        f"{_tokens(reach)}."
    )
    if not with_control:
        return (
            "There is no control past the first eviction: the full cache is one only up to the trained length of "
            f"{_tokens(evaluation.subject.trained_length)}, and it read {_tokens(full.tokens)}."
        )
    without = len(cut) - len(with_control)
    return f"{shown} {without} of {len(cut)} bounded runs have none." if without else shown


def incomplete(evaluation: Evaluation) -> str:
    """One sentence if something is missing, else nothing."""
    short = sum(not run.complete for run in evaluation.runs)
    if evaluation.complete and not short:
        return ""
    told = f"; {short} of {len(evaluation.runs)} runs ended early and tell of the tokens they read" if short else ""
    return f"This evaluation did not come to its end{told}."


def recall(evaluation: Evaluation) -> str:
    """Whether anything was remembered that had left the cache."""
    asked = evaluation.recall
    if not asked:
        return ""
    bounded = [one for one in asked if one.rule.policy != "full"]
    words = [_right("While a fact was still in the cache", [one for one in asked if one.visible])]
    gone = [one for one in bounded if not one.visible]
    words.append(_right("Once it had left", gone))
    with_sinks = [one for one in gone if one.rule.policy == "sinks" and one.rule.sinks]
    if with_sinks and not _above_chance(with_sinks):
        words.append("Sinks do not remember: they keep attention in order, and what left the window is gone.")
    elif with_sinks:
        words.append(
            "With sinks, facts that had left were named more often than guessing would: sinks hold nothing but the "
            "first tokens of the text, so look at what else gives the answers away."
        )
    return " ".join(word for word in words if word)


def _right(when: str, asked: Sequence[Recall]) -> str:
    total = sum(one.asked for one in asked)
    if not total:
        return ""
    right = sum(one.right for one in asked)
    chance = sum(one.chance * one.asked for one in asked) / total
    return (
        f"{when}, {right:,} of {total:,} answers were right ({numerals.percent(right / total)}; "
        f"guessing gives {numerals.chance(chance)})."
    )


def _above_chance(asked: Sequence[Recall]) -> bool:
    """More right than guessing gives in all but one of some forty cases: two standard deviations."""
    expected = sum(one.chance * one.asked for one in asked)
    variance = sum(one.chance * (1 - one.chance) * one.asked for one in asked)
    return sum(one.right for one in asked) > expected + 2 * math.sqrt(variance)


def _without_runs(evaluation: Evaluation) -> str:
    if evaluation.recall:
        return recall(evaluation)
    if evaluation.generation:
        return "Only free continuations were measured; no text was read."
    return "Nothing was measured." if evaluation.complete else "Nothing was measured yet."


def _pair(cut: Sequence[Run]) -> tuple[Run | None, Run | None]:
    """The runs of the headline, both of the smallest window that has both, if one has."""
    plain = [run for run in cut if order.is_plain(run.rule)]
    by_window = [
        (
            order.fewest_enough([run for run in plain if run.rule.window == window and _has_sinks(run)]),
            next((run for run in plain if run.rule.window == window and run.rule.policy == "window"), None),
        )
        for window in order.windows([run.rule for run in plain])
    ]
    both = [pair for pair in by_window if pair[0] is not None and pair[1] is not None]
    if both:
        return both[0]
    return (
        next((sinks for sinks, _ in by_window if sinks is not None), None),
        next((none for _, none in by_window if none is not None), None),
    )


def _has_sinks(run: Run) -> bool:
    return run.rule.policy == "sinks" and run.rule.sinks > 0


def _sinks(run: Run) -> str:
    name = f"With {run.rule.sinks:,} {'sink' if run.rule.sinks == 1 else 'sinks'}{_window(run)}"
    return _described(run, name)


def _without(run: Run, sinks: Run) -> str:
    told = f"Without sinks it is {numerals.perplexity(run.loss_after)}"
    told += _times(run)
    if run.collapse_at is not None:
        told += f", parting from the full cache at position {run.collapse_at:,}"
    gap = order.after(run) - order.after(sinks)
    if abs(gap) < order.ALIKE_NATS:
        told += ": no difference worth telling"
    elif gap < 0:
        told += ": lower than with them"
    return told + "."


def _described(run: Run, name: str) -> str:
    """`With 4 sinks and a window of 512 the loss stays flat: perplexity 11.6 after the first eviction, ...`"""
    figures = f"perplexity {numerals.perplexity(run.loss_after)} after the first eviction{_times(run)}"
    return f"{name} {_trend(run)}: {figures}."


def _trend(run: Run) -> str:
    """What the loss does after the first eviction, in as strong a word as the figures bear."""
    if run.loss_after is None or not math.isfinite(run.loss_after):
        return "the loss is no finite number"
    if run.collapse_at is not None:
        return f"the loss parts from the full cache's at position {run.collapse_at:,} and stays apart"
    # Beside the control what the text itself does is out of the slope, but only as far as there is a control.
    slope, error = run.slope_after, run.slope_error
    if order.compared_throughout(run):
        slope, error = run.slope_over_full, run.slope_over_full_error
    if slope is None or error is None or run.first_eviction is None or not math.isfinite(slope + error):
        return "the loss is measured over too few tokens for a trend"
    thousands = (run.tokens - run.first_eviction) / 1000
    if abs(slope) * thousands < FLAT_NATS and 2 * error * thousands < 4 * FLAT_NATS:
        return "the loss stays flat"
    if abs(slope) <= 2 * error:
        return "the loss shows no trend that these figures can tell from chance"
    by = numerals.slope(abs(slope), error)[1:]
    beside = " against the full cache's" if order.compared_throughout(run) else ""
    if beside and slope > 0:
        beside += ", which keeps ever more of the text"  # so a gap that grows is no collapse yet
    return f"the loss {'rises' if slope > 0 else 'falls'} by {by} nats per 1,000 tokens{beside}"


def _times(run: Run) -> str:
    """How it stands to the full cache, where there is one to stand to."""
    if run.loss_same_positions is None or run.loss_full_same_positions is None:
        return ""
    # The figure before this one is over all of the text: where the control reaches less far, the two are not one.
    where = "the full cache's" if order.compared_throughout(run) else "the full cache's where that is a control"
    return f", {numerals.ratio(run.loss_same_positions, run.loss_full_same_positions)} times {where}"


def _window(run: Run) -> str:
    return f" and a window of {run.rule.window:,}" if run.rule.policy == "sinks" else f", window {run.rule.window:,},"


def _tokens(count: int) -> str:
    return f"{count:,} {'token' if count == 1 else 'tokens'}"


def _sentence_case(name: str) -> str:
    return name[:1].upper() + name[1:] + ":"
