"""How many bytes a model's weights really hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn


def weight_bytes(model: nn.Module) -> int:
    """Bytes of all parameters, buffers and quantization scales, shared ones once.

    On a CPU, bitsandbytes lays 4-bit weights out anew when a layer is first used, and its scales change size: each
    such layer is used here once, on zeros, so that this is done and what is counted is what will be held.
    """
    seen: dict[tuple[str, int], int] = {}
    for module in model.modules():
        for tensor in _tensors(module):
            # Meta tensors and empty ones have no storage to tell apart.
            if tensor.numel():
                seen[str(tensor.device), tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
    return sum(seen.values())


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    if type(module).__name__ == "Linear4bit" and next(module.parameters()).device.type == "cpu":
        features: Any = module.in_features
        with torch.inference_mode():
            module(torch.zeros(1, features, dtype=torch.bfloat16))
    yield from module.parameters(recurse=False)
    yield from module.buffers(recurse=False)
    weight = getattr(module, "weight", None)
    yield from _scales(getattr(weight, "quant_state", None))
    for holder in (weight, getattr(module, "state", None)):
        for name in ("CB", "SCB"):
            scale = getattr(holder, name, None)
            if isinstance(scale, Tensor):
                yield scale


def _scales(state: Any) -> Iterator[Tensor]:
    """The tensors of a 4-bit weight's quantization state, and of the state of its own scales."""
    if state is None:
        return
    for value in vars(state).values():
        if isinstance(value, Tensor):
            yield value
    yield from _scales(getattr(state, "state2", None))
