"""What the engine says: small frozen records, free of torch.

The meaning of each name is fixed in docs/architecture.md, "Contracts". All positions count tokens of the whole
sequence from 0; all losses are in nats, from the raw logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sinkchat.cache.policy import Policy, Positions
from sinkchat.models.thinking import Part

Reason = Literal["stop", "length", "cancelled", "error"]

Heads = Sequence[Sequence[float | None]]
"""Attention share per layer and query head, `[layers][heads]`, each 0..1; None in a layer that keeps a window of its
own and has no sinks."""


@dataclass(frozen=True, slots=True)
class CacheState:
    """The bounded cache at one moment. `kv_entries + evicted_total - readmitted_total == position`, always."""

    policy: Policy
    positions: Positions
    sinks: int
    """S as set, whether or not the policy keeps them."""
    window: int
    """W as set: the most entries a layer may hold, sinks included. Not a bound under `full`."""
    position: int
    """Tokens of the sequence that were fed so far; the next token's position."""
    kv_entries: int
    """Entries held, in the fullest layer."""
    sink_entries: int
    """How many of them are sinks."""
    kv_bytes: int
    """Bytes allocated for keys and values, all layers."""
    evicted_total: int
    readmitted_total: int
    horizon: int
    """Position of the oldest entry that the model can still see, sinks aside; equals `position` if there is none."""
    recomputed_total: int = 0
    """Tokens that the policy `recompute` ran again, each time that it did: what its way of forgetting costs."""


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes. `used` is this process's part: its tensors on a GPU, its resident memory on a CPU."""

    used: int
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class StrongHead:
    """The head that gives most of its attention to the watched entries."""

    layer: int
    head: int
    share: float


@dataclass(frozen=True, slots=True)
class StrongEntry:
    """The entry outside the watched ones that takes most attention, mean over all heads."""

    position: int
    text: str
    share: float


@dataclass(frozen=True, slots=True)
class ChunkRead:
    """A chunk of a prompt was fed. Sent once per chunk, in order."""

    done: int
    """Tokens of this prompt fed so far, this chunk included."""
    total: int
    ids: tuple[int, ...]
    texts: tuple[str, ...]
    """What each token adds to the text; joined, they are the text that was read."""
    losses: tuple[float | None, ...]
    """Loss of each token; None for the first token of a sequence."""
    shares: tuple[float | None, ...]
    """Share of attention that the sinks take, of the query that predicted each token, mean over the heads; None for
    the first token of a sequence and where nothing is meant."""
    cache: CacheState
    """After the chunk."""
    entries: tuple[int, ...] = ()
    """KV entries that were held once each token was fed: those that its query saw, its own included."""


@dataclass(frozen=True, slots=True)
class Prefilled:
    """A whole prompt was fed. Once per prompt, when done."""

    tokens: int
    loss: float | None
    """Mean over the prompt's tokens that have one."""
    sink_share: float | None
    share_heads: Heads | None
    """Mean over the prompt's tokens."""
    seconds: float
    cache: CacheState


@dataclass(frozen=True, slots=True)
class Token:
    """A token was sampled. Everything here speaks of the moment before it is fed."""

    id: int
    text: str
    """What this token adds to the text; empty while a character is incomplete, and for what marks its parts."""
    loss: float
    sink_share: float | None
    """Share of the query that predicted this token; mean over the heads of the layers that have sinks."""
    strong_head: StrongHead | None
    strong_entry: StrongEntry | None
    cache: CacheState
    """`cache.position` is the position that this token will take."""
    part: Part = "answer"
    """Whether the model thinks or answers."""
    learned_share: float | None = None
    """Share that learned sinks took, which are no entries; mean over the heads of the layers that have them, None
    where the model has none."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """Entries left the cache, by age: positions `first`..`last`, `count` of them."""

    first: int
    last: int
    count: int
    text: str
    """The text of the evicted tokens."""
    cause: Literal["token", "policy", "window", "sinks", "rebuild", "recompute"]


@dataclass(frozen=True, slots=True)
class Readmitted:
    """Entries that were gone were computed again: positions `first`..`last`, `count` of them."""

    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """Progress of a rebuild, a replay or a recomputation: tokens run again so far."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class CacheChanged:
    """Policy, positions, sinks or window changed, or the cache was rebuilt. Sent last, after the evictions."""

    cause: Literal["policy", "positions", "sinks", "window", "rebuild", "clear"]
    before: CacheState
    after: CacheState
    exact: bool
    """False when recomputed entries differ from those of an uninterrupted run (deeper layers saw tokens now gone)."""


@dataclass(frozen=True, slots=True)
class Looping:
    """The last `period * repeats` tokens are one piece of `period` tokens, repeated. Once per reply."""

    period: int
    repeats: int


@dataclass(frozen=True, slots=True)
class Finished:
    """A reply ended, or a prompt was cut short. Always the last event of its run."""

    reason: Reason
    tokens: int
    """Tokens of the reply; for a prompt that was cancelled, the tokens that were read."""
    tokens_per_second: float | None
    """Decode rate over the reply's tokens after the first; None if there are fewer than two."""
    seconds_to_first_token: float | None
    """From the start of `generate` to the first token."""
    sink_share: float | None
    share_heads: Heads | None
    """Mean over the reply's tokens."""
    cache: CacheState
    stop_id: int | None = None
    """The stop token that was sampled; it is never fed."""
    error: str | None = None


Event = ChunkRead | Prefilled | Token | Evicted | Readmitted | Rebuilding | CacheChanged | Looping | Finished
