"""Charts of what was swept: the number of sinks, and how far away they stand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from sinkchat.lab import order
from sinkchat.lab.report.frame import LABELLED, Figure, both_widths
from sinkchat.lab.report.palette import Colours
from sinkchat.lab.report.svg import Dot, Level, Line
from sinkchat.lab.results import Evaluation, Rule, Run
from sinkchat.lab.telling import scale


def sinks_chart(evaluation: Evaluation, colours: Colours) -> list[Figure]:
    """Perplexity after the first eviction against the number of sinks: a line for whatever else is varied."""
    runs = [run for run in _cut(evaluation) if run.rule.policy in ("sinks", "window")]
    groups = _groups(runs, _but_for_sinks)
    swept = {rule for rule, group in groups.items() if len({run.rule.sinks for run in group}) > 1}
    # Other tokens in the sinks' place are worth a lone dot beside the sweep with the text's own.
    kept = {rule: groups[rule] for rule in groups if rule in swept or replace(rule, sink_tokens="text") in swept}
    shown = dict(list(kept.items())[:LABELLED])
    if not swept:
        return []
    counts = sorted({run.rule.sinks for group in shown.values() for run in group})
    lines = []
    for rule, group in shown.items():
        group = sorted(group, key=lambda run: run.rule.sinks)
        points = [(float(counts.index(run.rule.sinks)), order.after(run)) for run in group]
        dashes = " ".join(one for one in colours.of(rule).split() if one.startswith("d-"))
        lines.append(Line(_name_but_for_sinks(rule), f"k-join {dashes}".strip(), points))
        for run, point in zip(group, points, strict=True):
            lines.append(
                Line("", colours.of(run.rule), (), dots=[Dot(*point, filled=run.rule.sink_tokens == "text")])
            )
    levels = []
    control = {
        (run.rule.window or 0, run.loss_full_same_positions)
        for group in shown.values()
        for run in group
        if order.compared_throughout(run)
        if run.loss_full_same_positions is not None and math.isfinite(run.loss_full_same_positions)
    }
    # One control for each window, over the same tokens as its runs; with more than two they would hide the runs.
    if len(control) <= 2:
        for window, loss in sorted(control):
            of = "" if len(control) == 1 else f" as window {window:,}"
            levels.append(Level(loss, f"full cache, same tokens{of}", "k-full"))
    losses = [value for line in lines for _, value in line.points] + [level.y for level in levels]
    up = scale.perplexities(losses, _PERPLEXITY)
    across = scale.even([f"{count:,}" for count in counts], "number of sinks (steps not to scale)")
    told = "At 0: the window without sinks. " if 0 in counts else ""
    told += "Equal heights are equal factors. "
    if any(rule.sink_tokens != "text" for rule in shown):
        told += "Hollow: other tokens stand where the sinks are. "
    return [
        Figure(
            "How many sinks",
            both_widths(
                lines,
                [(across, up), (across, up)],
                height=300,
                described=f"Perplexity after eviction against {', '.join(map(str, counts))} sinks",
                levels=levels,
            ),
            (told + _left_out(len(kept))).strip(),
        )
    ]


_PERPLEXITY = "perplexity after the first eviction, logarithmic"


def _but_for_sinks(rule: Rule) -> Rule:
    return replace(rule, policy="sinks", sinks=0)


def _name_but_for_sinks(rule: Rule) -> str:
    words = rule.name.split(", ")
    return ", ".join(words[1:])


def _left_out(groups: int) -> str:
    return f"{groups - LABELLED} more lines are not drawn; the table has them." if groups > LABELLED else ""


def _groups(runs: Sequence[Run], key: Callable[[Rule], Rule]) -> dict[Rule, list[Run]]:
    """Runs that differ only in what is swept, in the order of a table."""
    groups: dict[Rule, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run.rule), []).append(run)
    return groups


def distance_chart(evaluation: Evaluation, colours: Colours) -> list[Figure]:
    """Perplexity after the first eviction against how much further on the tokens after the sinks stand."""
    groups = _groups(_cut(evaluation), lambda rule: replace(rule, start_position=0))
    swept = {rule: group for rule, group in groups.items() if len({run.rule.start_position for run in group}) > 1}
    shown = dict(list(swept.items())[:LABELLED])
    if not shown:
        return []
    starts = sorted({run.rule.start_position for group in shown.values() for run in group})
    lines = []
    for rule, group in shown.items():
        group = sorted(group, key=lambda run: run.rule.start_position)
        points = [(float(starts.index(run.rule.start_position)), order.after(run)) for run in group]
        name = rule.name if rule.positions == "absolute" else f"{rule.name}, cache"
        lines.append(Line(name, colours.of(rule), points, dots=[Dot(*point) for point in points]))
    up = scale.perplexities([value for line in lines for _, value in line.points], _PERPLEXITY)
    across = scale.even([f"{start:,}" for start in starts], "tokens further on (steps not to scale)")
    return [
        Figure(
            "How far away the sinks stand",
            both_widths(
                lines,
                [(across, up), (across, up)],
                height=300,
                described=f"Perplexity with {', '.join(map(str, starts))} tokens between sinks and rest",
            ),
            "Cache: a query is placed by its index in the cache. Absolute (dashed): by its place in the whole "
            f"sequence. The text is the same, only the distance to the sinks varies. {_left_out(len(swept))}".strip(),
        )
    ]


def _cut(evaluation: Evaluation) -> list[Run]:
    """Runs from which entries left, with a perplexity to show, over all of the tokens: figures of a run that ended
    early are of others."""
    return [
        run
        for run in order.ordered(evaluation.runs)
        if run.complete and run.loss_after is not None and math.isfinite(run.loss_after)
    ]
