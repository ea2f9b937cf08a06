"""Rotary tables, frozen at load and exact at any position.

A family's own module computes its angles in float32, which is 0.06 rad off in the fastest pair at position one
million, and for some types rewrites its table as the sequence grows. Here the table is chosen once, for the length
that a query can see, and the angles are products in float64.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
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


class FrozenRotary(nn.Module):
    """Stands in for a model's rotary module: same call, same layout, one table, float64 angles."""

    inv_freq: Tensor

    def __init__(self, original: nn.Module, length: int) -> None:
        """Chooses the table that `original` uses for a sequence of `length` tokens.

        Raises ModelRefused when no known layout reproduces the module's output at small positions.
        """
        super().__init__()
        table = original.inv_freq
        assert isinstance(table, Tensor)
        probe = torch.zeros(1, device=table.device)
        original(probe, position_ids=torch.tensor([[length - 1]], device=table.device))
        chosen = original.inv_freq
        assert isinstance(chosen, Tensor)
        self.register_buffer("inv_freq", chosen.detach().to("cpu", torch.float64), persistent=False)
        self.attention_scaling = float(getattr(original, "attention_scaling", 1.0))
        self.layout = self._find_layout(original, probe, length)

    def _find_layout(self, original: nn.Module, probe: Tensor, length: int) -> Layout:
        # the last position keeps a table that depends on the length at the one that was chosen
        positions = torch.tensor([[0, 1, 2, 7, length - 1]], device=probe.device)
        cos, sin = original(probe, position_ids=positions)
        small = slice(0, -1)
        for layout in LAYOUTS.values():
            angles = layout(self.angles(positions))
            if angles.shape == cos.shape and all(
                torch.allclose(theirs[:, small].cpu(), ours[:, small].float(), atol=1e-5)
                for theirs, ours in (
                    (cos, angles.cos() * self.attention_scaling),
                    (sin, angles.sin() * self.attention_scaling),
                )
            ):
                return layout
        raise ModelRefused(
            f"{type(original).__name__} lays out its rotary angles in a way that sinkchat does not know, so its "
            "sinks cannot be placed exactly; choose a model of another family."
        )

    def angles(self, positions: Tensor) -> Tensor:
        """positions: `[..., T]` integers on any device. Returns `[..., T, D/2]` radians, float64 on the CPU."""
        # on the CPU because not every device has float64; a chunk's angles are a few thousand numbers
        return positions.to("cpu", torch.float64)[..., None] * self.inv_freq

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin as the family's attention takes them, `[1, T, D]` in the dtype and on the device of `x`."""
        angles = self.layout(self.angles(position_ids))
        cos, sin = angles.cos() * self.attention_scaling, angles.sin() * self.attention_scaling
        return cos.to(x.device, x.dtype), sin.to(x.device, x.dtype)

    def turns(self, deltas: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin that turn a query back by `deltas` `[T]` positions: `[1, T, D]` float32, without scaling."""
        angles = self.layout(self.angles(-deltas))[None]
        return angles.cos().float(), angles.sin().float()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FrozenRotary:
        return self  # the table stays in float64 on the CPU, wherever the model goes


def freeze_rotary(model: nn.Module, length: int) -> FrozenRotary:
    """Replaces the model's one rotary module by a frozen one, and returns it.

    Raises ModelRefused for a model with none (no rotary positions) or several (a table per layer type).
    """
    found = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(getattr(child, "inv_freq", None), Tensor)
    ]
    if len(found) != 1:
        raise ModelRefused(
            f"{type(model).__name__} has {len(found)} rotary tables where sinkchat needs exactly one to place the "
            "sinks; choose a model of the llama family."
        )
    parent, name, child = found[0]
    frozen = child if isinstance(child, FrozenRotary) else FrozenRotary(child, length)
    setattr(parent, name, frozen)
    return frozen


def family_rotation(attention: nn.Module) -> Callable[..., Any]:
    """The family's own `apply_rotary_pos_emb(q, k, cos, sin)`, found beside its attention class.

    Raises ModelRefused when there is none.
    """
    rotation = getattr(sys.modules[type(attention).__module__], "apply_rotary_pos_emb", None)
    if rotation is None:
        raise ModelRefused(
            f"{type(attention).__name__} brings no rotary function by which its queries could be turned to the "
            "sinks; choose a model of another family."
        )
    return rotation  # type: ignore[no-any-return]
