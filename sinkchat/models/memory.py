"""Whether a model will fit, told before its weights are read, and what would fit where it does not."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from sinkchat.errors import ModelError, ModelRefused
from sinkchat.models.weights import StoredTensor

MARGIN = {"cuda": 640 << 20, "mps": 640 << 20, "cpu": 256 << 20}
"""Bytes for everything that is neither weights nor cache, while a prompt is read: the logits and hidden states of a
chunk, the blocks of attention, the libraries' own."""

COMFORTABLE = 2048
"""A window below this is proposed only after a quantization that keeps the window."""

SHORTEST = 512
"""No smaller window is proposed."""

_DEQUANTIZED = {"fp8": 2, "mxfp8": 2, "mxfp4": 4}
"""Off CUDA these are unpacked to bfloat16 while loading: times the bytes that are stored."""

_PER_WEIGHT = {"nf4": 0.5 + 1 / 64, "int8": 1.0}
"""Bytes; nf4 has a scale of one byte for each 64 weights."""

_UNTOUCHED = re.compile(r"\.experts\.|\.(gate|router)\.weight$")


@dataclass(frozen=True, slots=True)
class Layout:
    """What decides the size of a model's cache."""

    layers: int
    kv_heads: int
    key_dim: int
    value_dim: int

    def bytes(self, window: int, itemsize: int) -> int:
        """Of the keys and values of `window` entries in every layer."""
        return self.layers * window * self.kv_heads * (self.key_dim + self.value_dim) * itemsize


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to hold a model."""

    device: str
    quant: str
    dtype: torch.dtype
    window: int
    stored: bool = False
    """The checkpoint is quantized already, and `quant` is what in."""


def layout_of(config: Any, name: str) -> Layout:
    """config: that of transformers. Raises `ModelRefused` where it does not tell."""
    text = config.get_text_config()
    try:
        heads = int(text.num_attention_heads)
        width = int(getattr(text, "head_dim", None) or text.hidden_size // heads)
        return Layout(
            layers=int(text.num_hidden_layers),
            kv_heads=int(getattr(text, "num_key_value_heads", None) or heads),
            key_dim=width,
            value_dim=int(getattr(text, "v_head_dim", None) or width),
        )
    except (AttributeError, TypeError, ValueError, ArithmeticError) as error:
        raise ModelRefused(
            f"{name} is refused: its config.json does not tell how many heads and layers its cache is for ({error}); "
            "choose a model of another family."
        ) from error


def is_quantized(tensor: StoredTensor) -> bool:
    """The matrices of the layers are quantized; embeddings, output matrix, norms, and of a mixture its experts and
    what chooses among them, keep the dtype: bitsandbytes knows single matrices alone."""
    if ".layers." not in tensor.name or len(tensor.shape) != 2 or not tensor.name.endswith(".weight"):
        return False
    return not _UNTOUCHED.search(tensor.name)


def weight_need(tensors: Iterable[StoredTensor], plan: Plan) -> int:
    """The least that the weights will take, in bytes."""
    tensors = tuple(tensors)
    if plan.stored:
        times = 1 if plan.device.startswith("cuda") else _DEQUANTIZED.get(plan.quant, 1)
        return times * sum(tensor.bytes for tensor in tensors)
    per_weight = _PER_WEIGHT.get(plan.quant, plan.dtype.itemsize)
    total = 0.0
    for tensor in tensors:
        total += math.prod(tensor.shape) * (per_weight if is_quantized(tensor) else plan.dtype.itemsize)
    return int(total)


def need(tensors: Sequence[StoredTensor], layout: Layout, plan: Plan) -> int:
    """Weights, cache and margin, in bytes."""
    kind = plan.device.partition(":")[0]
    return weight_need(tensors, plan) + layout.bytes(plan.window, plan.dtype.itemsize) + MARGIN.get(kind, 0)


def check_memory(
    tensors: Sequence[StoredTensor],
    layout: Layout,
    plan: Plan,
    name: str,
    *,
    free: Callable[[str], int | None] | None = None,
    possible: Sequence[str] = ("nf4", "int8"),
) -> None:
    """Refuse what cannot fit, rather than be killed by the system half way; name what would, if anything does.

    `free` tells the free bytes of a device, None where nobody knows; `possible` are the quantizations that this
    machine and this model can have. Raises `ModelError`.
    """
    free = free or free_bytes
    there = free(plan.device)
    if there is None or need(tensors, layout, plan) <= there:
        return
    weights, cache = weight_need(tensors, plan), layout.bytes(plan.window, plan.dtype.itemsize)
    reason = (
        f"its weights need {_gigabytes(weights)}, a window of {plan.window:,} needs {_gigabytes(cache)}, "
        f"and {_gigabytes(there)} are free"
    )
    fits = [
        flags
        for flags, other in _others(plan, possible)
        if (room := free(other.device)) is not None and need(tensors, layout, other) <= room
    ]
    raise does_not_fit(name, plan.device, reason, " or ".join(_different(fits)))


def _different(fits: list[str]) -> list[str]:
    """The best way, and the best that turns another knob."""
    best = fits[:1]
    return best + [way for way in fits[1:] if way.split()[0] != best[0].split()[0]][:1]


def does_not_fit(name: str, device: str, reason: str, way: str = "") -> ModelError:
    """`way`: flags that make it fit; empty where none does."""
    way = f"say {way}" if way else "take a smaller model, or close other programs"
    return ModelError(f"{name} does not fit into the memory of {device}: {reason}; {way}.")


def _others(plan: Plan, possible: Sequence[str]) -> Iterator[tuple[str, Plan]]:
    """Other ways to hold the model, the least loss first, as flags and as plans."""
    windows = [window for power in range(40, 0, -1) if SHORTEST <= (window := 1 << power) < plan.window]
    smaller = {"none": ("nf4", "int8"), "int8": ("nf4",)}.get(plan.quant, ())
    quants = [quant for quant in smaller if quant in possible and not plan.stored]
    tight = [window for window in windows if window < COMFORTABLE]
    for window in windows[: len(windows) - len(tight)]:
        yield f"--window {window}", replace(plan, window=window)
    for quant in quants:
        yield f"--quant {quant}", replace(plan, quant=quant)
    for window in tight:
        yield f"--window {window}", replace(plan, window=window)
    for window in windows:
        for quant in quants:
            yield f"--quant {quant} --window {window}", replace(plan, quant=quant, window=window)
    if not plan.device.startswith("cpu"):
        yield "--device cpu", replace(plan, device="cpu")


def free_bytes(device: str) -> int | None:
    """Free bytes of `cpu`, `mps`, `cuda:1`, or of all GPUs together for `cuda:*`; None where nobody knows."""
    if device == "cuda:*":
        return sum(torch.cuda.mem_get_info(index)[0] for index in range(torch.cuda.device_count()))
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(device)[0])
    if device == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:  # not Linux
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    kilobytes: Mapping[str, int] = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return 1024 * (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0))


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"
