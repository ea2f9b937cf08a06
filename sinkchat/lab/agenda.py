"""What an evaluation has to do, what of it was done, and which earlier one it can go on with. Free of torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sinkchat.errors import UsageError
from sinkchat.lab.plan import Plan
from sinkchat.lab.results import FULL, Evaluation, Generation, Recall, Rule, Run, Subject

if TYPE_CHECKING:
    from sinkchat.lab.recall.stream import Stream


@dataclass(frozen=True, slots=True)
class Left:
    """What is yet to be done."""

    reads: tuple[Rule, ...]
    draws: tuple[tuple[Rule, int], ...]
    """To write under a rule with a seed."""
    asks: tuple[tuple[Rule, int], ...]
    """To ask under a rule over the stream of a window."""

    def __bool__(self) -> bool:
        return bool(self.reads or self.draws or self.asks)


@dataclass(frozen=True, slots=True)
class Agenda:
    """A plan, for one model and one text."""

    plan: Plan
    rules: tuple[Rule, ...]
    trained: int
    """Positions that the model was trained for."""
    full_reach: int
    """Tokens that the full cache is to read."""
    prompt: str
    """What is gone on from, spelled out."""
    streams: Mapping[int, Stream]
    """By the window that they were made for; none if nothing is to be recalled."""

    def left(self, done: Evaluation) -> Left:
        return Left(
            tuple(rule for rule in self.rules if not self._was_read(rule, done)),
            tuple((rule, seed) for rule, seed in self._draws() if not self._was_drawn(rule, seed, done)),
            tuple((rule, window) for rule, window in self._asks() if not self._was_asked(rule, window, done)),
        )

    def gone_on_with(self, before: Evaluation, now: Evaluation) -> Evaluation:
        """`now`, with what was done before.

        Raises UsageError if `before` is of something else, or has what this does not ask for: nothing is lost from
        its file, and nothing mixed.
        """
        _check_same(before, now)
        others = [
            *(f"a run of {run.rule.name}" for run in before.runs if run.rule not in self.rules),
            *(f"writing of {one.rule.name} (seed {one.seed})" for one in before.generation if not self._wrote(one)),
            *(f"recall of {one.rule.name}" for one in before.recall if not self._recalled(one)),
        ]
        if others:
            raise UsageError(
                f"The evaluation to go on with has {others[0]}, which is not what is asked for now; repeat its own "
                "command, or begin a new one in another file."
            )
        runs = before.runs
        if FULL in self.rules and not any(run.rule == FULL and run.complete for run in runs):
            # what they were compared with is read again, and further
            runs = tuple(_uncompared(run) for run in runs)
        return replace(now, runs=runs, generation=before.generation, recall=before.recall)

    # What there is to do

    def _telling(self) -> list[Rule]:
        """Of rules that differ by degrees alone, one: of several numbers of sinks 4, or the most."""
        plain = [rule for rule in self.rules if rule.sink_tokens == "text" and not rule.start_position]
        counts = {rule.sinks for rule in plain if rule.policy == "sinks"}
        count = 4 if 4 in counts else max(counts, default=0)
        return [rule for rule in plain if rule.policy != "sinks" or rule.sinks == count]

    def _draws(self) -> list[tuple[Rule, int]]:
        seeds = self.plan.seeds if self.plan.generate else ()
        return [(rule, seed) for rule in self._telling() for seed in seeds]

    def _asks(self) -> list[tuple[Rule, int]]:
        """A bounded rule is asked over the stream of its window, the full cache over all of them."""
        return [
            (rule, window) for rule in self._telling() for window in self.streams if rule.window in (None, window)
        ]

    # What was done

    def _was_read(self, rule: Rule, done: Evaluation) -> bool:
        runs = {run.rule: run for run in done.runs if run.complete}
        run = runs.get(rule)
        if run is None or (run.losses is None and self.plan.per_token):
            return False
        if rule == FULL or FULL not in self.rules:
            return True
        return FULL in runs and (run.loss_full_same_positions is not None or not self._can_be_compared(run))

    def _can_be_compared(self, run: Run) -> bool:
        """Whether the full cache is a control anywhere past the first eviction."""
        return run.first_eviction is not None and run.first_eviction + 1 < min(self.full_reach, self.trained)

    def _was_drawn(self, rule: Rule, seed: int, done: Evaluation) -> bool:
        return any(
            (old.rule, old.seed, old.tokens) == (rule, seed, self.plan.generate)
            and (old.loss_full is not None or old.prompt_tokens + old.tokens > self.trained)
            for old in done.generation
        )

    def _was_asked(self, rule: Rule, window: int, done: Evaluation) -> bool:
        within = self.trained if rule == FULL else None
        asked = sum(old.asked for old in done.recall if (old.rule, old.stream_window) == (rule, window))
        return asked == len(self.streams[window].asked_within(within))

    def _wrote(self, one: Generation) -> bool:
        asked = (one.rule, one.seed) in self._draws() and one.prompt == self.prompt
        return asked and one.tokens <= self.plan.generate

    def _recalled(self, one: Recall) -> bool:
        return (one.rule, one.stream_window) in self._asks() and one.stream_seed == self.plan.seeds[0]


def _check_same(before: Evaluation, now: Evaluation) -> None:
    """Raises UsageError unless the two measure the same."""
    then, subject = before.subject, now.subject
    for what, old, new in (
        ("model", _named(then), _named(subject)),
        ("dtype", then.dtype, subject.dtype),
        ("quantization", then.quant, subject.quant),
        ("text", then.text_sha256, subject.text_sha256),
        ("number of tokens", before.tokens, now.tokens),
        ("number of tokens in a point of its curves", before.bin, now.bin),
    ):
        if old != new:
            raise UsageError(
                f"The evaluation to go on with is of another {what} ({old}, not {new}); repeat its own command, or "
                "begin a new one in another file."
            )


def _named(subject: Subject) -> str:
    return subject.model if subject.revision is None else f"{subject.model} at {subject.revision}"


def _uncompared(run: Run) -> Run:
    """The run without what was said of it beside the full cache."""
    return replace(
        run,
        loss_same_positions=None,
        loss_full_same_positions=None,
        slope_over_full=None,
        slope_over_full_error=None,
        collapse_at=None,
    )
