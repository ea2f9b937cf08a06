"""`sinkchat sinks`: how many sinks a model needs, and at which heads."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from sinkchat.cli import lists
from sinkchat.cli.measuring import BLOCKS_AND_DOTS, Outputs, measure, paragraph, subject, text_of, told
from sinkchat.cli.terminal import can_show, columns, say
from sinkchat.errors import UsageError
from sinkchat.settings import Settings

if TYPE_CHECKING:
    from sinkchat.lab.advice import Advice
    from sinkchat.lab.results import Evaluation, Run

SWEEP = (0, 1, 2, 4, 8, 16)


def run(arguments: argparse.Namespace, settings: Settings, command: tuple[str, ...]) -> int:
    """Returns the exit code: 1 when the device failed, 130 when it was interrupted. Raises `SinkchatError`."""
    from sinkchat.lab.plan import Plan

    text = text_of(arguments)
    if arguments.positions is not None:
        raise UsageError("`sinkchat sinks` does not take --positions; `sinkchat eval` does.")
    window = lists.number("--window", arguments.window, 1) if arguments.window is not None else Plan().windows[0]
    sweep = lists.numbers("--sinks", arguments.sinks) if arguments.sinks is not None else SWEEP
    if len(sweep) < 2:
        raise UsageError("`sinkchat sinks` compares numbers of sinks; give two or more, such as --sinks 0,4.")
    plan = Plan(
        policies=("full", "sinks"),
        windows=(window,),
        sinks=tuple(sorted(sweep)),
        tokens=lists.number("--tokens", arguments.tokens, 2) if arguments.tokens is not None else None,
        per_token=True,  # runs are compared token by token
    )
    outputs = Outputs.asked_for(arguments)
    return told(measure(plan, text, settings, outputs, command, None), outputs, show)


def show(evaluation: Evaluation) -> None:
    """The sweep, what it says, and which heads rest on the sinks; on standard output."""
    from sinkchat.lab.advice import advise
    from sinkchat.lab.telling.numerals import plain
    from sinkchat.lab.terminal.heads import head_map

    if not any(run.complete and run.first_eviction is not None and run.losses for run in evaluation.runs):
        return
    ascii = not can_show(BLOCKS_AND_DOTS)
    advice = advise(evaluation)
    parts = [paragraph(subject(evaluation)), _sweep(advice)]
    if evaluation.complete:
        parts.append(paragraph(_sentences(advice)))
        heads = advice.chosen.run.sink_share_heads
        if heads is not None and advice.sinks:
            title = f"What each head gives the {_sinks(advice.sinks)}, past the first eviction"
            parts.append(head_map(heads, columns(), title, ascii=ascii))
    else:
        parts.append(
            paragraph("Not every number of sinks was read to the end, so nothing is said of how many are enough.")
        )
    text = "\n\n".join(part.rstrip("\n") for part in parts) + "\n"
    say(plain(text) if ascii else text)


def _sweep(advice: Advice) -> str:
    from sinkchat.lab.telling.numerals import percent

    lines = ["sinks  perplexity after  × full  above the best, nats  sink share"]
    for one in advice.compared:
        run = one.run
        error = "" if math.isnan(one.error) else f" ± {one.error:.3f}"
        share = "" if run.rule.sinks == 0 or run.sink_share_mean is None else percent(run.sink_share_mean)
        line = f"{run.rule.sinks:5}  {_ppl(run):>16}  {_ratio(run):>6}  {f'{one.excess:.3f}{error}':>20}  {share:>10}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def _sentences(advice: Advice) -> str:
    from sinkchat.lab.advice import resting
    from sinkchat.lab.telling.numerals import percent

    best = advice.best
    none = next((one for one in advice.compared if one.run.rule.sinks == 0), None)
    chosen = advice.chosen
    window = chosen.run.rule.window
    if advice.sinks == 0:
        words = f"With a window of {window:,} this model needs no sinks on this text: without them its mean loss is "
        if chosen.run is best.run:
            return words + "the lowest of all."
        return words + f"{chosen.excess:.3f} nats above the lowest, with {_sinks(best.run.rule.sinks)}."
    if advice.sinks == max(one.run.rule.sinks for one in advice.compared):
        words = (
            f"Of the numbers that were tried, no fewer than {_sinks(advice.sinks)} will do with a window of "
            f"{window:,}, and more may do better: try more with --sinks. The mean loss past the first eviction is "
        )
    else:
        verb = "is" if advice.sinks == 1 else "are"
        words = (
            f"{_sinks(advice.sinks)} {verb} enough with a window of {window:,}: the mean loss past the first "
            "eviction is "
        )
    if chosen.run is best.run:
        words += "the lowest of all"
    else:
        words += f"{chosen.excess:.3f} nats above the lowest, with {_sinks(best.run.rule.sinks)}"
    if none is not None:
        words += f"; without sinks it is {none.excess:.3f} above, "
        words += f"perplexity {_ppl(none.run)} instead of {_ppl(chosen.run)}"
    heads = [share for layer in chosen.run.sink_share_heads or () for share in layer if share is not None]
    rest = resting(chosen.run.sink_share_heads)
    if not heads:
        return words + "."
    words += f".\n{len(rest)} of {len(heads)} heads give more than half of their attention to"
    words += " it" if advice.sinks == 1 else " them"
    most = ", ".join(f"layer {one.layer} head {one.head} ({percent(one.share)})" for one in rest[:5])
    return f"{words}; most of all {most}." if rest else f"{words}."


def _sinks(count: int) -> str:
    return f"{count:,} {'sink' if count == 1 else 'sinks'}" if count else "no sinks"


def _ppl(run: Run) -> str:
    from sinkchat.lab.telling.numerals import perplexity

    return perplexity(run.loss_after)


def _ratio(run: Run) -> str:
    from sinkchat.lab.telling.numerals import ratio

    return ratio(run.loss_same_positions, run.loss_full_same_positions)
