"""What happened in a conversation besides the words: each where it happened."""

from __future__ import annotations

from dataclasses import dataclass

from sinkchat.chat.records import Opened
from sinkchat.engine.events import CacheState
from sinkchat.models.sampling import Sampling


@dataclass(frozen=True, slots=True)
class Opening:
    """A program began to write the journal: at the start, and at each resumption."""

    time: float
    message: int | None
    """The message before it."""
    record: Opened


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """Policy, positions, sinks or window changed, or the cache was rebuilt or cleared."""

    time: float
    sequence: int
    message: int | None
    """The message before it, or the one that it interrupted."""
    position: int
    """Tokens that the sequence had then; the next token is the first under the new rule."""
    before: CacheState
    after: CacheState
    cause: str
    exact: bool


@dataclass(frozen=True, slots=True)
class Eviction:
    """Entries that left the cache for one cause and in order, while one message grew."""

    sequence: int
    message: int | None
    """The message that was being read or written."""
    first: int
    last: int
    """Positions of the entries."""
    count: int
    cause: str
    at_position: int
    """Tokens that the sequence had when the first of them left."""
    until_position: int
    """And when the last left."""


@dataclass(frozen=True, slots=True)
class Readmission:
    """Entries that were gone were computed again."""

    sequence: int
    message: int | None
    first: int
    last: int
    count: int
    at_position: int


@dataclass(frozen=True, slots=True)
class SamplingChange:
    time: float
    message: int | None
    """The message before it."""
    position: int
    sampling: Sampling
