"""A tiny engine with a real tokenizer, and a listener that holds every event to the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

import torch
from torch import nn

from sinkchat.cache.attention import NAME
from sinkchat.engine.engine import SinkEngine
from sinkchat.engine.events import (
    CacheChanged,
    CacheState,
    ChunkRead,
    Event,
    Evicted,
    Finished,
    Prefilled,
    Readmitted,
    Token,
)
from sinkchat.models.load import LoadedModel
from sinkchat.models.sampling import Sampling
from sinkchat.models.template import ChatTemplate
from tests.cache.product import facts
from tests.models.tiny import chatml_tokenizer
from tests.reference import tiny

GREEDY = Sampling(temperature=0.0, min_p=None, repetition_penalty=None)
LIVELY = Sampling(temperature=1.0, min_p=None, repetition_penalty=None, seed=7)

SINKS, WINDOW = 4, 24

tokenizer = cache(chatml_tokenizer)
template = cache(lambda: ChatTemplate(tokenizer()))


def prompt(count: int, seed: int = 0) -> list[int]:
    return tiny.random_tokens(count, seed, vocabulary=len(tokenizer()))


def model(layers: int = 2, attention: str = "eager") -> nn.Module:
    return tiny.tiny_llama(layers=layers, vocabulary=len(tokenizer()), attn_implementation=attention)


@cache
def own() -> nn.Module:
    """The same weights as `engine()` has, for the reference."""
    return model()


def engine(
    *,
    layers: int = 2,
    trained: int = 512,
    stops: Iterable[int] = (),
    sampling: Sampling = LIVELY,
    sinks: int = SINKS,
    window: int | None = WINDOW,
    chunk: int | None = 7,
    **settings: Any,
) -> SinkEngine:
    ours = model(layers, NAME)
    ours.config.max_position_embeddings = trained
    loaded = LoadedModel(ours, tokenizer(), facts(ours), LIVELY, frozenset(stops), template())
    return SinkEngine(loaded, sinks=sinks, window=window, sampling=sampling, chunk=chunk, **settings)


@dataclass
class Listener:
    """Hears an engine's events, and checks at each what must hold then."""

    engine: SinkEngine
    ids: list[int] = field(default_factory=list)
    """Tokens of the sequence, as they were sent."""
    losses: list[float | None] = field(default_factory=list)
    shares: list[float | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    evicted: list[int] = field(default_factory=list)
    """Positions, in the order of their leaving."""
    readmitted: list[int] = field(default_factory=list)
    _here: set[int] = field(default_factory=set)
    _most: int = 0

    def hear(self, events: Iterator[Event], until: Callable[[Event], bool] | None = None) -> list[Event]:
        """All events; or those up to the first that `until` is true of, and then the generator is closed."""
        heard: list[Event] = []
        for event in events:
            self._check(event)
            heard.append(event)
            if until and until(event):
                events.close()  # type: ignore[attr-defined]
                break
        return heard

    def last(self, events: Iterator[Event]) -> Any:
        return self.hear(events)[-1]

    def check(self) -> None:
        """What must hold whenever nothing runs."""
        self._settle(self.engine.state())

    def _check(self, event: Event) -> None:
        assert_plain(asdict(event))
        now = self.engine.state()
        self._arrive(now)
        if isinstance(event, Evicted):
            left = list(range(event.first, event.last + 1))
            assert event.count == len(left)
            assert self._here.issuperset(left), "what leaves was here"
            self._here -= set(left)
            self.evicted += left
        elif isinstance(event, Readmitted):
            back = set(range(event.first, event.last + 1))
            assert event.count == len(back)
            assert not back & self._here, "what comes back was gone"
            self._here |= back
            self.readmitted += sorted(back)
        elif isinstance(event, ChunkRead):
            self._said(event.ids, event.losses, event.shares, event.texts)
            assert len(event.entries) == len(event.ids)
            assert event.entries[-1] == now.kv_entries
        elif isinstance(event, Token):
            self._said((event.id,), (event.loss,), (event.sink_share,), (event.text,))
        if isinstance(event, ChunkRead | Prefilled | Token | Finished):
            assert event.cache == now
            self._settle(now)
        if isinstance(event, CacheChanged):
            assert event.after == now
            self._settle(now)

    def _said(self, ids: Sequence[int], losses: Sequence[Any], shares: Sequence[Any], texts: Sequence[str]) -> None:
        assert len(ids) == len(losses) == len(shares) == len(texts)
        self.ids += ids
        self.losses += losses
        self.shares += shares
        self.texts += texts

    def _arrive(self, now: CacheState) -> None:
        assert now.kv_entries + now.evicted_total - now.readmitted_total == now.position
        assert now.policy == "full" or now.kv_entries <= now.window
        self._here |= set(range(self._most, now.position))
        self._most = max(self._most, now.position)

    def _settle(self, now: CacheState) -> None:
        self._arrive(now)
        assert now.evicted_total == len(self.evicted), "every eviction was told"
        assert now.readmitted_total == len(self.readmitted)
        # those that a rebuild has yet to run again come back one by one
        here = {position for position in self._here if position < now.position}
        assert now.kv_entries == len(here)
        recents = [position for position in sorted(here) if position >= now.horizon]
        assert recents == list(range(now.horizon, now.position)), "the recents are the newest without a gap"
        assert now.sink_entries == len(here) - len(recents)


def assert_plain(value: Any) -> None:
    """Events are numbers, text and tuples: nothing of torch leaves the engine."""
    if isinstance(value, dict):
        for part in value.values():
            assert_plain(part)
    elif isinstance(value, list | tuple):
        for part in value:
            assert_plain(part)
    else:
        assert value is None or type(value) in (int, float, bool, str)


def close(ours: Iterable[float | None], theirs: Iterable[float | None], tolerance: float = 1e-4) -> bool:
    """Pair by pair; None only where the other is None."""
    return all(
        a is b if a is None or b is None else abs(a - b) < tolerance for a, b in zip(ours, theirs, strict=True)
    )


class Failure:
    """Raises once, in the middle of a model's next pass."""

    def __init__(self, engine: SinkEngine, layer: int = 1) -> None:
        self._armed: BaseException | None = None
        decoder: Any = engine._sequence.cache.model.model
        decoder.layers[layer].mlp.register_forward_pre_hook(self._raise)

    def next(self, error: BaseException | None) -> None:
        self._armed = error

    def _raise(self, *_: Any) -> None:
        error, self._armed = self._armed, None
        if error is not None:
            raise error


OUT_OF_MEMORY = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
