"""An evaluation on the command line: the model is loaded, the work followed and ended, and its files are kept."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sinkchat.chat.printable import visible
from sinkchat.cli.escape_key import EscapeKey
from sinkchat.cli.interrupt import Interrupt
from sinkchat.cli.log import keep_log
from sinkchat.cli.opening import load_model
from sinkchat.cli.terminal import ProgressLine, abandon_stdout, can_show, columns, complain, is_terminal, say, tell
from sinkchat.errors import SinkchatError, UsageError
from sinkchat.files import expanded
from sinkchat.settings import Settings

if TYPE_CHECKING:
    from sinkchat.lab.plan import Plan
    from sinkchat.lab.results import Evaluation, Run
    from sinkchat.lab.work import Moment

STDOUT = "-"

DONE, FAILED, INTERRUPTED = 0, 1, 130

BLOCKS_AND_DOTS = "█⣿"
"""Where these cannot be shown, curves and maps are drawn in ASCII."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where the results go; None: nowhere. `json` may be `-`, standard output."""

    json: str | None = None
    csv: str | None = None
    html: str | None = None
    force: bool = False
    resume: bool = False

    @classmethod
    def asked_for(cls, arguments: argparse.Namespace) -> Outputs:
        return cls(arguments.json, arguments.csv, arguments.html, arguments.force, arguments.resume_run)

    @property
    def files(self) -> list[str]:
        return [file for file in (self.json, self.csv, self.html) if file is not None and file != STDOUT]

    def check(self, text: str | None) -> None:
        """Before anything is measured: files that cannot be written, or must not be, are told. text: the file that is
        read, if one is. Raises `UsageError`."""
        from sinkchat.lab.files.saving import try_target
        from sinkchat.lab.source import STDIN

        if self.resume and self.json in (None, STDOUT):
            raise UsageError("--resume goes on with the evaluation in a file; name it with --json FILE.")
        for file in (self.csv, self.html):
            if file == STDOUT:
                raise UsageError("Only --json can be written to standard output; name a file.")
        names = [try_target(file) for file in self.files]
        if len(set(names)) < len(names):
            raise UsageError("One file cannot hold two formats; give each of --json, --csv and --html its own.")
        for file, name in zip(self.files, names, strict=True):
            if not name.exists():
                continue
            if text is not None and text != STDIN and _is_file(expanded(text), name):
                raise UsageError(f"{file} is the text that is to be read; name another file.")
            if not self.force and not self.resume:
                raise UsageError(f"{file} exists; name another file, or say --force to write over it.")

    def earlier(self) -> Evaluation | None:
        """The evaluation to go on with, if there is one. Raises `UsageError`."""
        from sinkchat.lab.files import document
        from sinkchat.lab.files.saving import check_target

        if self.resume and self.json is not None and check_target(self.json).exists():
            return document.read(self.json)
        return None

    def keep(self, evaluation: Evaluation) -> None:
        """After each piece of the work: what is known so far. Raises `SinkchatError`."""
        from sinkchat.lab.files import document

        if self.json is not None and self.json != STDOUT:
            document.write(evaluation, self.json)

    def finish(self, evaluation: Evaluation) -> tuple[list[str], list[str]]:
        """Every file, also where another one cannot be written. Returns those that are there, and a sentence for each
        that is not."""
        from sinkchat.lab.files import csv_file, saving
        from sinkchat.lab.report import page

        steps: list[tuple[str | None, Callable[[str], None]]] = [
            (self.json, lambda _: self.keep(evaluation)),
            (self.csv, lambda file: csv_file.write(evaluation, file)),
            (self.html, lambda file: saving.save(file, [page.html(evaluation)])),
        ]
        written: list[str] = []
        failures: list[str] = []
        for file, write in steps:
            if file is None or file == STDOUT:
                continue
            try:
                write(file)
                written.append(file)
            except SinkchatError as error:
                failures.append(str(error))
        return written, failures

    def print(self, evaluation: Evaluation, show: Callable[[Evaluation], None]) -> list[str]:
        """On standard output: the document, or what `show` says. Returns a sentence if it cannot be written."""
        from sinkchat.lab.files import document

        try:
            if self.json == STDOUT:
                say(document.to_json(evaluation))
            else:
                show(evaluation)
        except BrokenPipeError:  # whoever read it has seen enough; files and verdict are not theirs
            abandon_stdout()
        except SinkchatError as error:
            return [str(error)]
        return []


def _is_file(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # it is not there, or its name cannot be one
        return False


@dataclass(frozen=True, slots=True)
class Measured:
    evaluation: Evaluation
    failures: Sequence[str]
    interrupted: bool


def measure(
    plan: Plan,
    text: str | None,
    settings: Settings,
    outputs: Outputs,
    command: Sequence[str],
    baseline: Evaluation | None,
) -> Measured:
    """Everything that can be told before the minutes that a model may take is told first. Raises `SinkchatError`."""
    from sinkchat.lab.source import read_text

    rules = plan.rules()
    outputs.check(text)
    before = outputs.earlier()
    source = read_text(text)
    keep_log()
    with Interrupt() as interrupt:
        line = ProgressLine()
        try:
            window = max((rule.window for rule in rules if rule.window is not None), default=None)
            loaded = load_model(settings.model, settings, line.show, window)
        finally:
            line.clear()
        from sinkchat.lab.evaluate import Evaluator
        from sinkchat.lab.verdict import check_baseline

        evaluator = Evaluator(loaded, source, plan, command=command, before=before)
        if baseline is not None:
            check_baseline(evaluator.result, baseline)
        interrupt.patient = True
        with EscapeKey() as escape:

            def follow(moment: Moment) -> bool:
                line.write(f"{moment.number}", str(moment))
                return not (interrupt.asked or escape.pressed())

            said = _Said(evaluator.result)
            for evaluation in evaluator.run(follow):
                try:
                    outputs.keep(evaluation)
                except SinkchatError as error:  # hours of work are not given up for it: it is tried again at the end
                    line.clear()
                    said.once(str(error))
                line.clear()
                said.news(evaluation)
        line.clear()
    result = evaluator.result
    return Measured(result, evaluator.failures, not result.complete and not evaluator.failures)


class _Said:
    """One line on standard error for each run that is done."""

    def __init__(self, before: Evaluation) -> None:
        self._told = {run.rule: run for run in before.runs}
        self._complaints: set[str] = set()

    def once(self, complaint: str) -> None:
        if complaint not in self._complaints:
            self._complaints.add(complaint)
            complain(complaint)

    def news(self, evaluation: Evaluation) -> None:
        for run in evaluation.runs:
            if self._told.get(run.rule) is not run:  # an earlier one may be read again
                self._told[run.rule] = run
                remark(_line(run))


def _line(run: Run) -> str:
    """`4 sinks, window 512: perplexity 11.6 after the first eviction, 1.10 times the full cache's on the same ...`"""
    from sinkchat.lab.telling import numerals

    evicted = run.loss_after is not None
    words = f"{run.rule.name}: perplexity {numerals.perplexity(run.loss_after if evicted else run.loss_mean)}"
    if evicted:
        words += " after the first eviction"
    if run.loss_full_same_positions is not None:
        times = numerals.ratio(run.loss_same_positions, run.loss_full_same_positions)
        words += f", {times} times the full cache's on the same tokens"
    ended = "" if run.complete else ", ended early"
    return f"{words}; {run.tokens:,} tokens{ended}, {run.tokens_per_second:,.0f} a second"


def text_of(arguments: argparse.Namespace) -> str | None:
    """The one text that is named. Raises `UsageError`."""
    words = arguments.words
    if len(words) > 1:
        raise UsageError(
            f"`sinkchat {arguments.command}` reads one text, not {len(words)}; join them, or pipe them in as -."
        )
    if words and not words[0]:
        raise UsageError("A file's name cannot be empty; name a text file, or leave it out.")
    return words[0] if words else None


def told(measured: Measured, outputs: Outputs, show: Callable[[Evaluation], None]) -> int:
    """Write its files, `show` it, say what went wrong; each also where another fails. Returns the exit code."""
    # files first: nobody may be left who reads standard output
    written, failures = outputs.finish(measured.evaluation)
    failures = [*measured.failures, *failures, *outputs.print(measured.evaluation, show)]
    if written:
        tell(visible(f"Written: {', '.join(written)}") + "\n")
    for failure in failures:
        complain(failure)
    if measured.interrupted:
        ways = "; go on with --resume" if outputs.json not in (None, STDOUT) else ""
        complain(f"it was ended early, and what was done until then is told{ways}.")
        return INTERRUPTED
    return FAILED if failures else DONE


def subject(evaluation: Evaluation) -> str:
    """`SmolLM2-135M-Instruct, bfloat16 on cpu: 6,144 of the 112,877 tokens of pydoc_data.topics`"""
    of = evaluation.subject
    quant = "" if of.quant == "none" else f"{of.quant} "
    read = f"{evaluation.tokens:,} of the {of.text_tokens:,} tokens of {of.text_name}"
    return visible(f"{of.model}, {quant}{of.dtype} on {of.device}: {read}")


def paragraph(text: str) -> str:
    """Each of its lines in as many as the terminal needs, broken between words."""
    width = min(columns(), 100)
    return "\n".join(textwrap.fill(line, width, break_on_hyphens=False) for line in text.split("\n"))


def remark(text: str) -> None:
    """On standard error: one line for whoever reads it from a file, whole words for a terminal."""
    tell(f"{paragraph(text) if is_terminal(sys.stderr) else text}\n")


def show(evaluation: Evaluation) -> None:
    """What was measured and what was found, on standard output."""
    from sinkchat.lab import order
    from sinkchat.lab.telling import finding
    from sinkchat.lab.terminal import tables
    from sinkchat.lab.terminal.curves import curves
    from sinkchat.lab.terminal.heads import head_map

    width, ascii, color = columns(), not can_show(BLOCKS_AND_DOTS), is_terminal(sys.stdout)
    parts = [
        paragraph(subject(evaluation)),
        paragraph(finding.headline(evaluation)),
        tables.runs(evaluation, width, ascii=ascii),
        curves(evaluation, width, color=color, ascii=ascii),
    ]
    with_heads = [run for run in evaluation.runs if run.sink_share_heads is not None and run.rule.sinks]
    for run in order.telling(with_heads, 1):
        title = f"{run.rule.name}: what each head gives the sinks, past the first eviction"
        parts.append(head_map(run.sink_share_heads or (), width, title, ascii=ascii))
    if evaluation.recall:
        if evaluation.runs:  # else it is the headline
            parts.append(paragraph(finding.recall(evaluation)))
        parts.append(tables.recall(evaluation, width, ascii=ascii))
    if evaluation.generation:
        parts.append("Free writing, means over the seeds")
        parts.append(tables.generation(evaluation, width, ascii=ascii))
    say("\n\n".join(part.strip("\n") for part in parts if part) + "\n")
