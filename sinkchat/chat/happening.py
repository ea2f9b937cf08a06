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
    """Entries that left the cache for one cause and in order, while one message grew. Under the policy `recompute`
    each time that the window was full is one of its own, but for those while a resumed session was read again."""

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
    run_again: int = 0
    """Tokens that ran through the model again because of it, as they do under the policy `recompute`."""


Upheaval = PolicyChange | Eviction
"""What is worth a line where it happened; an eviction is, where the window was full under `recompute`."""


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
