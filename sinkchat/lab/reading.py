"""Reading one text under one rule, token by token as far as anybody can tell: losses, entries, shares of attention.

The text goes through the same engine as a chat's, and what it reports is kept as it is.
"""

from __future__ import annotations

import random
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sinkchat.engine.engine import SinkEngine
from sinkchat.engine.events import CacheState, ChunkRead, Finished, Heads, Prefilled
from sinkchat.errors import UsageError
from sinkchat.lab.results import HeadMap, Rule, SinkTokens
from sinkchat.models.load import LoadedModel
from sinkchat.models.sampling import Sampling

WATCHED = 4
"""How many of the oldest entries are watched where a policy keeps no sinks."""

HEAD_MAPS = 8
"""Stretches after the first eviction, of equal length, for each of which the heads' shares are told."""


Watching = Callable[[int], bool]
"""Told how many tokens were read; answers whether to go on."""


@dataclass
class Reading:
    """What was measured, position by position. The element at t is of the token at t."""

    rule: Rule
    watched: int
    """Entries that the shares are of."""
    losses: list[float | None] = field(default_factory=list)
    shares: list[float | None] = field(default_factory=list)
    """Of the query that predicted the token."""
    entries: array[int] = field(default_factory=lambda: array("l"))
    """Held once the token was fed."""
    head_maps: list[HeadMap] = field(default_factory=list)
    """The first one is of the queries before the first eviction, where there was one."""
    seconds: float = 0.0
    state: CacheState | None = None
    """At the end."""
    complete: bool = True
    error: str | None = None
    """What the device said, when it failed."""

    @property
    def first_eviction(self) -> int | None:
        """Position of the token that the first entry left for."""
        return next((at for at, held in enumerate(self.entries) if held <= at), None)


def watched_by(rule: Rule) -> int:
    """How many entries the share of attention is told of: the sinks, or the oldest ones that a window still holds."""
    if rule.policy in ("sinks", "recompute"):
        return rule.sinks
    return WATCHED if rule.window is None else min(WATCHED, rule.window - 1)


def engine_for(loaded: LoadedModel, rule: Rule, sampling: Sampling | None = None) -> SinkEngine:
    """An engine with an empty cache under the rule. Raises CacheError when it makes no cache of this model."""
    return SinkEngine(
        loaded,
        policy=rule.policy,
        positions=rule.positions,
        sinks=watched_by(rule),
        window=loaded.facts.trained_length if rule.window is None else rule.window,
        sampling=sampling,
        distance=rule.start_position,
    )


def first_token(tokenizer: Any) -> tuple[int, ...]:
    """The token that the tokenizer itself begins every text with, if it has one."""
    with_it = tokenizer("a")["input_ids"]
    bos = tokenizer.bos_token_id
    return (bos,) if bos is not None and with_it and with_it[0] == bos else ()


def with_sinks(loaded: LoadedModel, ids: Sequence[int], count: int, tokens: SinkTokens) -> list[int]:
    """The text with other tokens in place of its first `count`; the same ones each time."""
    if tokens == "text":
        return list(ids)
    tokenizer = loaded.tokenizer
    if tokens == "newlines":
        line = _line_break(tokenizer)
        if line is None:
            raise UsageError(f"The tokenizer of {loaded.facts.name} has no line break; leave out newlines.")
        return [line] * count + list(ids[count:])
    ordinary = sorted(set(range(len(tokenizer))) - set(tokenizer.all_special_ids))
    return random.Random(0).choices(ordinary, k=count) + list(ids[count:])


def _line_break(tokenizer: Any) -> int | None:
    ids: list[int] = tokenizer("\n", add_special_tokens=False).input_ids
    return ids[-1] if ids else None


def read(loaded: LoadedModel, rule: Rule, ids: Sequence[int], watching: Watching) -> Reading:
    """Read `ids` to the end, or until `watching` has enough or the device fails: then what was read is told."""
    engine = engine_for(loaded, rule)
    reading = Reading(rule, watched_by(rule))
    ids = with_sinks(loaded, ids, rule.sinks, rule.sink_tokens)
    for start, end in pairwise(_edges(rule, len(ids))):
        if not _read_piece(engine, ids[start:end], reading, watching):
            break
    reading.state = engine.state()
    reading.complete = len(reading.losses) == len(ids)
    if rule.sink_tokens != "text":  # not the text's own words: nobody's loss
        reading.losses[: rule.sinks] = [None] * min(rule.sinks, len(reading.losses))
    return reading


def _edges(rule: Rule, count: int) -> list[int]:
    """Where a piece of the text ends: so that what was seen before the first eviction stays apart."""
    if rule.window is None or rule.window + 1 >= count:
        pieces = [round(count * n / HEAD_MAPS) for n in range(HEAD_MAPS + 1)]
    else:
        first = rule.window + 1
        pieces = [0, *(first + round((count - first) * n / HEAD_MAPS) for n in range(HEAD_MAPS + 1))]
    return sorted(set(pieces))


def _read_piece(engine: SinkEngine, ids: Sequence[int], reading: Reading, watching: Watching) -> bool:
    """Whether to go on."""
    first = len(reading.losses)
    enough = False
    clock = time.perf_counter()
    for event in engine.prefill(ids):
        match event:
            case ChunkRead():
                reading.losses.extend(event.losses)
                reading.shares.extend(event.shares)
                reading.entries.extend(event.entries)
                reading.seconds += time.perf_counter() - clock
                if not enough and not watching(len(reading.losses)):
                    enough = True
                    engine.cancel()
                clock = time.perf_counter()
            case Prefilled():
                _keep_heads(reading, first, event.share_heads)
                return not enough
            case Finished():
                reading.error = event.error
                _keep_heads(reading, first, event.share_heads)
    return False


def _keep_heads(reading: Reading, first: int, shares: Heads | None) -> None:
    # the token at t was predicted by the query at t - 1
    if shares is not None and len(reading.losses) > first:
        reading.head_maps.append(HeadMap(max(0, first - 1), len(reading.losses) - 2, shares))
