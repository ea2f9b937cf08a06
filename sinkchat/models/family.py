"""Which models run, told from their `config.json` alone, before any weight is read. Free of torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from sinkchat.errors import ModelError, ModelRefused, UsageError

_FAMILIES = ("llama",)

_WHAT_RUNS = "a llama model runs, such as Llama 3, TinyLlama or SmolLM2"

_REASONS = {
    "learned positions": ("gpt2", "opt", "gpt_bigcode", "xglm", "biogpt"),
    "position biases instead of rotary positions": ("bloom", "mpt"),
    "a recurrent state instead of a KV cache": ("mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm"),
    "recurrent layers among its attention layers": (
        "jamba",
        "bamba",
        "zamba",
        "zamba2",
        "recurrent_gemma",
        "qwen3_next",
    ),
    "a compressed latent in place of keys": ("deepseek_v2", "deepseek_v3", "minicpm3"),
    "an encoder that reads whole texts and writes none": ("bert", "roberta", "distilbert", "deberta", "modernbert"),
}

Stored = Literal["none", "nf4", "int8"]


def read_config(folder: Path, name: str) -> dict[str, Any]:
    """The model's `config.json`. `name` is what the person called the model, for the errors."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{name} holds no model: there is no config.json in {folder}.") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"The config.json of {name} cannot be read ({error}); fetch the model again.") from error
    if not isinstance(config, dict):
        raise ModelError(f"The config.json of {name} is not a JSON object; fetch the model again.")
    return config


def check_family(config: Mapping[str, Any], name: str) -> None:
    """Raise `ModelRefused` unless the model is of a family that runs."""
    family = config.get("model_type")
    if not isinstance(family, str):
        raise ModelRefused(f"{name} is refused: its config.json names no model_type; {_WHAT_RUNS}.")
    if family in _FAMILIES:
        return
    if config.get("is_encoder_decoder"):
        reason = "it is an encoder-decoder, and the cache of its encoder cannot be bounded"
    elif "text_config" in config:
        reason = "it takes more than text"
    else:
        known = (why for why, families in _REASONS.items() if family in families)
        why = next(known, None)
        reason = f"it has {why}" if why else "this family is not supported yet"
    raise ModelRefused(f"{name} is refused: its model_type is {family} and {reason}; {_WHAT_RUNS}.")


def stored_quant(config: Mapping[str, Any], name: str) -> Stored | None:
    """The quantization that the checkpoint is stored in, None if in none; raise `ModelRefused` for an unknown one."""
    stored = config.get("quantization_config")
    if not stored:
        return None
    method = str(stored.get("quant_method", "")) or "an unnamed quantization"
    if method == "bitsandbytes":
        if stored.get("load_in_8bit"):
            return "int8"
        if stored.get("load_in_4bit") and stored.get("bnb_4bit_quant_type") == "nf4":
            return "nf4"
        method = f"bitsandbytes {stored.get('bnb_4bit_quant_type', '4-bit')}"
    raise ModelRefused(
        f"{name} is refused: its weights are stored in {method}, which sinkchat does not run; "
        "take the unquantized model, which is quantized to nf4 or int8 while it is loaded."
    )


def chosen_quant(asked: str, stored: Stored | None, name: str) -> str | None:
    """What was asked for, made to agree with what is stored; None leaves the choice to the machine."""
    if stored is None:
        return None if asked == "auto" else asked
    if asked in ("auto", stored):
        return stored
    raise UsageError(
        f"--quant {asked} cannot be had: the weights of {name} are stored in {stored}; "
        f"say --quant {stored} or auto, or take the unquantized model."
    )
