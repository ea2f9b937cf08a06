"""The bounded cache, driven over whole sequences so that what every query gave is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from sinkchat.cache.attention import NAME
from sinkchat.cache.bounded import BoundedCache, Fed
from sinkchat.cache.proof import Turns, prove
from sinkchat.cache.slots import Step
from sinkchat.engine.events import CacheState
from sinkchat.engine.sequence import TokenSequence
from sinkchat.engine.switching import Switcher
from sinkchat.models.facts import ModelFacts
from tests.reference import eager, paper, tiny

MODELS: dict[str, dict[str, Any]] = {
    "grouped heads": {},
    "one key head, three layers, llama3": {"heads": 3, "kv_heads": 1, "head_dim": 8, "layers": 3, "rope": "llama3"},
    "a key head each, bias": {"heads": 2, "kv_heads": 2, "head_dim": 32, "attention_bias": True, "seed": 1},
    "linear, bias": {"rope": "linear", "attention_bias": True, "seed": 2},
}
"""Arguments of `tiny_llama`."""


@cache
def models(name: str) -> tuple[nn.Module, nn.Module, Turns]:
    """The same weights twice: as transformers runs them, and in the product with its frozen table."""
    product = tiny.tiny_llama(**MODELS[name], attn_implementation=NAME)
    return tiny.tiny_llama(**MODELS[name]), product, prove(product, 4096)


def facts(model: nn.Module, trained_length: int | None = None) -> ModelFacts:
    config: Any = model.config
    return ModelFacts(
        name="tiny",
        revision=None,
        family=config.model_type,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        kv_heads=getattr(config, "num_key_value_heads", config.num_attention_heads),
        trained_length=trained_length or config.max_position_embeddings,
        quant="none",
        dtype=str(model.dtype).removeprefix("torch."),
        device="cpu",
        weight_bytes=0,
    )


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


@dataclass
class Run:
    cache: Witnessed
    states: list[CacheState] = field(default_factory=list)
    """After every step and every change."""

    @property
    def logits(self) -> Tensor:
        """`[T, V]`"""
        return _stack(self.cache.logits)

    @property
    def shares(self) -> Tensor:
        """`[T, L, H]`; NaN in layers with a window of their own."""
        return _stack(self.cache.shares)

    @property
    def learned(self) -> Tensor | None:
        """`[T, L, H]`; None of a model without learned sinks."""
        return _stack(self.cache.learned) if self.cache.learned else None


def _stack(kept: dict[int, Tensor]) -> Tensor:
    return torch.stack([kept[position] for position in sorted(kept)])


def run(
    model: nn.Module,
    turns: Turns,
    tokens: Sequence[int],
    sinks: int,
    window: int,
    *,
    chunk: int,
    policy: str = "sinks",
    positions: str = "cache",
    start_position: int = 0,
    distance: int = 0,
    schedule: paper.Schedule | None = None,
    trained_length: int | None = None,
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
        distance=distance,
    )
    sequence = TokenSequence(witnessed)
    switcher = Switcher(sequence, facts(model, trained_length), chunk, lambda first, last: "")
    done = Run(witnessed)
    edges = sorted({0, len(tokens), *(schedule or {})})
    for start, end in pairwise(edges):
        for what, value in (schedule or {}).get(start, ()):
            list(switcher.change(**(dict.fromkeys(("policy", "positions", "sinks", "window")) | {what: value})))
            done.states.append(sequence.state())
        sequence.tokens.extend(tokens[start:end])
        while sequence.pending:
            list(switcher.make_room())
            sequence.feed(chunk)
            done.states.append(sequence.state())
    return done


def difference(ours: Tensor, reference: Tensor) -> float:
    """The largest, as a part of the scale of the reference."""
    return float((ours - reference).abs().max() / reference.abs().max())


def watched_share(step: paper.Step, sinks: int) -> Tensor:
    """`[L, H]`: what the reference says that the sinks take; of a policy without sinks, the oldest entries."""
    return step.share(step.sinks or sinks)


def eager_shares(own: eager.Masked, seen: eager.Visibility, sinks: int) -> Tensor:
    """`[T, L, H]`: the same, summed over a model's own attention."""
    watched = [pinned or set(sorted(row)[:sinks]) for row, pinned in zip(seen.seen, seen.sinks, strict=True)]
    return torch.stack([own.attentions[:, :, t, sorted(row)].sum(-1) for t, row in enumerate(watched)])
