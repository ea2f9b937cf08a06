"""Tiny random models of many families, made from their configs, whose attention is far from uniform.

One entry is one family with one shape of it (its own window or not). The rope type is chosen apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

VOCABULARY = 67
HIDDEN = 32
HEADS = 4
KV_HEADS = 2
HEAD_DIM = 16
OWN_WINDOW = 8
"""Of the layers that are trained with a window of their own."""

SHORT = 12
"""A length that the window passes: the types that depend on the length choose what they have for long ones."""
LONG = 4096

ROPES = ("default", "linear", "llama3", "yarn", "dynamic", "longrope", "longrope, short")
"""Rope types. "longrope, short" is a window within the original length, which the whole sequence passes."""


@dataclass(frozen=True)
class Family:
    name: str
    model_type: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    layers: int = 2
    rotary_part: float = 1.0
    """Part of a head that turns."""
    rotary_dims: int | None = None
    """Where the family derives it in its own way: how many dimensions turn."""
    tables: tuple[str, ...] = ()
    """Layer types with a rotary table each. Empty: one table for all. The rope type is given to the first."""
    embedding: float = 1.0
    """Deviation of the embeddings; less where the family multiplies them."""
    ropes: tuple[str, ...] = ROPES


_SLIDING_FULL = ["sliding_attention", "full_attention"]
_MIXED = [*_SLIDING_FULL, "sliding_attention"]
_GEMMA = {"head_dim": HEAD_DIM, "query_pre_attn_scalar": HEAD_DIM, "tie_word_embeddings": True}
_PHI3_ROPES = ("default", "longrope", "longrope, short")
"""The config admits no other."""
_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}

FAMILIES = (
    Family("llama", "llama", {"head_dim": HEAD_DIM}),
    Family("mistral", "mistral", {"head_dim": HEAD_DIM, "sliding_window": None}),
    Family("mistral, own window", "mistral", {"head_dim": HEAD_DIM, "sliding_window": OWN_WINDOW}),
    Family("qwen2", "qwen2", {"hidden_size": HEADS * HEAD_DIM, "use_sliding_window": False}),
    Family(
        "qwen2, own window",
        "qwen2",
        {
            "hidden_size": HEADS * HEAD_DIM,
            "use_sliding_window": True,
            "sliding_window": OWN_WINDOW,
            "max_window_layers": 1,
        },
    ),
    Family("qwen3", "qwen3", {"head_dim": HEAD_DIM}),
    Family("gemma", "gemma", {"head_dim": HEAD_DIM}, embedding=HIDDEN**-0.5),
    Family(
        "gemma2",
        "gemma2",
        {
            **_GEMMA,
            "sliding_window": OWN_WINDOW,
            "layer_types": _MIXED,
            "attn_logit_softcapping": 4.0,
            "final_logit_softcapping": 20.0,
        },
        layers=3,
        embedding=HIDDEN**-0.5,
    ),
    Family(
        "gemma3_text",
        "gemma3_text",
        {**_GEMMA, "sliding_window": OWN_WINDOW, "layer_types": _MIXED},
        layers=3,
        tables=("full_attention", "sliding_attention"),
        embedding=HIDDEN**-0.5,
    ),
    Family("phi", "phi", {"hidden_size": HEADS * HEAD_DIM}, rotary_part=0.5),
    Family("phi3", "phi3", {"hidden_size": HEADS * HEAD_DIM, "sliding_window": None}, ropes=_PHI3_ROPES),
    Family(
        "phi3, own window",
        "phi3",
        {"hidden_size": HEADS * HEAD_DIM, "sliding_window": OWN_WINDOW},
        ropes=_PHI3_ROPES,
    ),
    Family("smollm3", "smollm3", {"hidden_size": HEADS * HEAD_DIM, "no_rope_layers": [1, 0, 1]}, layers=3),
    Family("olmo2", "olmo2", {"hidden_size": HEADS * HEAD_DIM}),
    Family(
        "granite",
        "granite",
        {
            "hidden_size": HEADS * HEAD_DIM,
            "attention_multiplier": HEAD_DIM**-0.5,
            "residual_multiplier": 0.7,
            "embedding_multiplier": 3.0,
            "logits_scaling": 2.0,
        },
        embedding=1 / 3,
    ),
    Family("gpt_neox", "gpt_neox", {"hidden_size": HEADS * HEAD_DIM}, rotary_part=0.25),
    Family("glm4", "glm4", {"head_dim": HEAD_DIM, "attention_bias": True}, rotary_part=0.5),
    Family(
        "cohere2",
        "cohere2",
        {
            "hidden_size": HEADS * HEAD_DIM,
            "sliding_window": OWN_WINDOW,
            "layer_types": _MIXED,
            "logit_scale": 1.0,
        },
        layers=3,
    ),
    Family("starcoder2", "starcoder2", {"hidden_size": HEADS * HEAD_DIM, "sliding_window": None}),
    Family(
        "gpt_oss",
        "gpt_oss",
        {**_EXPERTS, "head_dim": HEAD_DIM, "sliding_window": OWN_WINDOW, "layer_types": _SLIDING_FULL},
    ),
    Family("mixtral", "mixtral", {**_EXPERTS, "head_dim": HEAD_DIM, "sliding_window": None}),
    Family(
        "qwen3_moe",
        "qwen3_moe",
        {"head_dim": HEAD_DIM, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": HIDDEN},
    ),
)

BY_NAME = {family.name: family for family in FAMILIES}


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
    dims = family.rotary_dims or int(HEAD_DIM * family.rotary_part)
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
    config: Any, attn_implementation: str = "eager", seed: int = 0, embedding: float = 1.0, sharpness: float = 3.0
) -> nn.Module:
    """`sharpness` is about the standard deviation of the attention scores: at 3 a few entries take most of it."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attn_implementation)
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
