"""The proof at load that a model's queries can be turned exactly, layer by layer.

A lone token tests every layer at once: a query that sees a single key gives it weight one, so no hidden state depends
on the position, and in every layer the key and the query at position p + d must be those at p, turned on by d. A
layer whose key does not change has no rotary. A model that does neither is refused, with the layer and the reason.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from sinkchat.cache.rotary import Table, freeze_rotary
from sinkchat.errors import ModelRefused

START = 3
FAR = 1_000_003
"""Past any trained length, where a query that is scaled by its position shows it."""

TOLERANCE = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 5e-2}
"""Of a turned vector, relative to the longest of the layer; a wrong turn is off by about 1."""

Rotation = Callable[..., tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class Turn:
    """How a layer's vectors are turned: the family's own function, on some of the dimensions."""

    rotation: Rotation
    table: Table
    dimensions: slice
    """Those that turn; the function itself may leave some of them as they are."""

    def __call__(self, vectors: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """vectors: `[H, T, D]`; cos and sin of the turn, as the table lays them out. In float32, then cast back."""
        whole = vectors.float()[None]
        part = whole[..., self.dimensions]
        turned, _ = self.rotation(part, part[:, :1], cos, sin)
        if turned.shape[-1] != whole.shape[-1]:
            start, stop, _ = self.dimensions.indices(whole.shape[-1])
            turned = torch.cat((whole[..., :start], turned, whole[..., stop:]), dim=-1)
        return turned[0].to(vectors.dtype)


Turns = tuple[Turn | None, ...]
"""By layer; None: the layer has no rotary, and its queries stay as they are."""


class Attends(Protocol):
    """What the registered attention calls."""

    def attend(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, scaling: float, **extras: Any
    ) -> Tensor: ...


@dataclass
class Lone:
    """A pass of one token that sees itself alone: records what every layer's attention was given."""

    token: int
    seen: dict[int, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)
    modules: dict[int, nn.Module] = field(default_factory=dict)

    def attend(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, scaling: float, **extras: Any
    ) -> Tensor:
        layer: int = module.layer_idx  # type: ignore[assignment]
        self.seen[layer] = (query, key, value)
        self.modules[layer] = module
        return value.repeat_interleave(query.shape[0] // key.shape[0], dim=0)


@torch.inference_mode()
def prove(model: Any, length: int) -> Turns:
    """Freezes the model's rotary tables for queries that see `length` tokens, and finds how each layer turns.

    model: a causal language model of transformers, loaded with the bounded cache's attention; it keeps
    the frozen tables.
    Raises ModelRefused, in one sentence with the layer and the reason.
    """
    name = type(model).__name__
    tables = freeze_rotary(model.get_decoder(), length)
    start = _telling(model)
    if len({query.shape[0] for query, _, _ in start.seen.values()}) > 1:
        raise ModelRefused(
            f"{name} is refused: its layers differ in their number of heads, which sinkchat's figures by layer and "
            "head do not provide for; choose a model of another family."
        )
    distances = sorted({1, max(2, length - 1 - START), FAR})
    moved: list[Lone] = []
    for distance in distances:
        # nearest first: a learned position that does not exist is never asked for
        moved.append(_lone(model, start.token, START + distance))
        for layer, (_, _, value) in sorted(start.seen.items()):
            if not _same(value, moved[-1].seen[layer][2]):
                raise ModelRefused(
                    f"{name} is refused: in layer {layer} the values of a lone token change with its position, so "
                    "its positions are not rotary (learned, perhaps) and no window can slide over them; choose a "
                    "model with rotary positions."
                )
    return tuple(
        _turn_of(
            start.modules[layer],
            tables,
            distances,
            start.seen[layer][:2],
            [other.seen[layer] for other in moved],
            f"{name}, layer {layer},",
        )
        for layer in sorted(start.seen)
    )


def _telling(model: Any) -> Lone:
    """A lone token whose keys and queries are nowhere zero, as those of a padding token may be."""
    vocabulary: int = model.config.get_text_config().vocab_size
    for token in (vocabulary // 2, vocabulary // 3, 1):
        lone = _lone(model, token, START)
        if all(bool(query.any() and key.any()) for query, key, _ in lone.seen.values()):
            return lone
    raise ModelRefused(
        f"{type(model).__name__} is refused: its keys or queries are zero in a layer, so that nothing can be proved "
        "of them; the checkpoint may be damaged: fetch it again."
    )


def _lone(model: Any, token: int, position: int) -> Lone:
    """Runs one token alone at `position`."""
    lone = Lone(token)
    device = next(model.parameters()).device
    layers: int = model.config.get_text_config().num_hidden_layers
    name = type(model).__name__
    try:
        model(
            input_ids=torch.tensor([[token]], device=device),
            position_ids=torch.tensor([[position]], device=device),
            use_cache=False,
            feeding=lone,
        )
    except (TypeError, AttributeError) as error:
        raise ModelRefused(
            f"{name} is refused: its attention cannot be reached through transformers' attention interface "
            f"({error}); choose a model of another family."
        ) from error
    if sorted(lone.seen) != list(range(layers)):
        raise ModelRefused(
            f"{name} is refused: {len(lone.seen)} of its {layers} layers attend through transformers' attention "
            "interface, and the others could not be bounded; choose a model of another family."
        )
    return lone


def _turn_of(
    module: nn.Module,
    tables: Sequence[Table],
    distances: Sequence[int],
    start: tuple[Tensor, Tensor],
    moved: Sequence[tuple[Tensor, Tensor, Tensor]],
    where: str,
) -> Turn | None:
    """The one way to turn that leads from `start` (query, key) to every one of `moved`; None: nothing turns."""
    query, key = start
    if all(_same(key, k) and _same(query, q) for q, k, _ in moved):
        return None
    keys_fit = False
    for turn in _candidates(module, tables, query.shape[-1]):
        fits = [
            (_close(turn, key, k, distance), _close(turn, query, q, distance))
            for distance, (q, k, _) in zip(distances, moved, strict=True)
        ]
        if all(key_fits and query_fits for key_fits, query_fits in fits):
            return turn
        keys_fit = keys_fit or all(key_fits for key_fits, _ in fits)
    if keys_fit:
        raise ModelRefused(
            f"{where} is refused: its keys turn with the position and its queries are scaled by it besides, which a "
            "bounded cache cannot take back; choose a model of another family."
        )
    raise ModelRefused(
        f"{where} is refused: its keys turn with the position in none of the ways that sinkchat can prove, so the "
        "sinks could not be placed exactly; choose a model of another family."
    )


def _candidates(module: nn.Module, tables: Sequence[Table], width: int) -> Iterator[Turn]:
    rotation = getattr(sys.modules[type(module).__module__], "apply_rotary_pos_emb", None)
    if rotation is None:
        return
    for table in tables:
        turned = 2 * table.inv_freq.shape[0]
        places = [slice(None)] if turned == width else [slice(None), slice(0, turned), slice(width - turned, width)]
        for dimensions in places:
            yield Turn(rotation, table, dimensions)


def _close(turn: Turn, at_start: Tensor, moved: Tensor, distance: int) -> bool:
    """Whether `at_start` `[H, 1, D]`, turned on by `distance`, is `moved`."""
    cos, sin = (values.to(at_start.device) for values in turn.table.turns(torch.tensor([distance])))
    try:
        turned = turn(at_start, cos, sin)
    except (RuntimeError, TypeError, ValueError):  # the function does not take vectors of this width, or in this way
        return False
    return _same(turned, moved)


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether vectors `[H, 1, D]` differ by no more than rounding."""
    apart = (one.float() - other.float()).norm(dim=-1).max()
    return bool(apart <= TOLERANCE[one.dtype] * other.float().norm(dim=-1).max())
