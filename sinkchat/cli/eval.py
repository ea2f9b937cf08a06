"""`sinkchat eval`: a text read under many rules, and what that shows; in the terminal and in files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sinkchat.cli import lists
from sinkchat.cli.measuring import DONE, Outputs, measure, remark, show, text_of, told
from sinkchat.errors import UsageError
from sinkchat.settings import Settings

if TYPE_CHECKING:
    from sinkchat.lab.plan import Plan

VERDICT = 3


def run(arguments: argparse.Namespace, settings: Settings, command: tuple[str, ...]) -> int:
    """Returns the exit code: 1 when the device failed, 3 when a run is worse than --fail-above allows, 130 when it
    was interrupted. Raises `SinkchatError`."""
    from sinkchat.lab import verdict
    from sinkchat.lab.files import document

    text = text_of(arguments)
    limit = lists.factor("--fail-above", arguments.fail_above) if arguments.fail_above is not None else None
    if arguments.baseline is not None and limit is None:
        raise UsageError("--baseline is what a verdict holds runs against; give --fail-above X too.")
    plan = plan_of(arguments)
    baseline = document.read(arguments.baseline) if arguments.baseline is not None else None
    if limit is not None and baseline is None and "full" not in plan.policies:
        raise UsageError(
            "--fail-above needs something to hold the runs against; add full to --policies, or give --baseline FILE."
        )
    outputs = Outputs.asked_for(arguments)
    measured = measure(plan, text, settings, outputs, command, baseline)
    code = told(measured, outputs, show)
    if code != DONE or limit is None:
        return code
    judged = verdict.judge(measured.evaluation, limit, baseline)
    remark(verdict.sentence(judged))
    return VERDICT if judged.failed else DONE


def plan_of(arguments: argparse.Namespace) -> Plan:
    """Raises `UsageError`."""
    from sinkchat.lab.plan import Plan

    chosen: dict[str, Any] = {}
    for name in ("policies", "positions", "sink_tokens"):
        if (value := getattr(arguments, name)) is not None:
            chosen[name] = lists.words(f"--{name.replace('_', '-')}", value)
    for field, flag, least in (
        ("windows", "window", 1),
        ("sinks", "sinks", 0),
        ("start_positions", "start_position", 0),
        ("seeds", "seeds", 0),
    ):
        if (value := getattr(arguments, flag)) is not None:
            chosen[field] = lists.numbers(f"--{flag.replace('_', '-')}", value, least)
    for flag, least in (("tokens", 2), ("generate", 1)):
        if (value := getattr(arguments, flag)) is not None:
            chosen[flag] = lists.number(f"--{flag}", value, least)
    if arguments.generate is None and (arguments.seeds is not None or arguments.prompt is not None):
        raise UsageError("--seeds and --prompt are for free writing; say how many tokens, with --generate N.")
    if arguments.prompt is not None and not arguments.prompt.strip():
        raise UsageError("--prompt has no words to go on from; give some, or leave it out.")
    return Plan(**chosen, per_token=arguments.per_token, recall=arguments.recall, prompt=arguments.prompt)
