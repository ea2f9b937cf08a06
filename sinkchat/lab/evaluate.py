"""An evaluation from beginning to end: every rule of a plan over one text, by one loaded model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import version

import torch

from sinkchat.engine.switching import check_fits
from sinkchat.errors import CacheError, SinkchatError, UsageError
from sinkchat.lab.figures import bin_size
from sinkchat.lab.generation import generate
from sinkchat.lab.plan import DEFAULT_TOKENS, Plan
from sinkchat.lab.reading import Reading, first_token, read
from sinkchat.lab.recall.asking import recall, tokens_to_read
from sinkchat.lab.recall.stream import Stream, make_stream
from sinkchat.lab.results import Evaluation, Rule, Subject
from sinkchat.lab.source import Text, check_length
from sinkchat.lab.summary import summarize
from sinkchat.lab.work import Course, Follow, Piece
from sinkchat.models.encoding import TextEncoder
from sinkchat.models.load import LoadedModel
from sinkchat.models.memory import free_bytes, layout_of

FULL_REACH = 2
"""The full cache is read to so many times its trained length at most: far enough to show what becomes of it there."""

DECODING, RECOMPUTING = 12.0, 2.0
"""Work of a token that is drawn, and of one that is read under `recompute`, beside that of one that is read."""

PROMPT = "Tell me a long story about a lighthouse keeper and the sea. Do not stop."

FULL = Rule("full")


class Evaluator:
    """Runs what a plan asks for, and keeps what was done."""

    def __init__(
        self,
        loaded: LoadedModel,
        text: Text,
        plan: Plan,
        *,
        command: Sequence[str] = (),
        before: Evaluation | None = None,
    ) -> None:
        """command: how to repeat it. before: an evaluation to go on with, whose finished pieces are not done again.

        Raises UsageError or CacheError, in one sentence, when text, plan and model make no sense together, or
        `before` is of something else.
        """
        self._loaded = loaded
        self._plan = plan
        self._rules = plan.rules()
        windows = sorted({rule.window for rule in self._rules if rule.window is not None})
        for rule in self._rules:
            check_fits(loaded.facts, rule.policy, rule.sinks, rule.window or loaded.facts.trained_length)
        whole = (*first_token(loaded.tokenizer), *TextEncoder(loaded.tokenizer).text(text.text))
        check_length(text.name, len(whole), plan.tokens, max(windows, default=None))
        self._ids = whole[: plan.tokens or max(DEFAULT_TOKENS, 4 * max(windows, default=0))]
        self._full_reach = min(len(self._ids), FULL_REACH * loaded.facts.trained_length)
        self._check_memory()
        self._streams: dict[int, Stream] = {}
        if plan.recall:
            self._streams = {window: make_stream(loaded, text.text, window, plan.seeds[0]) for window in windows}
        self._prompt = self._prompt_ids() if plan.generate else ()
        self.failures: list[str] = []
        """What the device said where it failed; the others go on."""
        self.result = Evaluation(
            subject=_subject(loaded, text, len(whole)),
            tokens=len(self._ids),
            bin=bin_size(len(self._ids)),
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            program=", ".join(f"{name} {version(name)}" for name in ("sinkchat", "torch", "transformers")),
            command=tuple(command),
            complete=False,
        )
        if before is not None:
            _check_same(before, self.result)
            self.result = replace(
                self.result,
                runs=tuple(run for run in before.runs if run.rule in self._rules),
                generation=before.generation,
                recall=before.recall,
            )

    def run(self, follow: Follow) -> Iterator[Evaluation]:
        """Yields all that is known after each piece. Ends early when `follow` says so: then `complete` is False, and
        what was done is in the result."""
        reads = [rule for rule in self._rules if not self._was_read(rule)]
        again = FULL in self._rules and FULL not in reads and bool(reads)
        drawn = [
            (rule, seed) for rule in self._telling() for seed in self._seeds() if not self._was_drawn(rule, seed)
        ]
        asked = [(rule, window) for rule, window in self._to_ask() if not self._was_asked(rule, window)]
        pieces = [self._piece(FULL, "the full cache once more, to compare with")] if again else []
        pieces += [self._piece(rule, rule.name) for rule in reads]
        # what is written is read again under the full cache
        fed = 2 * (len(self._prompt) + self._plan.generate)
        pieces += [Piece(f"{rule.name}, writing, seed {seed}", fed, DECODING / 2) for rule, seed in drawn]
        pieces += [Piece(f"{rule.name}, recall", self._tokens_to_ask(rule, w), _cost(rule)) for rule, w in asked]
        course = Course(pieces, follow)
        control: Reading | None = None
        if again and course.next():
            control = read(self._loaded, FULL, self._ids[: self._full_reach], course)
        for rule in reads:
            if course.next():
                control = self._read(rule, control, course)
                yield self.result
        for rule, seed in drawn:
            if course.next():
                self._draw(rule, seed, course)
                yield self.result
        for rule, window in asked:
            if course.next():
                self._ask(rule, window, course)
                yield self.result
        self.result = replace(self.result, complete=not course.ended and not self.failures)
        yield self.result

    # The pieces

    def _read(self, rule: Rule, control: Reading | None, course: Course) -> Reading | None:
        """Keeps the run; returns what the next ones are compared with."""
        count = self._full_reach if rule == FULL else len(self._ids)
        try:
            reading = read(self._loaded, rule, self._ids[:count], course)
        except torch.OutOfMemoryError:
            self.failures.append(f"{rule.name}: the memory of {self._loaded.facts.device} does not hold its cache")
            return control
        if reading.error:
            self.failures.append(f"{rule.name}: {reading.error}")
        trained = self.result.subject.trained_length
        run = summarize(reading, control, trained, self.result.bin, per_token=self._plan.per_token)
        runs = {kept.rule: kept for kept in self.result.runs} | {rule: run}
        self.result = replace(self.result, runs=tuple(runs[each] for each in self._rules if each in runs))
        return reading if rule == FULL else control

    def _draw(self, rule: Rule, seed: int, course: Course) -> None:
        try:
            new = generate(self._loaded, rule, self._prompt, self._plan.generate, seed, course)
        except (SinkchatError, torch.OutOfMemoryError) as error:
            self.failures.append(f"{rule.name}, writing: {error}")
            return
        kept = [old for old in self.result.generation if (old.rule, old.seed) != (rule, seed)]
        self.result = replace(self.result, generation=(*kept, new))

    def _ask(self, rule: Rule, window: int, course: Course) -> None:
        try:
            new = recall(self._loaded, rule, self._streams[window], course)
        except (SinkchatError, torch.OutOfMemoryError) as error:
            self.failures.append(f"{rule.name}, recall: {error}")
            return
        kept = [old for old in self.result.recall if (old.rule, old.stream_window) != (rule, window)]
        self.result = replace(self.result, recall=(*kept, *new))

    # What there is to do, and what was done

    def _piece(self, rule: Rule, name: str) -> Piece:
        return Piece(name, self._full_reach if rule == FULL else len(self._ids), _cost(rule))

    def _telling(self) -> list[Rule]:
        """Of rules that differ by degrees alone, one: of several numbers of sinks 4, or the most."""
        plain = [rule for rule in self._rules if rule.sink_tokens == "text" and not rule.start_position]
        counts = {rule.sinks for rule in plain if rule.policy == "sinks"}
        count = 4 if 4 in counts else max(counts, default=0)
        return [rule for rule in plain if rule.policy != "sinks" or rule.sinks == count]

    def _seeds(self) -> Sequence[int]:
        return self._plan.seeds if self._plan.generate else ()

    def _to_ask(self) -> list[tuple[Rule, int]]:
        """A bounded rule is asked over the stream of its window, the full cache over all of them."""
        return [
            (rule, window) for rule in self._telling() for window in self._streams if rule.window in (None, window)
        ]

    def _tokens_to_ask(self, rule: Rule, window: int) -> int:
        return tokens_to_read(self._loaded, rule, self._streams[window])

    def _was_read(self, rule: Rule) -> bool:
        return any(
            run.rule == rule and run.complete and (run.losses is not None or not self._plan.per_token)
            for run in self.result.runs
        )

    def _was_drawn(self, rule: Rule, seed: int) -> bool:
        return any(
            old.rule == rule and old.seed == seed and old.tokens == self._plan.generate
            for old in self.result.generation
        )

    def _was_asked(self, rule: Rule, window: int) -> bool:
        stream = self._streams[window]
        within = self._loaded.facts.trained_length if rule == FULL else None
        asked = sum(old.asked for old in self.result.recall if (old.rule, old.stream_window) == (rule, window))
        return asked == len(stream.asked_within(within))

    # What it begins with

    def _prompt_ids(self) -> tuple[int, ...]:
        template = self._loaded.template
        opening, _ = template.opening(None)
        words = template.encode(self._plan.prompt or PROMPT, after=opening)
        return (*opening, *words, *template.ask())

    def _check_memory(self) -> None:
        """The full cache grows, and is laid out anew as it does; better told now than in an hour."""
        if FULL not in self._rules:
            return
        facts = self._loaded.facts
        model = self._loaded.model
        size = layout_of(model.config, facts.name).bytes(self._full_reach, model.dtype.itemsize)
        free = free_bytes(facts.device)
        if free is not None and 2 * size > free:
            raise CacheError(
                f"The full cache of {self._full_reach:,} tokens needs up to {2 * size / 1e9:.1f} GB while it grows, "
                f"and {free / 1e9:.1f} GB are free; leave full out of --policies, or give fewer --tokens."
            )


def _cost(rule: Rule) -> float:
    return RECOMPUTING if rule.policy == "recompute" else 1.0


def _subject(loaded: LoadedModel, text: Text, tokens: int) -> Subject:
    facts = loaded.facts
    return Subject(
        model=facts.name,
        revision=facts.revision,
        family=facts.family,
        layers=facts.layers,
        heads=facts.heads,
        trained_length=facts.trained_length,
        dtype=facts.dtype,
        quant=facts.quant,
        device=facts.device,
        text_name=text.name,
        text_sha256=text.sha256,
        text_tokens=tokens,
    )


def _check_same(before: Evaluation, now: Evaluation) -> None:
    """Raises UsageError unless the two measure the same."""
    then, subject = before.subject, now.subject
    for what, old, new in (
        ("model", (then.model, then.revision), (subject.model, subject.revision)),
        ("dtype", then.dtype, subject.dtype),
        ("quantization", then.quant, subject.quant),
        ("text", then.text_sha256, subject.text_sha256),
        ("number of tokens", before.tokens, now.tokens),
    ):
        if old != new:
            raise UsageError(
                f"The evaluation to go on with is of another {what} ({old}, not {new}); repeat its own command, or "
                "begin a new one in another file."
            )
