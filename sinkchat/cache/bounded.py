"""The bounded cache of one sequence: slots, rings and the attention that reads them.

A model runs as it is, without a cache of its own. Its attention calls `attention` below, which finds the cache by a
keyword argument that the model passes through, attends over [sinks | recents | what is fed] and writes what stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from sinkchat.cache.attention import NAME, Attended, attend_chunk, attend_one
from sinkchat.cache.policy import Policy, Positions, Slots, Step
from sinkchat.cache.ring import Ring
from sinkchat.cache.rotary import FrozenRotary, family_rotation
from sinkchat.errors import ModelRefused


@dataclass(frozen=True, slots=True)
class Fed:
    """What came out of feeding T tokens."""

    logits: Tensor
    """`[T, V]`, raw, in the model's dtype."""
    shares: Tensor
    """`[T, L, H_q]` float32: attention that the watched entries took, per layer and head."""
    weights: Tensor | None
    """`[n]` float32, one token only: attention of each slot that is not watched, mean over all layers and heads."""


class BoundedCache:
    """KV entries of one sequence under a policy. One thread."""

    def __init__(
        self,
        model: Any,
        rotary: FrozenRotary,
        *,
        policy: Policy = "sinks",
        positions: Positions = "cache",
        sinks: int = 4,
        window: int = 4096,
        start_position: int = 0,
    ) -> None:
        """`model` is a causal language model of transformers, loaded with NAME as its attention; `rotary` is its own,
        frozen. `start_position` is added to every position that the model sees.

        Raises CacheError when policy, sinks and window make no cache.
        """
        self.model = model
        self.rotary = rotary
        self.positions: Positions = positions
        self.slots = Slots(policy, sinks, window)
        self.start_position = start_position
        self.rings: dict[int, Ring] = {}

    @property
    def kv_bytes(self) -> int:
        """Bytes allocated for keys and values, all layers."""
        return sum(ring.nbytes for ring in self.rings.values())

    @torch.inference_mode()
    def feed(self, ids: Sequence[int], step: Step) -> Fed:
        """Runs the step's tokens through the model. Whatever is raised on the way, the bookkeeping stays true."""
        device = next(self.model.parameters()).device
        self.relayout(self.slots.rows)
        feeding = Feeding(self, step)
        place = step.first + self.start_position
        try:
            out = self.model(
                input_ids=torch.tensor([ids], device=device),
                position_ids=torch.arange(place, place + step.count, device=device)[None],
                use_cache=False,
                feeding=feeding,
            )
        except BaseException:
            self.slots.abort(step)
            raise
        self.slots.commit(step)
        return Fed(out.logits[0], feeding.shares(), feeding.weights())

    @torch.inference_mode()
    def relayout(self, rows: int, moves: Sequence[tuple[int, int]] = ()) -> None:
        """Have `rows` rows in every layer, after the `moves` (from slot, to slot).

        Raises torch.OutOfMemoryError before anything changed.
        """
        if any(ring.rows != rows or moves for ring in self.rings.values()):
            self.rings = {layer: ring.relaid(rows, moves) for layer, ring in self.rings.items()}

    def warm_up(self) -> None:
        """Allocate the buffers, by running one token and forgetting it.

        Raises ModelRefused when a layer does not attend through this cache.
        """
        self.feed([0], self.slots.plan(1))
        self.clear()
        layers: int = self.model.config.get_text_config().num_hidden_layers
        if sorted(self.rings) != list(range(layers)):
            raise ModelRefused(
                f"{type(self.model).__name__} attends in {len(self.rings)} of its {layers} layers through the "
                "bounded cache; choose a model of the llama family."
            )

    def clear(self) -> None:
        """Forget the sequence."""
        self.slots.reset()


class Feeding:
    """One pass of the model over the tokens of a step: what every layer's attention needs, and what it leaves.

    Index tensors are made once per pass and device, and shared by the layers.
    """

    def __init__(self, cache: BoundedCache, step: Step) -> None:
        self.rings = cache.rings
        self.rows = cache.slots.rows
        self.step = step
        self.attended: dict[int, Attended] = {}
        self.sight = cache.slots.sight(step) if step.count == 1 and not step.rerun else None
        self._order = () if self.sight else cache.slots.order()
        self._watch = None if cache.slots.policy == "sinks" else cache.slots.sinks
        self._turn = self._turns(cache.rotary) if cache.positions == "cache" else None
        self._places: dict[torch.device, Places] = {}

    def _turns(self, rotary: FrozenRotary) -> tuple[Tensor, Tensor] | None:
        """How far each query turns for the sinks: its position minus its index among the entries that it sees."""
        step = self.step
        if not step.sinks:
            return None
        deltas = [step.first + i - (step.seen(i) - 1) for i in range(step.count)]
        return rotary.turns(torch.tensor(deltas)) if any(deltas) else None

    def attend(self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        """query `[H_q, T, D]`, key and value `[H_kv, T, D]` of the step's tokens, rotated. Returns `[H_q, T, D]`."""
        layer: int = module.layer_idx  # type: ignore[assignment]
        ring = self.rings.get(layer)
        if ring is None:
            ring = self.rings[layer] = Ring.like(self.rows, key, value)
        places = self._places.get(query.device)
        if places is None:
            places = self._places[query.device] = self._place(query.device)
        turned = places.turned(module, query)
        if self.sight:
            ring.write(places.slots, key, value)
            attended = attend_one(
                query,
                turned,
                ring.keys[:, : self.sight.high],
                ring.values[:, : self.sight.high],
                watched=places.watched,
                hidden=places.hidden,
                scaling=scaling,
            )
        else:
            attended = attend_chunk(
                query,
                turned,
                key,
                value,
                lambda a, b: ring.read(places.order[a:b]),
                step=self.step,
                watch=self._watch,
                scaling=scaling,
            )
            ring.write(places.slots, key.index_select(1, places.offsets), value.index_select(1, places.offsets))
        self.attended[layer] = attended
        return attended.output

    def shares(self) -> Tensor:
        """`[T, L, H_q]` float32, on the last layer's device."""
        layers = [self.attended[layer].share for layer in sorted(self.attended)]
        return torch.stack([share.to(layers[-1].device) for share in layers], dim=1)

    def weights(self) -> Tensor | None:
        """`[n]` float32, mean over layers and heads, 0 at the watched slots; None for a chunk."""
        layers = [attended.weights for attended in self.attended.values() if attended.weights is not None]
        if not layers:
            return None
        device = layers[-1].device
        mean = torch.stack([weights.to(device) for weights in layers]).mean(0)
        return mean.index_fill_(0, self._places[device].watched, 0.0)

    def _place(self, device: torch.device) -> Places:
        def index(numbers: Sequence[int]) -> Tensor:
            return torch.tensor(numbers, dtype=torch.long).to(device, non_blocking=True)

        hidden = None
        if self.sight and self.sight.empty:
            hidden = torch.zeros(self.sight.high, dtype=torch.bool)
            hidden[list(self.sight.empty)] = True
            hidden = hidden.to(device)
        return Places(
            offsets=index([offset for offset, _ in self.step.writes]),
            slots=index([slot for _, slot in self.step.writes]),
            order=index(self._order),
            watched=index(self.sight.watched if self.sight else ()),
            hidden=hidden,
            turn=None if self._turn is None else (self._turn[0].to(device), self._turn[1].to(device)),
        )


@dataclass(frozen=True, slots=True)
class Places:
    """A step's slots and turns, as tensors on one device."""

    offsets: Tensor
    slots: Tensor
    order: Tensor
    watched: Tensor
    hidden: Tensor | None
    turn: tuple[Tensor, Tensor] | None

    def turned(self, module: nn.Module, query: Tensor) -> Tensor | None:
        """The queries `[H_q, T, D]` as the sinks meet them; None: as they are."""
        if self.turn is None:
            return None
        turned, _ = family_rotation(module)(query[None].float(), query[None, :1].float(), *self.turn)
        return turned[0].to(query.dtype)  # type: ignore[no-any-return]


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    feeding: Feeding | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """The attention that transformers calls, shapes `[1, heads, T, D]`; returns `[1, T, H_q, D]`.

    Raises RuntimeError when the model was run without a BoundedCache.
    """
    if feeding is None:
        raise RuntimeError(f"attention {NAME!r} runs inside a BoundedCache only")
    return feeding.attend(module, query[0], key[0], value[0], scaling).transpose(0, 1)[None], None


def _no_mask(*_: Any, **__: Any) -> None:
    """The step says who sees whom; transformers is to build no mask."""


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, _no_mask)
