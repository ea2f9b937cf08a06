"""Tiny random models of many families, made from their configs, whose attention is far from uniform."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from tests.families.families import (
    BY_NAME,
    HEAD_DIM,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LONG,
    SHORT,
    VOCABULARY,
    Family,
)


def rope_parameters(rope: str, dims: int) -> dict[str, object]:
    """What a config says of the rope type; `dims` of a head turn."""
    kind = rope.split(",")[0]
    base: dict[str, object] = {"rope_type": kind, "rope_theta": 10000.0}
    if kind == "linear":
        return base | {"factor": 4.0}
    if kind == "dynamic":
        return base | {"factor": 3.0}
    if kind == "llama3":
        return base | {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    if kind == "yarn":
        return base | {"factor": 4.0, "original_max_position_embeddings": 64}
    if kind == "longrope":
        return base | {
            "short_factor": [1.0 + 0.1 * pair for pair in range(dims // 2)],
            "long_factor": [2.0 + 0.7 * pair for pair in range(dims // 2)],
            "factor": 4.0,
            "original_max_position_embeddings": original_length(rope),
        }
    return base


def original_length(rope: str) -> int:
    """Tokens that the model was first trained for; of interest to "dynamic" and "longrope" alone."""
    return {"dynamic": SHORT, "longrope": SHORT, "longrope, short": 32}.get(rope, LONG)


def tiny_config(family: Family, rope: str = "default") -> Any:
    dims = int(HEAD_DIM * family.rotary_part)
    parameters = rope_parameters(rope, dims)
    if family.rotary_part != 1.0:
        parameters["partial_rotary_factor"] = family.rotary_part
    if family.tables:
        others = {kind: {"rope_type": "default", "rope_theta": 100.0} for kind in family.tables[1:]}
        parameters = {family.tables[0]: parameters, **others}
    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": 2 * HIDDEN,
        "num_hidden_layers": family.layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "max_position_embeddings": SHORT if rope == "dynamic" else LONG,
        "rope_parameters": parameters,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    if rope.startswith("longrope"):
        settings["original_max_position_embeddings"] = original_length(rope)
    return AutoConfig.for_model(family.model_type, **settings | dict(family.settings))


def tiny(family: Family | str, rope: str = "default", attn_implementation: str = "eager", seed: int = 0) -> nn.Module:
    """A causal language model in float32. The same arguments give the same weights, whatever the attention is."""
    family = BY_NAME[family] if isinstance(family, str) else family
    return random_model(tiny_config(family, rope), attn_implementation, seed, family.embedding)


def random_model(
    config: Any,
    attn_implementation: str | None = "eager",
    seed: int = 0,
    embedding: float = 1.0,
    sharpness: float = 3.0,
    kind: Any = AutoModelForCausalLM,
) -> nn.Module:
    """`sharpness` is about the standard deviation of the attention scores: at 3 a few entries take most of it."""
    torch.manual_seed(seed)
    model = kind.from_config(config, attn_implementation=attn_implementation)
    generator = torch.Generator().manual_seed(seed)

    def normal(like: torch.Tensor, deviation: float) -> torch.Tensor:
        return torch.randn(like.shape, generator=generator) * deviation

    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if "norm" in name and name.endswith("weight"):
                parameter.add_(normal(parameter, 0.1))  # about one, or about zero where the family adds one
            elif "embed" in name:
                parameter.copy_(normal(parameter, embedding))
            elif name.endswith("sinks"):
                parameter.copy_(2 + normal(parameter, 1.0))  # learned ones, in the scale of the scores
            elif parameter.dim() == 1:
                parameter.copy_(normal(parameter, 0.5))
            else:
                # inputs have a mean square of about one, and this keeps it
                parameter.copy_(normal(parameter, 1 / math.sqrt(parameter.shape[-1])))
        for module in model.modules():
            if isinstance(getattr(module, "scaling", None), float):
                module.scaling *= sharpness
    return model.to(torch.float32).eval().requires_grad_(False)


def random_tokens(count: int, seed: int = 0) -> list[int]:
    generator = torch.Generator().manual_seed(1000 + seed)
    return torch.randint(VOCABULARY, (count,), generator=generator).tolist()
