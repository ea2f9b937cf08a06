"""What a session's journal can say: one frozen record per thing that happened.

A conversation is nothing but its records, applied in order (`conversation.py`). A field that an older journal lacks
takes its default; one that this version does not know is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sinkchat.engine.events import CacheState, Reason
from sinkchat.models.facts import ModelFacts
from sinkchat.models.sampling import Sampling
from sinkchat.models.thinking import Part

Role = Literal["system", "user", "file", "assistant"]

HeadShares = tuple[tuple[float | None, ...], ...]
"""`[layers][heads]`, each 0..1, rounded to six decimals; None in a layer that has no sinks."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Of the whole session so far, so that a list of sessions need not read them through."""

    messages: int
    tokens: int
    """Fed in all sequences, frames included."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A program began to write this journal: the first record, and again at each resumption."""

    session: str
    program: str
    """Version of sinkchat."""
    facts: ModelFacts
    sampling: Sampling
    cache: CacheState
    """Policy, positions, sinks and window as they were set."""
    max_reply_tokens: int
    pin_system: bool
    plain: bool
    """True when the model has no chat template."""
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class SequenceBegun:
    """An empty cache: the tokens that follow have positions from 0."""

    system: str | None
    cause: Literal["start", "clear", "system"]


@dataclass(frozen=True, slots=True)
class MessageBegun:
    """Somebody speaks. Written before the engine sees a word of it."""

    message: int
    """Number of the message in the session, from 0."""
    role: Role
    text: str | None
    """As a person or file wrote it; None where the tokens say it (a reply, or a template's own system prompt)."""
    name: str | None = None
    """Of the file."""


@dataclass(frozen=True, slots=True)
class PromptPlanned:
    """What is fed next, in this order: `lead`, so many tokens of text, `tail`. The chunks that follow fill it."""

    message: int | None
    """Whose text it is; None where only frames are fed."""
    lead: tuple[int, ...]
    """Ids of the template that open the person's turn."""
    text: int
    tail: tuple[int, ...]
    """Ids of the template that close the person's turn and open the reply."""
    reply: bool
    """True when the model's reply is open once all is fed; False when the person's turn stays open."""
    system: int | None = None
    """The message whose tokens are the first `system_tokens` of `lead`."""
    system_tokens: int = 0
    read_before: int = 0
    """Tokens of the same text that earlier prompts fed, which were cut short."""
    spaced: bool = False
    """The text's tokens begin with a space of the template's."""


@dataclass(frozen=True, slots=True)
class ChunkFed:
    """Tokens of the planned prompt went in."""

    position: int
    """Of the first of them."""
    ids: tuple[int, ...]
    texts: tuple[str, ...]
    losses: tuple[float | None, ...]
    shares: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class PromptDone:
    """The whole prompt is in."""

    tokens: int
    loss: float | None
    sink_share: float | None
    share_heads: HeadShares | None
    seconds: float
    totals: Totals


@dataclass(frozen=True, slots=True)
class ReplyContinued:
    message: int


@dataclass(frozen=True, slots=True)
class TokenSaid:
    """A token of a reply. Written before it is shown."""

    message: int
    id: int
    text: str
    position: int
    loss: float
    sink_share: float | None
    kv_entries: int
    evicted_total: int
    part: Part = "answer"


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The sequence ends at `position` again: a reply is to be written anew, and the old one is no part of it."""

    message: int
    position: int


@dataclass(frozen=True, slots=True)
class EntriesEvicted:
    first: int
    last: int
    count: int
    cause: str
    position: int
    """Tokens of the sequence that had been fed when they left. With the cause `recompute`, those from `last` + 1 up
    to it run again."""


@dataclass(frozen=True, slots=True)
class EntriesReadmitted:
    first: int
    last: int
    count: int
    position: int


@dataclass(frozen=True, slots=True)
class RunAgain:
    """Tokens that are in the journal already went through the model once more: a rebuild, or a resumption."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class CacheSwitched:
    """Policy, positions, sinks or window changed, or the cache was rebuilt or cleared."""

    cause: str
    before: CacheState
    after: CacheState
    exact: bool


@dataclass(frozen=True, slots=True)
class SamplingSet:
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class LoopSeen:
    message: int
    period: int
    repeats: int


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A reply ended, or a prompt was cut short. The journal is on the disk when this is shown."""

    message: int | None
    reason: Reason
    tokens: int
    tokens_per_second: float | None
    seconds_to_first_token: float | None
    sink_share: float | None
    share_heads: HeadShares | None
    kv_entries: int
    kv_bytes: int
    evicted_total: int
    stop_id: int | None
    error: str | None
    totals: Totals


@dataclass(frozen=True, slots=True)
class Closed:
    """The program ended in order."""


@dataclass(frozen=True, slots=True)
class TornLine:
    """The program was killed in the middle of a line. What there is of it stands before this record, on its line."""

    bytes: int


Record = (
    Opened
    | SequenceBegun
    | MessageBegun
    | PromptPlanned
    | ChunkFed
    | PromptDone
    | ReplyContinued
    | TokenSaid
    | TakenBack
    | EntriesEvicted
    | EntriesReadmitted
    | RunAgain
    | CacheSwitched
    | SamplingSet
    | LoopSeen
    | RunEnded
    | Closed
    | TornLine
)

KINDS: Mapping[str, type[Record]] = {
    "opened": Opened,
    "sequence": SequenceBegun,
    "message": MessageBegun,
    "prompt": PromptPlanned,
    "chunk": ChunkFed,
    "prefilled": PromptDone,
    "continued": ReplyContinued,
    "token": TokenSaid,
    "back": TakenBack,
    "evicted": EntriesEvicted,
    "readmitted": EntriesReadmitted,
    "again": RunAgain,
    "cache": CacheSwitched,
    "sampling": SamplingSet,
    "loop": LoopSeen,
    "finished": RunEnded,
    "closed": Closed,
    "torn": TornLine,
}
"""The name of each record in a journal."""
