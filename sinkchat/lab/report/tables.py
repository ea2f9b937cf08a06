"""The tables of a report: what each run measured, what it cost, what was drawn freely and what was recalled."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from sinkchat.chat.printable import visible
from sinkchat.lab import order
from sinkchat.lab.figures import mean
from sinkchat.lab.report.palette import Colours
from sinkchat.lab.results import Evaluation, Generation, Rule
from sinkchat.lab.telling import numerals

BEGINNING = 1200
"""Characters of a text that are shown."""


def quality(evaluation: Evaluation, colours: Colours) -> str:
    """How well each run predicted the text; first the figure that a narrow page must show before it is scrolled."""
    heads = (
        ("rule", ""),
        ("× full", "same tokens"),
        ("sinks", ""),
        ("window", ""),
        ("perplexity", "before"),
        ("perplexity", "after"),
        ("perplexity", "full, same tokens"),
        ("slope after", "per 1,000 tokens"),
        ("slope against full", "per 1,000 tokens"),
        ("collapse", "at position"),
    )
    rows = [
        (
            name(run.rule, colours, run.complete, short=True),
            numerals.ratio(run.loss_same_positions, run.loss_full_same_positions),
            numerals.count(run.rule.sinks) if run.rule.policy != "full" else numerals.MISSING,
            numerals.count(run.rule.window),
            numerals.perplexity(run.loss_before),
            numerals.perplexity(run.loss_after),
            numerals.perplexity(run.loss_full_same_positions),
            numerals.slope(run.slope_after, run.slope_error),
            numerals.slope(run.slope_over_full, run.slope_over_full_error),
            numerals.count(run.collapse_at),
        )
        for run in order.ordered(evaluation.runs)
    ]
    return table(heads, rows, _breaks(evaluation))


def cost(evaluation: Evaluation, colours: Colours) -> str:
    """What each run held, dropped, ran again and how fast it was."""
    heads = (
        ("rule", ""),
        ("window", ""),
        ("tokens", "read"),
        ("first", "eviction"),
        ("KV entries", "at most"),
        ("KV cache", "MB"),
        ("evictions", ""),
        ("recomputed", "tokens"),
        ("sink share", "mean"),
        ("speed", "tokens / s"),
    )
    rows = [
        (
            name(run.rule, colours, run.complete, short=True),
            numerals.count(run.rule.window),
            numerals.count(run.tokens),
            numerals.count(run.first_eviction),
            numerals.count(run.kv_entries_max),
            numerals.megabytes(run.kv_bytes),
            numerals.count(run.evictions),
            numerals.count(run.recomputed),
            numerals.percent(run.sink_share_mean),
            numerals.rate(run.tokens_per_second),
        )
        for run in order.ordered(evaluation.runs)
    ]
    return table(heads, rows, _breaks(evaluation))


def _breaks(evaluation: Evaluation) -> set[int]:
    """Rows that begin another window."""
    runs = order.ordered(evaluation.runs)
    return {at for at in range(1, len(runs)) if runs[at].rule.window != runs[at - 1].rule.window}


def generation(evaluation: Evaluation, colours: Colours) -> str:
    """Means over the seeds of each rule, and how each text begins."""
    heads = (
        ("rule", ""),
        ("seeds", ""),
        ("tokens", "drawn, all"),
        ("in loops", "of tokens"),
        ("that looped", "of seeds"),
        *(("distinct", f"{n}-grams" if n > 1 else "tokens") for n in (1, 2, 3, 4)),
        ("loss", "as drawn"),
        ("loss", "under full"),
    )
    groups = order.by_rule(evaluation.generation)
    rows = [
        (
            name(rule, colours),
            numerals.count(len(drawn)),
            numerals.count(sum(one.tokens for one in drawn)),
            numerals.percent(mean([one.loop_rate for one in drawn])),
            f"{sum(one.loop_at is not None for one in drawn)} of {len(drawn)}",
            *(
                numerals.percent(mean([one.distinct[n] if n < len(one.distinct) else None for one in drawn]))
                for n in range(4)
            ),
            numerals.nats(mean([one.loss for one in drawn])),
            numerals.nats(mean([one.loss_full for one in drawn])),
        )
        for rule, drawn in groups.items()
    ]
    return table(heads, rows) + "".join(_beginnings(rule, drawn) for rule, drawn in groups.items())


def _beginnings(rule: Rule, drawn: Sequence[Generation]) -> str:
    texts = "".join(f"<p class='over'>Seed {one.seed}: {_fate(one)}</p><pre>{_beginning(one)}</pre>" for one in drawn)
    return f"<details><summary>How the texts begin: {escape(rule.name)}</summary>{texts}</details>"


def _fate(one: Generation) -> str:
    looped = f"loops from token {one.loop_at:,} on" if one.loop_at is not None else "no loop"
    return f"{one.tokens:,} tokens, {looped}, {numerals.percent(one.loop_rate)} of them in loops"


def _beginning(one: Generation) -> str:
    text = visible(one.text[:BEGINNING])
    more = " …" if len(one.text) > BEGINNING else ""
    return escape(text) + more if text else "<i>nothing was drawn</i>"


def recall(evaluation: Evaluation, colours: Colours) -> str:
    """Each rule at each distance."""
    heads = (
        ("rule", ""),
        ("distance", "tokens"),
        ("in the cache", ""),
        ("asked", ""),
        ("right", ""),
        ("right", "share"),
        ("chance", ""),
        ("loss of the", "right answer"),
    )
    asked = order.by_distance(evaluation.recall)
    rows = [
        (
            name(one.rule, colours),
            numerals.count(one.distance),
            "yes" if one.visible else "no",
            numerals.count(one.asked),
            numerals.count(one.right),
            numerals.percent(one.right / one.asked if one.asked else None),
            numerals.chance(one.chance),
            numerals.nats(one.loss),
        )
        for one in asked
    ]
    breaks = {at for at in range(1, len(asked)) if asked[at].rule != asked[at - 1].rule}
    inner = table(heads, rows, breaks)
    return f"<details><summary>All answers in figures</summary>{inner}</details>"


def name(rule: Rule, colours: Colours, complete: bool = True, *, short: bool = False) -> str:
    """The rule with a piece of its line, HTML; `short` where the window has a column of its own."""
    told = order.short_name(rule) if short else rule.name
    marked = "" if complete else " <b>(ended early)</b>"
    return (
        '<svg width="18" height="8" viewBox="0 0 18 8" aria-hidden="true">'
        f'<path class="line {colours.of(rule)}" d="M0 4H18"/></svg>{escape(told)}{marked}'
    )


def table(heads: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], breaks: set[int] | None = None) -> str:
    """Cells are HTML. Each head is a name and, below it, its unit."""
    top = "".join(
        f'<th scope="col">{escape(word)}{f"<span class=unit>{escape(unit)}</span>" if unit else ""}</th>'
        for word, unit in heads
    )
    body = "".join(
        f"<tr{' class=next' if breaks and at in breaks else ''}>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>"
        for at, row in enumerate(rows)
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
