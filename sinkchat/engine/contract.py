"""What the rest of the program knows of an engine and of a chat template: protocols, free of torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from sinkchat.cache.policy import Policy, Positions
from sinkchat.engine.events import CacheState, DeviceMemory, Event, Heads
from sinkchat.models.facts import ModelFacts
from sinkchat.models.sampling import Sampling


class Engine(Protocol):
    """Token ids in, events out. One sequence, one thread; only `cancel` may be called from another.

    Every generator must be run to its end or closed; after that the cache is consistent, whatever happened:
    `state().position` tokens of the sequence are in it or were evicted from it.
    A method that cannot do what is asked raises `CacheError` before anything changed.
    """

    facts: ModelFacts

    @property
    def sampling(self) -> Sampling:
        """In force, with the seed that is used."""
        ...

    def device_memory(self) -> DeviceMemory | None:
        """Of the model's device, now; None where the system does not tell. Cheap enough for once a second."""
        ...

    def state(self) -> CacheState: ...

    def prefill(self, ids: Sequence[int]) -> Iterator[Event]:
        """Feed a prompt in chunks: `ChunkRead` and `Evicted` as they happen, then `Prefilled`; or, when cancelled
        between chunks or failed, `Finished` with the number of tokens that were read."""
        ...

    def generate(self, max_tokens: int, *, ignore_stops: bool = False) -> Iterator[Event]:
        """Sample and feed tokens until a stop token, `max_tokens` or a cancel: `Token`, `Evicted`, ..., `Finished`.

        Everything that was sent as `Token` is fed when `Finished` comes. `max_tokens` 0 means no cap.
        """
        ...

    def change(
        self,
        *,
        policy: Policy | None = None,
        positions: Positions | None = None,
        sinks: int | None = None,
        window: int | None = None,
    ) -> Iterator[Event]:
        """Switch live, one thing at a time or several: `Evicted`, `Readmitted`, `Rebuilding`, then `CacheChanged`.

        When the device fails on the way, `Finished` ends it, and what is left to be done comes before the next token.
        """
        ...

    def rebuild(self) -> Iterator[Event]:
        """Run the newest tokens through the model again, over the sinks. Fails as `change` does."""
        ...

    def truncate(self, position: int) -> None:
        """Take back the tokens from `position` on, exactly. Raises CacheError when anything was evicted."""
        ...

    def clear(self) -> Iterator[Event]:
        """Forget the sequence: position 0, no entries, counters at 0."""
        ...

    def resample(self, sampling: Sampling) -> None:
        """Draw the following tokens in this way."""
        ...

    def share_heads(self) -> Heads | None:
        """The latest query's sink share, `[layers][heads]`; None where nothing is meant."""
        ...

    def cancel(self) -> None:
        """Ask the running generator to stop at the next token or chunk. Thread-safe; forgotten when none runs."""
        ...


class Template(Protocol):
    """How this model's turns are written, as token ids. A conversation is appended to, never rendered again."""

    plain: bool
    """True when the model has no chat template: the text is continued as it is, and all frames are empty."""

    @property
    def own_system(self) -> str | None:
        """The words of a system prompt that the template puts in where none is given, if they can be told."""
        ...

    def opening(self, system: str | None) -> tuple[tuple[int, ...], int]:
        """Ids from the start of a sequence up to the first text of the person, and how many of them, from the
        first, belong to the system prompt (what `--pin-system` keeps)."""
        ...

    def between(self) -> tuple[int, ...]:
        """Ids that close the model's reply and open the person's next turn."""
        ...

    def ask(self) -> tuple[int, ...]:
        """Ids that close the person's turn and open the model's reply."""
        ...

    def encode(self, text: str, *, after: Sequence[int] = ()) -> tuple[int, ...]:
        """A person's or file's text; a special token spelled out in it stays text.

        after: the ids of `opening` or `between` when the text is the first behind them. A space at the end of such a
        frame is left to the text, since most tokenizers put it into a word's first token; where there is one, the
        text's tokens begin with it.
        """
        ...
