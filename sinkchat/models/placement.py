"""Where a model runs, in which type and in how many bits: what was asked for, or what this machine is good at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from sinkchat.errors import ModelError, UsageError
from sinkchat.models.memory import is_quantized
from sinkchat.models.quantized import BITSANDBYTES
from sinkchat.models.weights import StoredTensor

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

LARGE = 1 << 30
"""Bytes of a checkpoint above which `auto` takes nf4 on a CPU that has the fused kernel.

Quantizing costs quality and time, and pays only where memory traffic is what decoding waits for: SmolLM2-135M in nf4
has a perplexity of 15.1 instead of 12.0 and loads in 9 s instead of 0.8 s. Large models lose far less by it."""


@dataclass(frozen=True, slots=True)
class Placement:
    """What is in force for one model."""

    device: torch.device
    dtype: torch.dtype
    quant: str
    """`none`, `nf4`, `int8`, or what the checkpoint is stored in."""


def place(
    *, device: str, dtype: str, quant: str | None, checkpoint: torch.dtype, tensors: Iterable[StoredTensor]
) -> Placement:
    """`quant` None is the machine's choice; `checkpoint` is the type of the stored weights, `tensors` are they, or
    none where they are quantized already.

    `dtype` `auto` is the checkpoint's. Only a CPU without fast bfloat16 gets float32 instead, and a GPU without it
    float16. Raises `ModelError` where the machine lacks what was asked for.
    """
    where = _device(device)
    tensors = tuple(tensors)
    fused = where.type == "cpu" and fused_nf4()
    odd = odd_matrix(tensors) if fused else None
    large = sum(tensor.bytes for tensor in tensors) > LARGE
    bits = quant or ("nf4" if where.type == "cuda" or (fused and large and not odd) else "none")
    if bits == "nf4" and odd:
        raise ModelError(
            f"--quant nf4 cannot be had on this CPU: {odd.name} is {odd.shape[0]} by {odd.shape[1]}, "
            "and rows must come in 32s, columns in 64s; say --quant none or int8."
        )
    if bits in BITSANDBYTES and not quantizes(where):
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


def fused_nf4() -> bool:
    """Whether bitsandbytes multiplies 4-bit weights on this CPU without unpacking them: its own question."""
    from bitsandbytes.functional import has_avx512bf16

    return bool(has_avx512bf16())


def odd_matrix(tensors: Iterable[StoredTensor]) -> StoredTensor | None:
    """A matrix that the fused kernel cannot lay out; real models have none."""
    return next((t for t in tensors if is_quantized(t) and (t.shape[0] % 32 or t.shape[1] % 64)), None)


def quantizes(device: torch.device) -> bool:
    """Whether bitsandbytes runs there."""
    import bitsandbytes

    return device.type in bitsandbytes.supported_torch_devices


def possible_quants(device: torch.device, tensors: Iterable[StoredTensor]) -> tuple[str, ...]:
    """Quantizations that this model can have on this device."""
    if not quantizes(device):
        return ()
    odd = device.type == "cpu" and fused_nf4() and odd_matrix(tensors)
    return ("int8",) if odd else ("int8", "nf4")
