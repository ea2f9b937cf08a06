"""What an evaluation measured: frozen records, free of torch. docs/evaluation.md gives the meaning of each name.

Positions count the tokens of the text from 0. Losses are in nats, teacher-forced, from the raw logits; the token at
position t was predicted by the query at t - 1, so a text's first token has none. Shares are 0..1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sinkchat.cache.policy import Policy, Positions
from sinkchat.engine.events import Heads

SinkTokens = Literal["text", "newlines", "random"]
"""What stands where the sinks are: the text's own first tokens, line breaks, or tokens drawn at random."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What is varied: how the cache is bounded. Runs with equal rules over one text are one run."""

    policy: Policy
    positions: Positions = "cache"
    sinks: int = 0
    """First tokens that are kept for good; 0 under `window` and `full`."""
    window: int | None = None
    """None under `full`."""
    start_position: int = 0
    """How much further on than by its index each token after the sinks stands, as if so many had been read there."""
    sink_tokens: SinkTokens = "text"

    @property
    def name(self) -> str:
        """`full`, `window 512, no sinks`, `4 sinks, window 512, absolute, 40,000 further on`."""
        if self.policy == "full":
            return "full"
        if self.policy == "window":
            words = [f"window {self.window:,}", "no sinks"]
        elif self.policy == "recompute":
            words = ["recompute", f"window {self.window:,}", *([f"{self.sinks:,} pinned"] if self.sinks else [])]
        else:
            words = [f"{self.sinks:,} {'sink' if self.sinks == 1 else 'sinks'}", f"window {self.window:,}"]
        if self.positions == "absolute":
            words.append("absolute")
        if self.start_position:
            words.append(f"{self.start_position:,} further on")
        if self.sink_tokens != "text":
            words.append({"newlines": "newlines as sinks", "random": "random sinks"}[self.sink_tokens])
        return ", ".join(words)


FULL = Rule("full")


@dataclass(frozen=True, slots=True)
class Point:
    """Means over a bin of tokens."""

    position: int
    """Of the bin's first token."""
    loss: float
    kv_entries: int
    """After the bin's last token, in the fullest layer."""
    evicted: int
    """Entries that had left by then."""
    sink_share: float | None
    """Mean over heads; None where nothing is watched."""


@dataclass(frozen=True, slots=True)
class HeadMap:
    """Mean share that the watched entries took of each head's attention, over the queries at `first`..`last`."""

    first: int
    last: int
    shares: Heads


@dataclass(frozen=True, slots=True)
class Run:
    """One text read under one rule."""

    rule: Rule
    complete: bool
    """False when it was interrupted: then all figures are over the tokens that were read."""
    tokens: int
    """That were read."""
    watched: int
    """How many entries the share is told of: the sinks, or the oldest that are still kept."""
    loss_mean: float | None
    loss_before: float | None
    """Over the tokens up to `first_eviction`, which no query with a cut sight predicted; of all tokens if nothing was
    evicted."""
    loss_after: float | None
    """Over the tokens past `first_eviction`; None if nothing was evicted."""
    slope_after: float | None
    """Of a straight line through the losses past `first_eviction`, in nats per 1,000 tokens."""
    slope_error: float | None
    """Its standard error."""
    loss_same_positions: float | None
    """Over the tokens past `first_eviction` that the full cache read within its trained length; None without any."""
    loss_full_same_positions: float | None
    """The full cache's, over the same tokens."""
    slope_over_full: float | None
    """As `slope_after`, of the difference to the full cache over the same tokens: the text's own ways are out."""
    slope_over_full_error: float | None
    collapse_at: int | None
    """Where the losses part from the full cache's and stay apart: the first position past `first_eviction` from
    which they lie more than COLLAPSE_NATS above them, in the mean over the next COLLAPSE_TOKENS tokens and over all
    that are compared from there on, a quarter of them or more; None if they never do, or there is no control."""
    first_eviction: int | None
    """Position of the token that the first entry left for."""
    evictions: int
    recomputed: int
    """Tokens that were run again, under `recompute`."""
    kv_entries_max: int
    kv_bytes: int
    """Allocated at the end, all layers."""
    sink_share_mean: float | None
    """Past the first eviction (in all if there was none), mean over the heads that have sinks."""
    sink_share_heads: Heads | None
    """The same, by layer and head."""
    tokens_per_second: float
    """Of the text, the tokens that were run again not counted as such: what a reader would see."""
    curve: Sequence[Point]
    head_maps: Sequence[HeadMap]
    losses: Sequence[float | None] | None = None
    """Of each token, where each was asked for."""
    shares: Sequence[float | None] | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """One free continuation of a prompt."""

    rule: Rule
    seed: int
    prompt_tokens: int
    tokens: int
    """That were drawn."""
    loop_rate: float
    """Part of the drawn tokens that continue a loop: with it the newest ones are a piece of at most 64 tokens,
    repeated at least four times, 24 tokens or more in all."""
    loop_at: int | None
    """Number of drawn tokens when the first loop was noticed."""
    distinct: Sequence[float | None]
    """Different n-grams of all n-grams of the drawn tokens, for n = 1, 2, 3, 4; None where there is none."""
    loss: float | None
    """Mean loss of the drawn tokens as the bounded model drew them."""
    loss_full: float | None
    """Of the same tokens under the full cache; None where they reach past the trained length, or reading
    them was interrupted."""
    curve: Sequence[tuple[int, float, float | None]]
    """(number of the bin's first drawn token, mean loss, mean loss under the full cache)."""
    text: str
    prompt: str = ""
    """What it goes on from, as the model read it."""


@dataclass(frozen=True, slots=True)
class Recall:
    """Facts at one distance, asked for under one rule."""

    rule: Rule
    distance: int
    """Tokens from the first token of the fact's answer to the query that is to repeat it."""
    visible: bool
    """Whether all tokens of the fact were still in the cache when it was asked for, among the sinks or after."""
    asked: int
    right: int
    """Times that the right answer was likelier than each of the others."""
    chance: float
    """What guessing would give, 0..1."""
    loss: float
    """Mean loss of the right answer's first token."""
    stream_window: int | None = None
    """Window that the stream's distances were chosen for: the rule's own but under `full`, which is asked over the
    streams of all of them."""
    stream_seed: int | None = None
    """That the stream's facts were drawn with."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What was evaluated, on what."""

    model: str
    revision: str | None
    family: str
    layers: int
    heads: int
    trained_length: int
    dtype: str
    quant: str
    device: str
    text_name: str
    text_sha256: str
    """Of its UTF-8 bytes, all of them."""
    text_tokens: int
    """Of the whole text, however many are read."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All that one command measured."""

    subject: Subject
    tokens: int
    """That each run was to read; `full` reads fewer, if that is further than it is shown."""
    bin: int
    """Tokens of a point of a curve."""
    created: str
    """When the command began; UTC, ISO 8601."""
    program: str
    """Versions of sinkchat, torch, transformers and Python."""
    command: Sequence[str]
    """How to repeat it."""
    complete: bool
    runs: Sequence[Run] = ()
    generation: Sequence[Generation] = ()
    recall: Sequence[Recall] = ()
