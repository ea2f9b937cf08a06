"""The tables of an evaluation in a terminal. The most important figures are there at every width."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sinkchat.lab import order
from sinkchat.lab.figures import mean
from sinkchat.lab.results import Evaluation, Generation, Run
from sinkchat.lab.telling import numerals
from sinkchat.lab.terminal.columns import Column, folded, laid_out

BEFORE, READ, RECOMPUTED = ("ppl", "before"), ("tokens", "read"), ("re-", "computed")

_RUN: tuple[tuple[tuple[str, str], int, Callable[[Run], str]], ...] = (
    (BEFORE, 2, lambda run: numerals.perplexity(run.loss_before)),
    (("ppl", "after"), 0, lambda run: numerals.perplexity(run.loss_after)),
    (("×", "full"), 1, lambda run: numerals.ratio(run.loss_same_positions, run.loss_full_same_positions)),
    (("ppl full", "same tokens"), 7, lambda run: numerals.perplexity(run.loss_full_same_positions)),
    (("slope after", "nats/1,000"), 13, lambda run: numerals.slope(run.slope_after, run.slope_error)),
    (("slope vs full", "nats/1,000"), 5, lambda run: numerals.slope(run.slope_over_full, run.slope_over_full_error)),
    (("collapse", "at"), 3, lambda run: numerals.count(run.collapse_at)),
    (READ, 12, lambda run: numerals.count(run.tokens)),
    (("first", "eviction"), 14, lambda run: numerals.count(run.first_eviction)),
    (("", "evictions"), 11, lambda run: numerals.count(run.evictions)),
    (RECOMPUTED, 15, lambda run: numerals.count(run.recomputed)),
    (("KV", "entries"), 8, lambda run: numerals.count(run.kv_entries_max)),
    (("KV", "MB"), 4, lambda run: numerals.megabytes(run.kv_bytes)),
    (("sink", "share"), 9, lambda run: numerals.percent(run.sink_share_mean)),
    (("tokens", "/s"), 10, lambda run: numerals.rate(run.tokens_per_second)),
)


def _ranks(read: Sequence[Run]) -> dict[tuple[str, str], int]:
    """What is left out sooner or later than usual, by what there is to tell."""
    ranks = {}
    if any(run.rule.policy == "recompute" for run in read):
        # What it costs is half of what there is to say of it; what was before the first eviction is alike in all.
        ranks = {RECOMPUTED: 2, BEFORE: 6}
    if len({run.tokens for run in read}) == 1:
        ranks[READ] = 16
    return ranks


def runs(evaluation: Evaluation, width: int, *, ascii: bool = False) -> str:
    """All runs, in lines of at most `width` cells."""
    read = order.ordered(evaluation.runs)
    if not read:
        return "No text was read under any rule."
    names = [run.rule.name + ("" if run.complete else " *") for run in read]
    ranks = _ranks(read)
    columns = [Column(head, [told(run) for run in read], ranks.get(head, rank)) for head, rank, told in _RUN]
    text = laid_out("rule", names, columns, width, ascii)
    if all(run.complete for run in read):
        return text
    return "\n".join([text, *folded("* ended early: its figures are over the tokens that were read.", width)])


def recall(evaluation: Evaluation, width: int, *, ascii: bool = False) -> str:
    """Each rule at each distance."""
    asked = order.by_distance(evaluation.recall)
    if not asked:
        return "No facts were asked for."
    columns = [
        Column(("", "distance"), [numerals.count(one.distance) for one in asked], 0),
        Column(("in", "cache"), ["yes" if one.visible else "no" for one in asked], 2),
        Column(("", "right"), [f"{one.right:,} of {one.asked:,}" for one in asked], 1),
        Column(("", "share"), [numerals.percent(one.right / one.asked if one.asked else None) for one in asked], 5),
        Column(("", "chance"), [numerals.chance(one.chance) for one in asked], 4),
        Column(("loss of", "answer"), [numerals.nats(one.loss, 2) for one in asked], 3),
    ]
    return laid_out("rule", [one.rule.name for one in asked], columns, width, ascii)


def generation(evaluation: Evaluation, width: int, *, ascii: bool = False) -> str:
    """Means over the seeds of each rule."""
    groups = order.by_rule(evaluation.generation)
    if not groups:
        return "Nothing was generated."

    def column(head: tuple[str, str], rank: int, told: Callable[[list[Generation]], str]) -> Column:
        return Column(head, [told(drawn) for drawn in groups.values()], rank)

    def distinct(n: int) -> Callable[[list[Generation]], str]:
        return lambda drawn: numerals.percent(
            mean([one.distinct[n - 1] if len(one.distinct) >= n else None for one in drawn])
        )

    columns = [
        column(("", "seeds"), 7, lambda drawn: numerals.count(len(drawn))),
        column(("", "tokens"), 6, lambda drawn: numerals.count(sum(one.tokens for one in drawn))),
        column(("in", "loops"), 0, lambda drawn: numerals.percent(mean([one.loop_rate for one in drawn]))),
        column(("that", "loop"), 5, lambda drawn: f"{sum(one.loop_at is not None for one in drawn)}/{len(drawn)}"),
        *(column(("distinct", f"{n}-grams"), rank, distinct(n)) for n, rank in ((1, 8), (2, 3), (3, 9), (4, 10))),
        column(("loss", "drawn"), 4, lambda drawn: numerals.nats(mean([one.loss for one in drawn]))),
        column(("loss", "full"), 1, lambda drawn: numerals.nats(mean([one.loss_full for one in drawn]))),
    ]
    return laid_out("rule", [rule.name for rule in groups], columns, width, ascii)
