"""One pass of a model over a bounded cache: the attention that transformers calls, and what it needs.

Importing this module registers the attention under NAME. It finds the pass by the keyword argument `feeding`, which
transformers hands through the model, attends over [sinks | recents | what is fed] and writes what stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from sinkchat.cache.attention import NAME, Attended, Band, Extras, attend_chunk, attend_one
from sinkchat.cache.policy import Positions
from sinkchat.cache.proof import Attends, Turns
from sinkchat.cache.ring import Ring
from sinkchat.cache.rotary import Table
from sinkchat.cache.slots import Sight, Slots, Step


class Feeding:
    """One pass of the model over the tokens of a step: what every layer's attention needs, and what it leaves.

    Index tensors are made once per pass and device, and shared by the layers.
    """

    def __init__(self, slots: Slots, rings: dict[int, Ring], turns: Turns, positions: Positions, step: Step) -> None:
        """`rings` by layer; those that are missing are added."""
        self.slots = slots
        self.rings = rings
        self.turns = turns
        self.step = step
        self.attended: dict[int, Attended] = {}
        self.sight = slots.sight(step) if step.count == 1 and not step.rerun else None
        self._watch = None if slots.keeps_sinks else slots.sinks
        self._deltas = self._sink_turns() if positions == "cache" and step.sinks else None
        self._indices: dict[torch.device, Indices] = {}

    def _sink_turns(self) -> Tensor | None:
        """`[T]`: how far each query turns back for the sinks, its place minus its index among the entries."""
        place = self.step.first + self.step.apart
        deltas = [place + i - (self.step.seen(i) - 1) for i in range(self.step.count)]
        return -torch.tensor(deltas) if any(deltas) else None

    def attend(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scaling: float,
        *,
        softcap: float | None = None,
        s_aux: Tensor | None = None,
        own_window: int | None = None,
    ) -> Tensor:
        """query `[H_q, T, D]`, key and value `[H_kv, T, D]` of the step's tokens, rotated. Returns `[H_q, T, D]`.

        softcap, s_aux `[H_q]` (learned sinks) and own_window are the layer's own.
        """
        layer: int = module.layer_idx  # type: ignore[assignment]
        ring = self.rings.get(layer)
        if ring is None:
            ring = self.rings[layer] = Ring.like(self.slots.rows, key, value)
        indices = self._indices.get(query.device)
        if indices is None:
            indices = Indices(self.slots, self.step, self.sight, self._watch, query.device)
            self._indices[query.device] = indices
        # a layer's own window binds where it is no longer than ours; then the layer sees its newest entries at their
        # true distances, and no sinks
        own = own_window if own_window is not None and own_window <= self._reach else None
        turn = self.turns[layer] if own is None else None
        turned = None
        if turn is not None and self._deltas is not None:
            turned = turn(query, *indices.turn(turn.table, self._deltas))
        extras = Extras(scaling, softcap, s_aux)
        if self.sight:
            ring.write(indices.slots, key, value)
            attended = attend_one(
                query,
                turned,
                ring.keys[:, : self.sight.high],
                ring.values[:, : self.sight.high],
                watched=indices.watched if own is None else None,
                hidden=indices.hidden(own),
                extras=extras,
            )
        else:
            attended = attend_chunk(
                query,
                turned,
                key,
                value,
                lambda a, b: ring.read(indices.order[a:b]),
                band=indices.band(own),
                extras=extras,
            )
            ring.write(indices.slots, key.index_select(1, indices.offsets), value.index_select(1, indices.offsets))
        self.attended[layer] = attended
        return attended.output

    @property
    def _reach(self) -> int:
        """Tokens that the newest query of the step could see."""
        return max(self.slots.window, self.step.seen(self.step.count - 1))

    def shares(self) -> Tensor:
        """`[T, L, H_q]` float32 on the last layer's device, NaN where a layer has no sinks."""
        return self._by_layer([self.attended[layer].share for layer in sorted(self.attended)])

    def learned(self) -> Tensor | None:
        """`[T, L, H_q]` float32, NaN where a layer has no learned sinks; None when no layer has."""
        layers = [self.attended[layer].learned for layer in sorted(self.attended)]
        return None if all(share is None for share in layers) else self._by_layer(layers)

    def _by_layer(self, layers: Sequence[Tensor | None]) -> Tensor:
        some = next(iter(self.attended.values())).output  # [H_q, T, D]
        nothing = torch.full((some.shape[1], some.shape[0]), float("nan"), device=some.device)
        return _stacked([nothing if share is None else share for share in layers])

    def weights(self) -> Tensor | None:
        """`[n]` float32, mean over layers and heads, 0 at the watched slots; None for a chunk."""
        layers = [attended.weights for attended in self.attended.values() if attended.weights is not None]
        if not layers:
            return None
        mean = _stacked(layers, dim=0).mean(0)
        return mean.index_fill_(0, self._indices[mean.device].watched, 0.0)


class Indices:
    """A step's slots, masks and turns, as tensors on one device. Does not refer to its pass: what a pass holds, the
    rings among it, is freed with the pass and not when garbage is collected."""

    def __init__(
        self, slots: Slots, step: Step, sight: Sight | None, watch: int | None, device: torch.device
    ) -> None:
        self._slots, self._step, self._sight, self._watch = slots, step, sight, watch
        self._device = device
        self._turns: dict[Table, tuple[Tensor, Tensor]] = {}
        self._hidden: dict[int | None, Tensor | None] = {}
        self._bands: dict[int | None, Band] = {}
        self.offsets = self._index([offset for offset, _ in step.writes])
        self.slots = self._index([slot for _, slot in step.writes])
        self.order = self._index(() if sight else slots.order())
        self.watched = self._index(sight.watched if sight else ())

    def turn(self, table: Table, deltas: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin by which queries are turned by `deltas` `[T]`."""
        if table not in self._turns:
            cos, sin = table.turns(deltas)
            self._turns[table] = cos.to(self._device), sin.to(self._device)
        return self._turns[table]

    def band(self, own: int | None) -> Band:
        """Who sees whom in a layer with such a window of its own."""
        if own not in self._bands:
            self._bands[own] = Band(self._step, self._watch, own, self._device)
        return self._bands[own]

    def hidden(self, own: int | None) -> Tensor | None:
        """`[n]` bool: slots that a single query does not see, for being empty or outside the layer's own window."""
        if own not in self._hidden:
            self._hidden[own] = self._hide(own)
        return self._hidden[own]

    def _hide(self, own: int | None) -> Tensor | None:
        slots, step, sight = self._slots, self._step, self._sight
        assert sight is not None
        hidden = set(sight.empty)
        if own is not None:
            oldest = slots.place(step.first) + 1 - own
            held = slots.position_at[: sight.high]
            hidden.update(
                slot
                for slot, at in enumerate(held)
                if slot != sight.slot and at is not None and slots.place(at) < oldest
            )
        if not hidden:
            return None
        mask = torch.zeros(sight.high, dtype=torch.bool)
        mask[list(hidden)] = True
        return mask.to(self._device)

    def _index(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.long).to(self._device, non_blocking=True)


def _stacked(parts: Sequence[Tensor], dim: int = 1) -> Tensor:
    """Stacked along `dim`, on the last one's device."""
    return torch.stack([part.to(parts[-1].device) for part in parts], dim=dim)


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    feeding: Attends | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """The attention that transformers calls, shapes `[1, heads, T, D]`; returns `[1, T, H_q, D]`.

    Raises TypeError when the model was run without a BoundedCache, does not pass its keyword on, or makes masks.
    """
    if feeding is None:
        raise TypeError(f"attention {NAME!r} runs inside a BoundedCache only")
    if attention_mask is not None and attention_mask.numel() != 1:
        raise TypeError("the model adds to the attention mask, which the bounded cache does without")
    out = feeding.attend(
        module,
        query[0],
        key[0],
        value[0],
        scaling,
        softcap=softcap,
        s_aux=s_aux,
        own_window=None if attention_mask is None else int(attention_mask),
    )
    return out.transpose(0, 1)[None].contiguous(), None


def mask(*_: Any, local_size: int | None = None, **__: Any) -> Tensor | None:
    """What transformers hands to each layer as its mask: no mask, since the step says who sees whom, but the length
    of the layer's own window, `[1, 1, 1, 1]` on the CPU; None for a layer without one.

    The mask is what makes a layer's window in the model's own attention; not every family passes it on otherwise.
    """
    return None if local_size is None else torch.full((1, 1, 1, 1), local_size)


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, mask)
