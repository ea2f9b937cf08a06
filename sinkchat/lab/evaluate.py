"""An evaluation from beginning to end: every rule of a plan over one text, by one loaded model."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import version

import torch

from sinkchat.engine.switching import check_fits
from sinkchat.errors import CacheError, SinkchatError
from sinkchat.lab.agenda import Agenda
from sinkchat.lab.figures import bin_size
from sinkchat.lab.generation import check_goes_past, generate, spelled
from sinkchat.lab.plan import DEFAULT_TOKENS, DEFAULT_WINDOWS, Plan
from sinkchat.lab.reading import Reading, first_token, read, with_sinks
from sinkchat.lab.recall.asking import recall, tokens_to_read
from sinkchat.lab.recall.stream import Stream, make_stream
from sinkchat.lab.results import FULL, Evaluation, Rule, Subject
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
FULL_DOUBLES = 10_000
"""Tokens at which one of the full cache is twice the work, in the mean over all of them: each sees all before it."""

PROMPT = "Tell me a long story about a lighthouse keeper and the sea. Do not stop."


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
            with_sinks(loaded, (), rule.sinks, rule.sink_tokens)  # a tokenizer may have nothing to replace them by
        whole = (*first_token(loaded.tokenizer), *TextEncoder(loaded.tokenizer).text(text.text))
        check_length(text.name, len(whole), plan.tokens, max(windows, default=None))
        self._ids = whole[: plan.tokens or max(DEFAULT_TOKENS, DEFAULT_WINDOWS * max(windows, default=0))]
        self._full_reach = min(len(self._ids), FULL_REACH * loaded.facts.trained_length)
        self._check_memory()
        self._streams: dict[int, Stream] = {}
        if plan.recall:
            self._streams = {window: make_stream(loaded, text.text, window, plan.seeds[0]) for window in windows}
        self._prompt = self._prompt_ids() if plan.generate else ()
        if self._prompt and windows:
            check_goes_past(len(self._prompt), plan.generate, max(windows))
        trained, prompt = loaded.facts.trained_length, spelled(loaded, self._prompt)
        self._agenda = Agenda(plan, self._rules, trained, self._full_reach, prompt, self._streams)
        self.failures: list[str] = []
        """What the device said where it failed; the others go on."""
        self.result = Evaluation(
            subject=_subject(loaded, text, len(whole)),
            tokens=len(self._ids),
            bin=bin_size(len(self._ids)),
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            program=_program(),
            command=tuple(command),
            complete=False,
        )
        if before is not None:
            self.result = self._agenda.gone_on_with(before, self.result)

    def run(self, follow: Follow) -> Iterator[Evaluation]:
        """Yields all that is known after each piece. Ends early when `follow` says so: then `complete` is False, and
        what was done is in the result."""
        left = self._agenda.left(self.result)
        again = FULL in self._rules and FULL not in left.reads and bool(left.reads)
        pieces = [self._piece(FULL, "the full cache once more, to compare with")] if again else []
        pieces += [self._piece(rule, rule.name) for rule in left.reads]
        pieces += [self._writing(rule, seed) for rule, seed in left.draws]
        pieces += [self._asking(rule, window) for rule, window in left.asks]
        course = Course(pieces, follow)
        control: Reading | None = None
        if again and course.next():
            whole = self._reading(FULL, course)
            control = whole if whole is not None and whole.complete else None
        for rule in left.reads:
            if course.next():
                control = self._read(rule, control, course)
                yield self.result
        for rule, seed in left.draws:
            if course.next():
                self._draw(rule, seed, course)
                yield self.result
        for rule, window in left.asks:
            if course.next():
                self._ask(rule, window, course)
                yield self.result
        self.result = replace(self.result, complete=not self._agenda.left(self.result))
        yield self.result

    # The pieces

    def _read(self, rule: Rule, control: Reading | None, course: Course) -> Reading | None:
        """Keeps the run; returns what the next ones are compared with."""
        reading = self._reading(rule, course)
        if reading is None:
            return control
        trained = self.result.subject.trained_length
        run = summarize(reading, control, trained, self.result.bin, per_token=self._plan.per_token)
        runs = {kept.rule: kept for kept in self.result.runs} | {rule: run}
        self.result = replace(self.result, runs=tuple(runs[each] for each in self._rules if each in runs))
        return reading if rule == FULL else control

    def _reading(self, rule: Rule, course: Course) -> Reading | None:
        """What was read, to its end or not; None if the device failed before anything was."""
        try:
            reading = read(self._loaded, rule, self._ids[: self._reach(rule)], course)
        except (SinkchatError, torch.OutOfMemoryError) as error:
            self._failed(rule.name, error)
            return None
        if reading.error:
            self.failures.append(f"{rule.name}: {reading.error}")
        return reading

    def _draw(self, rule: Rule, seed: int, course: Course) -> None:
        try:
            new = generate(self._loaded, rule, self._prompt, self._plan.generate, seed, course)
        except (SinkchatError, torch.OutOfMemoryError) as error:
            self._failed(f"{rule.name}, writing", error)
            return
        kept = [old for old in self.result.generation if (old.rule, old.seed) != (rule, seed)]
        self.result = replace(self.result, generation=(*kept, new))

    def _ask(self, rule: Rule, window: int, course: Course) -> None:
        try:
            new = recall(self._loaded, rule, self._streams[window], course)
        except (SinkchatError, torch.OutOfMemoryError) as error:
            self._failed(f"{rule.name}, recall", error)
            return
        kept = [old for old in self.result.recall if (old.rule, old.stream_window) != (rule, window)]
        self.result = replace(self.result, recall=(*kept, *new))

    def _failed(self, what: str, error: SinkchatError | torch.OutOfMemoryError) -> None:
        memory = f"the memory of {self._loaded.facts.device} does not hold its cache"
        self.failures.append(f"{what}: {error if isinstance(error, SinkchatError) else memory}")

    # How much work it is

    def _reach(self, rule: Rule) -> int:
        """Tokens to be read under the rule."""
        return self._full_reach if rule == FULL else len(self._ids)

    def _piece(self, rule: Rule, name: str) -> Piece:
        return Piece(name, self._reach(rule), _cost(rule, self._reach(rule)))

    def _writing(self, rule: Rule, seed: int) -> Piece:
        tokens = len(self._prompt) + self._plan.generate
        again = _cost(FULL, tokens)  # what is written is read again under the full cache
        if rule == FULL:
            return Piece(f"{rule.name}, writing, seed {seed}", tokens, DECODING - 1 + again)
        return Piece(f"{rule.name}, writing, seed {seed}", 2 * tokens, (DECODING + again) / 2)

    def _asking(self, rule: Rule, window: int) -> Piece:
        tokens = tokens_to_read(self._loaded, rule, self._streams[window])
        return Piece(f"{rule.name}, recall", tokens, _cost(rule, tokens))

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


def _program() -> str:
    # Python's version too: the text that it carries differs between versions
    names = ("sinkchat", "torch", "transformers")
    return ", ".join((*(f"{name} {version(name)}" for name in names), f"Python {platform.python_version()}"))


def _cost(rule: Rule, tokens: int) -> float:
    """Of each of so many tokens that are read, beside one of a bounded cache."""
    if rule == FULL:
        return 1.0 + tokens / FULL_DOUBLES
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
