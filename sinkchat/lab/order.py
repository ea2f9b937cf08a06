"""Which runs belong together, in which order they are told, and which are picked where not all can be shown."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sinkchat.cache.policy import Policy
from sinkchat.lab.results import Evaluation, Generation, Recall, Rule, Run

ALIKE_NATS = 0.02
"""Mean losses that differ by less are called alike: two per cent of perplexity."""

_POLICIES: dict[Policy, int] = {"full": 0, "window": 1, "sinks": 2, "recompute": 3}
_TOKENS = {"text": 0, "newlines": 1, "random": 2}


def place(rule: Rule) -> tuple[int, ...]:
    """Where a rule stands in a table: by window, the plain ones first, from no sinks to many."""
    return (
        rule.window or 0,
        not is_plain(rule),
        _POLICIES[rule.policy],
        rule.positions == "absolute",
        _TOKENS[rule.sink_tokens],
        rule.start_position,
        rule.sinks,
    )


def ordered(runs: Sequence[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: place(run.rule))


def is_plain(rule: Rule) -> bool:
    """Whether nothing is varied but policy, sinks and window."""
    return rule.positions == "cache" and rule.sink_tokens == "text" and not rule.start_position


def windows(rules: Sequence[Rule]) -> list[int]:
    """All that occur, the smallest first."""
    return sorted({rule.window for rule in rules if rule.window is not None})


def full(evaluation: Evaluation) -> Run | None:
    return next((run for run in evaluation.runs if run.rule.policy == "full"), None)


def of_window(evaluation: Evaluation, window: int) -> list[Run]:
    """The runs of a chart: the full cache, and what was bounded by this window."""
    return ordered([run for run in evaluation.runs if run.rule.policy == "full" or run.rule.window == window])


def panels(runs: Sequence[Run], window: int) -> list[tuple[str, list[Run]]]:
    """The charts of a window, each with its title: the plain rules, then what is varied beside them, with the full
    cache and the plain rules that differ in nothing else: a few ruined runs would flatten all the others."""
    plain = [run for run in runs if is_plain(run.rule)]
    varied = [run for run in runs if not is_plain(run.rule)]
    like = {(run.rule.policy, run.rule.sinks) for run in varied} | {("full", 0)}
    beside = [run for run in plain if (run.rule.policy, run.rule.sinks) in like]
    charts = [(f"window {window:,}", plain)]
    if varied:
        charts.append((f"window {window:,}, what else was varied", beside + varied))
    return [(title, shown) for title, shown in charts if any(run.rule.policy != "full" for run in shown)]


def short_name(rule: Rule) -> str:
    """The rule's name where the window is told beside it: `4 sinks`, `no sinks`, `full cache`."""
    if rule.policy == "full":
        return "full cache"
    window = f"window {rule.window:,}"
    return ", ".join(part for part in rule.name.replace(window, "\0").split(", ") if part != "\0")


def after(run: Run) -> float:
    """The loss a run is ranked by; what is no number counts as the worst."""
    loss = run.loss_mean if run.loss_after is None else run.loss_after
    return math.inf if loss is None or math.isnan(loss) else loss


def compared_throughout(run: Run) -> bool:
    """Whether all tokens past the first eviction have a control."""
    same, loss = run.loss_same_positions, run.loss_after
    return same is not None and loss is not None and abs(loss - same) < 1e-9


def fewest_enough(runs: Sequence[Run]) -> Run | None:
    """The run with the fewest sinks whose loss is alike to the lowest of these, or below it."""
    best = min((after(run) for run in runs), default=math.inf)
    near = [run for run in runs if after(run) <= best + ALIKE_NATS]
    return min(near, key=lambda run: (run.rule.sinks, run.rule.window or 0), default=None)


def telling(runs: Sequence[Run], most: int) -> list[Run]:
    """Of each policy and kind of positions, the run with the lowest and the one with the highest loss after eviction,
    the plain ones first; then the others in order, until there are enough. In the order of a table."""
    if len(runs) <= most:
        return ordered(runs)
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in ordered(runs):
        groups.setdefault((run.rule.policy, run.rule.positions), []).append(run)
    ranked = sorted(groups.values(), key=lambda group: (group[0].rule.positions != "cache", place(group[0].rule)[1:]))
    lowest = [min(group, key=after) for group in ranked]
    highest = [max(group, key=after) for group in ranked]
    chosen: list[Run] = []
    for run in [*lowest, *highest, *ordered(runs)]:
        if len(chosen) < most and not any(run is one for one in chosen):
            chosen.append(run)
    return ordered(chosen)


def by_rule(drawn: Sequence[Generation]) -> dict[Rule, list[Generation]]:
    """In the order of a table, the seeds ascending."""
    groups: dict[Rule, list[Generation]] = {}
    for one in sorted(drawn, key=lambda one: (place(one.rule), one.seed)):
        groups.setdefault(one.rule, []).append(one)
    return groups


def by_distance(asked: Sequence[Recall]) -> list[Recall]:
    """In the order of a table, each rule's facts from near to far."""
    return sorted(asked, key=lambda one: (place(one.rule), one.distance, not one.visible))
