"""Where a model runs, in which type and in how many bits: what was asked for, or what this machine is good at."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from sinkchat.errors import ModelError, UsageError
from sinkchat.models.weights import StoredTensor

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class Placement:
    """What is in force for one model."""

    device: torch.device
    dtype: torch.dtype
    quant: str
    """`none`, `nf4` or `int8`."""


def place(
    *, device: str, dtype: str, quant: str | None, checkpoint: torch.dtype, tensors: Iterable[StoredTensor]
) -> Placement:
    """`quant` None is the machine's choice; `checkpoint` is the type of the stored weights, `tensors` are they.

    `dtype` `auto` is the checkpoint's. Only a CPU without fast bfloat16 gets float32 instead, and a GPU without it
    float16. Raises `ModelError` where the machine lacks what was asked for.
    """
    where = _device(device)
    odd = _odd_matrix(tensors) if where.type == "cpu" and _fused() else None
    fast = where.type == "cuda" or (where.type == "cpu" and _fused())
    bits = quant or ("nf4" if fast and not odd else "none")
    if bits == "nf4" and odd:
        raise ModelError(
            f"--quant nf4 cannot be had on this CPU: {odd.name} is {odd.shape[0]} by {odd.shape[1]}, "
            "and rows must come in 32s, columns in 64s; say --quant none or int8."
        )
    if bits != "none" and not _quantizes(where):
        raise UsageError(f"--quant {bits} does not run on {where.type}; say --quant none.")
    return Placement(where, _dtype(dtype, where, checkpoint), bits)


def _device(asked: str) -> torch.device:
    mps = torch.backends.mps.is_available()
    if asked == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "mps" if mps else "cpu")
    kind, _, index = asked.partition(":")
    if kind == "cuda" and (not index or index.isdecimal()):
        return _cuda(asked, int(index or 0))
    if asked == "cpu":
        return torch.device("cpu")
    if asked == "mps":
        if not mps:
            raise ModelError("This machine has no mps device that torch can use; say --device cpu or auto.")
        return torch.device("mps")
    raise UsageError(f"{asked!r} is no device; say auto, cpu, cuda, cuda:1 or mps.")


def _cuda(asked: str, index: int) -> torch.device:
    if not torch.cuda.is_available():
        without = "this torch is built without CUDA" if torch.version.cuda is None else "torch finds no GPU or driver"
        raise ModelError(
            f"--device {asked} cannot be had: {without} (torch {torch.__version__}); "
            "say --device cpu or auto, or install a torch for your GPU."
        )
    count = torch.cuda.device_count()
    if index >= count:
        raise ModelError(
            f"--device {asked} cannot be had: there are {count} CUDA devices, cuda:0 to cuda:{count - 1}."
        )
    return torch.device("cuda", index)


def _dtype(asked: str, device: torch.device, checkpoint: torch.dtype) -> torch.dtype:
    if asked != "auto":
        return _DTYPES[asked]
    if device.type == "cpu":
        # Half precision is emulated on a CPU, many times slower than float32, unless it has instructions for it.
        return torch.bfloat16 if checkpoint != torch.float32 and _cpu_has_bfloat16() else torch.float32
    if checkpoint == torch.bfloat16 and device.type == "cuda" and not torch.cuda.is_bf16_supported(False):
        return torch.float16
    return checkpoint if checkpoint in _DTYPES.values() else torch.float32


def _cpu_has_bfloat16() -> bool:
    """Whether the CPU multiplies bfloat16 in hardware: AVX512-BF16 or AMX on x86, the BF16 extension on Arm."""
    ask = getattr(torch.cpu, "get_capabilities", None)  # since torch 2.10 or so
    if ask is not None:
        has = ask()
        return any(has.get(name) for name in ("avx512_bf16", "amx_bf16", "amx_tile", "arm_bf16", "bf16"))
    return any(getattr(torch.cpu, f"_is_{name}_supported", bool)() for name in ("avx512_bf16", "amx_tile"))


def _fused() -> bool:
    """Whether bitsandbytes multiplies 4-bit weights on this CPU without unpacking them: its own question."""
    from bitsandbytes.functional import has_avx512bf16

    return bool(has_avx512bf16())


def _odd_matrix(tensors: Iterable[StoredTensor]) -> StoredTensor | None:
    """A matrix that the fused kernel cannot lay out; real models have none."""
    return next((t for t in tensors if _is_quantized(t) and (t.shape[0] % 32 or t.shape[1] % 64)), None)


def _is_quantized(tensor: StoredTensor) -> bool:
    """The matrices of the layers are quantized; embeddings, output matrix and norms keep the dtype."""
    return ".layers." in tensor.name and len(tensor.shape) == 2


def _quantizes(device: torch.device) -> bool:
    import bitsandbytes

    return device.type in bitsandbytes.supported_torch_devices


def needed_bytes(tensors: Iterable[StoredTensor], placement: Placement, *, stored: bool) -> int:
    """The least that the weights will take. `stored`: the checkpoint is quantized already, and is loaded as it is."""
    tensors = tuple(tensors)
    if stored:
        return sum(tensor.bytes for tensor in tensors)
    per_weight = {"none": placement.dtype.itemsize, "nf4": 0.5, "int8": 1}[placement.quant]
    total = 0.0
    for tensor in tensors:
        total += math.prod(tensor.shape) * (per_weight if _is_quantized(tensor) else placement.dtype.itemsize)
    return int(total)


def check_memory(needed: int, device: torch.device, name: str) -> None:
    """Refuse what cannot fit, rather than be killed by the system half way. Raises `ModelError`."""
    free = _free_bytes(device)
    if free is not None and needed > free:
        raise out_of_memory(name, device, f"its weights need {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free")


def out_of_memory(name: str, device: torch.device, reason: str) -> ModelError:
    """The error that names the ways out."""
    ways = "say --quant nf4, take a smaller model" + ("" if device.type == "cpu" else ", or say --device cpu")
    return ModelError(f"{name} does not fit into the memory of {device}: {reason}; {ways}.")


def _free_bytes(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:  # not Linux
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return 1024 * (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0))
