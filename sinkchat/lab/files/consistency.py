"""Whether the figures of a document that was read can be of one evaluation: what is computed with further on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from sinkchat.cache.policy import check
from sinkchat.errors import CacheError
from sinkchat.lab.files.fields import Misfit
from sinkchat.lab.results import FULL, Evaluation, Recall, Rule, Run


def check_consistent(evaluation: Evaluation) -> None:
    """Raises `Misfit`."""
    if evaluation.bin < 1:
        raise Misfit("is not 1 or more", "bin")
    runs, drawn, asked = evaluation.runs, evaluation.generation, evaluation.recall
    _check_rules("runs", [run.rule for run in runs])
    _check_rules("generation", [one.rule for one in drawn])
    _check_rules("recall", [one.rule for one in asked])
    _check_once("runs", [run.rule for run in runs])
    _check_once("generation", [(one.rule, one.seed) for one in drawn])
    _check_once("recall", [(one.rule, one.stream_window, one.distance, one.visible) for one in asked])
    for number, run in enumerate(runs):
        # the full cache may have been read less far
        if run.tokens > evaluation.tokens or (run.complete and run.rule != FULL and run.tokens < evaluation.tokens):
            raise Misfit(f"is not the {evaluation.tokens:,} that were to be read", f"runs[{number}].tokens")
        _check_run(run, f"runs[{number}]")
    for number, one in enumerate(asked):
        _check_recall(one, f"recall[{number}]")


def _check_rules(part: str, rules: Sequence[Rule]) -> None:
    for number, rule in enumerate(rules):
        if rule.policy == "full":
            continue
        if rule.window is None:
            raise Misfit("is missing", f"{part}[{number}].window")
        try:
            check(rule.policy, rule.sinks, rule.window)
        except CacheError as error:
            raise Misfit(f"makes no cache: {str(error).rstrip('.')}", f"{part}[{number}]") from None


def _check_once(part: str, keys: Sequence[Hashable]) -> None:
    first: dict[Hashable, int] = {}
    for number, key in enumerate(keys):
        if first.setdefault(key, number) != number:
            raise Misfit(f"is of the same as {part}[{first[key]}]", f"{part}[{number}]")


def _check_run(run: Run, where: str) -> None:
    for name, values in (("losses", run.losses), ("shares", run.shares)):
        if values is not None and len(values) != run.tokens:
            raise Misfit(f"is not of {run.tokens:,} tokens", f"{where}.{name}")
    for number, point in enumerate(run.curve):
        least = run.curve[number - 1].position + 1 if number else 0
        if not least <= point.position < run.tokens:
            raise Misfit("is none of the tokens after the one before", f"{where}.curve[{number}].position")
    if run.first_eviction is not None and run.first_eviction >= run.tokens:
        raise Misfit("is none of the tokens", f"{where}.first_eviction")


def _check_recall(one: Recall, where: str) -> None:
    if one.right > one.asked:
        raise Misfit("is more than was asked", f"{where}.right")
    if not 0 <= one.chance <= 1:
        raise Misfit("is not between 0 and 1", f"{where}.chance")
