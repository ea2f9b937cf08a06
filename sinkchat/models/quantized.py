"""Checkpoints that are quantized already, told from their `config.json`. Free of torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from sinkchat.errors import ModelError, ModelRefused, UsageError

BITSANDBYTES = ("nf4", "fp4", "int8")
"""What bitsandbytes loads; of these, nf4 and int8 are also made while loading."""

_NEEDED = {
    "gptq": ("gptqmodel", "optimum"),
    "awq": ("gptqmodel",),
    "compressed-tensors": ("compressed_tensors",),
    "aqlm": ("aqlm",),
    "auto-round": ("auto_round",),
    "eetq": ("eetq",),
    "fbgemm_fp8": ("fbgemm_gpu",),
    "hqq": ("hqq",),
    "higgs": ("flute", "fast_hadamard_transform"),
    "quanto": ("optimum.quanto",),
    "quark": ("quark",),
    "spqr": ("spqr_quant",),
    "torchao": ("torchao",),
    "vptq": ("vptq",),
}
"""Modules that transformers wants for a method."""

_BARE = ("bitnet", "fouroversix", "fp8", "fp_quant", "gemma", "metal", "mxfp4", "mxfp8", "nvfp4", "sinq")
"""Methods that need nothing more, or whose libraries say themselves what they lack."""

_PACKAGES = {
    "compressed_tensors": "compressed-tensors",
    "auto_round": "auto-round",
    "fbgemm_gpu": "fbgemm-gpu",
    "flute": "flute-kernel",
    "fast_hadamard_transform": "fast-hadamard-transform",
    "optimum.quanto": "optimum-quanto",
    "quark": "amd-quark",
    "spqr_quant": "spqr_quant[gpu]",
}
"""Their names on the package index, where they are others."""


def stored_quant(config: Mapping[str, Any], name: str) -> str | None:
    """What the checkpoint's weights are quantized in: `nf4`, `fp4`, `int8`, `gptq`, `awq`, `fp8`, ...; None: in none.

    Raises `ModelError` when a package is missing that it takes to load them, `ModelRefused` for an unknown method.
    """
    text = config.get("text_config")
    parts = (config, text) if isinstance(text, Mapping) else (config,)
    stored = next((part[key] for part in parts for key in _KEYS if part.get(key)), None)
    if not isinstance(stored, Mapping):
        return None
    method = str(stored.get("quant_method", "")) or ("compressed-tensors" if "config_groups" in stored else "")
    if method.startswith("bitsandbytes"):
        return "int8" if stored.get("load_in_8bit") else str(stored.get("bnb_4bit_quant_type", "fp4"))
    if not method:
        raise ModelError(
            f"The config.json of {name} speaks of a quantization without naming its method; "
            "take the unquantized model, and --quant nf4 or int8."
        )
    method = {"compressed_tensors": "compressed-tensors"}.get(method, method)
    if method not in (*_NEEDED, *_BARE):
        raise ModelRefused(
            f"{name} is refused: its weights are stored in {method}, which this transformers does not load; "
            "take the unquantized model, and --quant nf4 or int8."
        )
    if missing := [module for module in _NEEDED.get(method, ()) if not _there(module)]:
        packages = " ".join(_PACKAGES.get(module, module) for module in missing)
        raise ModelError(
            f"The weights of {name} are stored in {method}, which needs a package that is not installed: "
            f"`pip install {packages}`, or take the unquantized model and --quant nf4 or int8."
        )
    return method


_KEYS = ("quantization_config", "compression_config")


def chosen_quant(asked: str, stored: str | None, name: str) -> str | None:
    """What was asked for, made to agree with what is stored; None leaves the choice to the machine."""
    if stored is None:
        return None if asked == "auto" else asked
    if asked in ("auto", stored):
        return stored
    same = f"--quant {stored} or auto" if stored in ("nf4", "int8") else "--quant auto"
    raise UsageError(
        f"--quant {asked} cannot be had: the weights of {name} are stored in {stored}; "
        f"say {same}, or take the unquantized model."
    )


def _there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it would be in
        return False
