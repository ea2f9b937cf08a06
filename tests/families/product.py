"""The product over a tiny model of a family: proved at load, then driven over a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from sinkchat.cache.attention import NAME
from sinkchat.cache.bounded import BoundedCache, Fed
from sinkchat.cache.proof import Turns, prove
from sinkchat.cache.slots import Step
from sinkchat.engine.sequence import TokenSequence
from sinkchat.engine.switching import Switcher
from sinkchat.models.facts import ModelFacts
from tests.families.families import LONG
from tests.families.models import tiny
from tests.reference.paper import Schedule


class Witnessed(BoundedCache):
    """Keeps what came of every token of the sequence, by its position."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.logits: dict[int, Tensor] = {}  # [V]
        self.shares: dict[int, Tensor] = {}  # [L, H]
        self.learned: dict[int, Tensor] = {}  # [L, H]

    def feed(self, ids: Sequence[int], step: Step) -> Fed:
        fed = super().feed(ids, step)
        if not step.rerun:
            positions = range(step.first, step.first + step.count)
            self.logits |= zip(positions, fed.logits, strict=True)
            self.shares |= zip(positions, fed.shares, strict=True)
            if fed.learned is not None:
                self.learned |= zip(positions, fed.learned, strict=True)
        return fed


@dataclass(frozen=True)
class Run:
    logits: Tensor  # [T, V]
    shares: Tensor  # [T, L, H]; NaN in layers with a window of their own
    learned: Tensor | None  # [T, L, H]


def proved(model: nn.Module, window: int, sinks: int = 4) -> Turns:
    """All that loading asks of a model before a person may chat with it. Raises ModelRefused."""
    turns = prove(model, window)
    BoundedCache(model, turns, sinks=sinks, window=window).warm_up()
    return turns


@cache
def ready(family: str, rope: str, window: int) -> tuple[nn.Module, Turns]:
    model = tiny(family, rope, attn_implementation=NAME)
    return model, proved(model, window)


def run(
    model: nn.Module,
    turns: Turns,
    tokens: Sequence[int],
    sinks: int,
    window: int,
    *,
    chunk: int,
    policy: Any = "sinks",
    positions: Any = "cache",
    schedule: Schedule | None = None,
    start_position: int = 0,
) -> Run:
    """Feed the tokens in chunks, with the live changes of the schedule between them, as the engine makes them."""
    witnessed = Witnessed(
        model,
        turns,
        policy=policy,
        positions=positions,
        sinks=sinks,
        window=window,
        start_position=start_position,
    )
    sequence = TokenSequence(witnessed)
    switcher = Switcher(sequence, facts(model), chunk, lambda first, last: "")
    for start, end in pairwise(sorted({0, len(tokens), *(schedule or {})})):
        for what, value in (schedule or {}).get(start, ()):
            changes: dict[str, Any] = dict.fromkeys(("policy", "positions", "sinks", "window"))
            for _ in switcher.change(**changes | {what: value}):
                pass
        sequence.tokens.extend(tokens[start:end])
        while sequence.pending:
            sequence.feed(chunk)
    return Run(*(_stack(kept) for kept in (witnessed.logits, witnessed.shares)), _stack(witnessed.learned))


def _stack(kept: dict[int, Tensor]) -> Any:
    return torch.stack([kept[position] for position in sorted(kept)]) if kept else None


def facts(model: Any) -> ModelFacts:
    config = model.config
    return ModelFacts(
        name="tiny",
        revision=None,
        family=config.model_type,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        kv_heads=getattr(config, "num_key_value_heads", config.num_attention_heads),
        trained_length=LONG,
        quant="none",
        dtype="float32",
        device="cpu",
        weight_bytes=0,
    )
