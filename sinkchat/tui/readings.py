"""The figures that the panel shows, gathered from the engine's events and from nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp

from sinkchat.engine.events import (
    CacheChanged,
    CacheState,
    ChunkRead,
    DeviceMemory,
    Event,
    Evicted,
    Finished,
    Prefilled,
    Rebuilding,
    StrongEntry,
    StrongHead,
    Token,
)
from sinkchat.models.facts import ModelFacts
from sinkchat.tui.series import Series

MEAN_OF = 128
"""Tokens that a running mean of the loss is taken over."""

EVICTED_TEXT = 200
"""Characters kept of what was evicted."""

READ, WROTE = "read", "wrote"


@dataclass(frozen=True, slots=True)
class RunningMean:
    """Mean loss of the newest `tokens` of one kind, in nats; None while there are none."""

    mean: float | None
    tokens: int

    @property
    def perplexity(self) -> float | None:
        return None if self.mean is None else exp(min(self.mean, 700.0))


@dataclass
class Readings:
    """Fed with every event, in order, with the second at which it came."""

    facts: ModelFacts | None = None
    cache: CacheState | None = None
    memory: DeviceMemory | None = None
    evicted_text: str | None = None
    """The end of the text of the latest entries that left without a gap between them."""
    evicted_last: int | None = None
    """Position of the last of them."""
    recomputed_last: int | None = None
    """Tokens that ran again when the window was last full under `recompute`."""
    share: float | None = None
    """Of the newest token that says anything of it."""
    strong_head: StrongHead | None = None
    strong_entry: StrongEntry | None = None
    learned_share: float | None = None
    """What learned sinks took of the latest query; None for a model that has none."""
    loss: float | None = None
    """Of the newest token."""
    reply_tokens: int = 0
    """Of the reply that is being written, or was last."""
    tokens_per_second: float | None = None
    """Of the reply that is being written, after its first token so far; of the last one, as the engine gave it."""
    seconds_to_first_token: float | None = None
    """Of the last reply, from the start of its prompt: by the screen's clock while it is written, then as the engine
    gave it."""
    losses: Series = field(default_factory=Series)
    shares: Series = field(default_factory=Series)
    head_shares: Series = field(default_factory=Series)
    _leaving: list[Evicted] = field(default_factory=list)
    """Told, and not yet counted in `cache`."""
    _first_at: float = 0.0
    _reading: float = 0.0
    _read_at: float | None = None
    _first_known: bool = False
    _halved: bool = False
    """The older half of the window left, and the newer has not begun to run again."""

    def opened(self, facts: ModelFacts, cache: CacheState) -> None:
        self.facts, self.cache = facts, cache

    def reply_begins(self, *, goes_on: bool) -> None:
        """`goes_on`: more of the last reply, whose first token came long ago."""
        self.reply_tokens = 0
        self.tokens_per_second = None
        self._first_known = goes_on
        if not goes_on:
            self._reading, self._read_at = 0.0, None
            self.seconds_to_first_token = None

    def take(self, event: Event, at: float) -> None:
        """`at`: seconds of a clock that only goes forward."""
        if isinstance(event, Token | ChunkRead | CacheChanged | Prefilled | Finished):
            for gone in self._leaving:
                self._evicted(gone)
            self._leaving.clear()
        if isinstance(event, Token):
            self._token(event, at)
        elif isinstance(event, ChunkRead):
            self._chunk(event)
        elif isinstance(event, Evicted):
            # Shown with the next event that brings the whole state, so that text and counts are of one moment.
            self._leaving.append(event)
            self._halved = event.cause == "recompute"
        elif isinstance(event, Rebuilding):
            self.recomputed_last = event.total if self._halved else self.recomputed_last
            self._halved = False
        elif isinstance(event, CacheChanged):
            self._changed(event)
        elif isinstance(event, Prefilled):
            self.cache = event.cache
            self._reading, self._read_at = event.seconds, at
        elif isinstance(event, Finished):
            self.cache = event.cache
            if event.seconds_to_first_token is not None:  # else it ended a reading, and says nothing of a reply
                self.tokens_per_second = event.tokens_per_second
                if not self._first_known:
                    self._first_known = True
                    self.seconds_to_first_token = self._reading + event.seconds_to_first_token

    def mean_loss(self, kind: str) -> RunningMean:
        return RunningMean(*self.losses.mean(MEAN_OF, kind))

    def _token(self, event: Token, at: float) -> None:
        self.cache = event.cache
        self.loss, self.share = event.loss, event.sink_share
        self.strong_head, self.strong_entry = event.strong_head, event.strong_entry
        self.learned_share = event.learned_share
        self.losses.add(event.loss, WROTE)
        self.shares.add(event.sink_share)
        self.head_shares.add(event.strong_head.share if event.strong_head else None)
        if self.reply_tokens == 0:
            self._first_at = at
            if self._read_at is not None and not self._first_known:
                self.seconds_to_first_token = self._reading + at - self._read_at
        elif at > self._first_at:
            self.tokens_per_second = self.reply_tokens / (at - self._first_at)
        self.reply_tokens += 1

    def _chunk(self, event: ChunkRead) -> None:
        self.cache = event.cache
        for loss, share in zip(event.losses, event.shares, strict=True):
            self.losses.add(loss, READ)
            self.shares.add(share)
            self.head_shares.add(None)
        self.loss, self.share = event.losses[-1], event.shares[-1]
        self.strong_head = self.strong_entry = self.learned_share = None

    def _evicted(self, event: Evicted) -> None:
        goes_on = self.evicted_last is not None and event.first == self.evicted_last + 1
        before = self.evicted_text if goes_on and self.evicted_text else ""
        self.evicted_text = (before + event.text)[-EVICTED_TEXT:]
        self.evicted_last = event.last

    def _changed(self, event: CacheChanged) -> None:
        self.cache = event.after
        if event.cause == "clear":
            self.evicted_text = self.evicted_last = self.recomputed_last = None
            self.share = self.loss = self.strong_head = self.strong_entry = self.learned_share = None
        name = change_name(event)
        for series in (self.losses, self.shares, self.head_shares):
            series.mark(name)


def change_name(event: CacheChanged) -> str:
    """What changed, in a word or two, for the mark in a chart."""
    after = event.after
    if event.cause == "policy":
        return after.policy
    if event.cause == "positions":
        return after.positions
    if event.cause == "window":
        return f"window {after.window:,}"
    if event.cause == "sinks":
        return f"{after.sinks:,} sinks"
    return event.cause
