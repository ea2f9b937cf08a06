"""Rotary tables, frozen at load and exact at any position.

A family's own module computes its angles in float32, which is 0.06 rad off in the fastest pair at position one
million, and for some types rewrites its table as the sequence grows. Here every table is chosen once, for the length
that a query can see, and the angles are products in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sinkchat.errors import ModelRefused

Layout = Callable[[Tensor], Tensor]

LAYOUTS: dict[str, Layout] = {
    "halves": lambda angles: torch.cat((angles, angles), dim=-1),
    "interleaved": lambda angles: angles.repeat_interleave(2, dim=-1),
    "half width": lambda angles: angles,
}
"""How families lay out the angles `[..., D/2]` of their pairs over cos and sin `[..., D or D/2]`."""


@dataclass(frozen=True, eq=False)
class Table:
    """The frequencies of one kind of layer."""

    inv_freq: Tensor
    """`[D/2]` float64 on the CPU, in radians a position."""
    scaling: float
    """What the family multiplies cos and sin by (yarn, longrope)."""
    layout: Layout

    def angles(self, positions: Tensor) -> Tensor:
        """positions: `[..., T]` integers on any device. Returns `[..., T, D]` radians, float64 on the CPU."""
        # on the CPU because not every device has float64; a chunk's angles are a few thousand numbers
        return self.layout(positions.to("cpu", torch.float64)[..., None] * self.inv_freq)

    def turns(self, deltas: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin that turn vectors on by `deltas` `[T]` positions: `[1, T, D]` float32, without the scaling."""
        angles = self.angles(deltas)[None]
        return angles.cos().float(), angles.sin().float()


class FrozenRotary(nn.Module):
    """Stands in for a model's rotary module: same call, same layouts, frozen tables."""

    def __init__(self, original: nn.Module, length: int) -> None:
        """Chooses the tables that `original` uses for a sequence of `length` tokens.

        Raises ModelRefused when no known layout reproduces the module's output at small positions.
        """
        super().__init__()
        # in a tuple, so that it is no part of the model any more; some types rewrite their table when they are called
        self._original = (original,)
        self.tables: dict[str | None, Table] = {
            kind: _frozen(deepcopy(original), kind, length) for kind in _kinds(original)
        }

    def again(self, length: int) -> FrozenRotary:
        """For a sequence of another length."""
        return FrozenRotary(self._original[0], length)

    def forward(self, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> tuple[Tensor, Tensor]:
        """cos and sin as the family's attention takes them, `[1, T, D]` in the dtype and on the device of `x`."""
        table = self.tables[layer_type if layer_type in self.tables else None]
        angles = table.angles(position_ids)
        cos, sin = angles.cos() * table.scaling, angles.sin() * table.scaling
        return cos.to(x.device, x.dtype), sin.to(x.device, x.dtype)


def freeze_rotary(model: nn.Module, length: int) -> tuple[Table, ...]:
    """Replaces every rotary module of the model by a frozen one, and returns their tables; none: no rotary at all.

    length: tokens that a query can see. Raises ModelRefused for a layout that is not known.
    """
    tables: list[Table] = []
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, FrozenRotary) or list(_kinds(child)):
                frozen = child.again(length) if isinstance(child, FrozenRotary) else FrozenRotary(child, length)
                setattr(parent, name, frozen)
                tables.extend(frozen.tables.values())
    return tuple(tables)


def _kinds(module: nn.Module) -> Iterator[str | None]:
    """The kinds of layer for which a module holds a table; None where it has one for all."""
    for name, buffer in module.named_buffers(recurse=False):
        if name == "inv_freq" and buffer.dim() == 1:
            yield None
        elif name.endswith("_inv_freq") and "original" not in name:
            yield name.removesuffix("_inv_freq")


def _frozen(original: nn.Module, kind: str | None, length: int) -> Table:
    prefix = "" if kind is None else f"{kind}_"
    device = getattr(original, f"{prefix}inv_freq").device
    probe = torch.zeros(1, device=device)
    extra: dict[str, Any] = {} if kind is None else {"layer_type": kind}
    # the last position holds a table that depends on the length at the one for `length`
    positions = torch.tensor([[0, 1, 2, 7, length - 1]], device=device)
    try:
        cos, sin = (values.cpu()[:, :-1] for values in original(probe, position_ids=positions, **extra))
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise _unknown(original) from error
    inv_freq = getattr(original, f"{prefix}inv_freq").detach().to("cpu", torch.float64)
    scaling = float(getattr(original, f"{prefix}attention_scaling", 1.0))
    for layout in LAYOUTS.values():
        table = Table(inv_freq, scaling, layout)
        angles = table.angles(positions)[:, :-1]
        ours = (angles.cos() * scaling).float(), (angles.sin() * scaling).float()
        if all(a.shape == b.shape and torch.allclose(a, b, atol=1e-5) for a, b in zip((cos, sin), ours, strict=True)):
            return table
    raise _unknown(original)


def _unknown(original: nn.Module) -> ModelRefused:
    return ModelRefused(
        f"The model is refused: its {type(original).__name__} lays out angles in a way that sinkchat does not know, "
        "so that in no layer the sinks could be placed exactly; choose a model of another family."
    )
