"""The families, and what makes a tiny model of each.

One entry is one family with one shape of it (its own window or not). The rope type is chosen apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
"""What must run exactly."""

_WIDE = {"hidden_size": HEADS * HEAD_DIM}
_MIXED_LIKE_LLAMA = {"head_dim": HEAD_DIM, "sliding_window": OWN_WINDOW, "layer_types": _MIXED}
_ROUTED = {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": HIDDEN,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "head_dim": HEAD_DIM,
}
_QWEN_EXPERTS = {
    "hidden_size": HEADS * HEAD_DIM,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": HIDDEN,
    "shared_expert_intermediate_size": HIDDEN,
}

KIN = (
    Family("afmoe", "afmoe", {**_MIXED_LIKE_LLAMA, **_ROUTED, "num_experts": 4}, layers=3),
    Family("apertus", "apertus", _WIDE),
    Family("arcee", "arcee", {"head_dim": HEAD_DIM}),
    Family("bitnet", "bitnet", _WIDE),
    Family("cohere", "cohere", {**_WIDE, "logit_scale": 1.0}),
    Family("cwm", "cwm", {**_MIXED_LIKE_LLAMA, "bos_token_id": 1, "eos_token_id": 2}, layers=3),
    Family("diffllama", "diffllama", {"head_dim": HEAD_DIM}),
    Family("doge", "doge", {"head_dim": HEAD_DIM}),
    Family("dots1", "dots1", _ROUTED),
    Family("ernie4_5", "ernie4_5", {"head_dim": HEAD_DIM}),
    Family("exaone4", "exaone4", {**_MIXED_LIKE_LLAMA, **_WIDE}, layers=3),
    Family("flint", "flint", _MIXED_LIKE_LLAMA, layers=3),
    Family(
        "gemma4_unified_text",
        "gemma4_unified_text",
        {**_MIXED_LIKE_LLAMA, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]},
        layers=3,
        tables=("full_attention", "sliding_attention"),
        embedding=HIDDEN**-0.5,
    ),
    Family("glm", "glm", {"head_dim": HEAD_DIM}, rotary_part=0.5),
    Family("glm4_moe", "glm4_moe", _ROUTED, rotary_part=0.5),
    Family("granite_swa", "granite_swa", {**_MIXED_LIKE_LLAMA, **_WIDE}, layers=3),
    Family("granitemoe", "granitemoe", {**_WIDE, **_EXPERTS, "attention_multiplier": HEAD_DIM**-0.5}),
    Family("helium", "helium", {**_WIDE, "head_dim": HEAD_DIM}),
    Family("hunyuan_v1_dense", "hunyuan_v1_dense", {"head_dim": HEAD_DIM}),
    Family("jetmoe", "jetmoe", {**_EXPERTS, "kv_channels": HEAD_DIM, "num_key_value_heads": 2}),
    Family(
        "laguna",
        "laguna",
        {**_MIXED_LIKE_LLAMA, **_QWEN_EXPERTS, "num_attention_heads_per_layer": [4, 2, 4]},
        layers=3,
        tables=("full_attention", "sliding_attention"),
    ),
    Family(
        "mimo_v2_flash",
        "mimo_v2_flash",
        {**_MIXED_LIKE_LLAMA, **_ROUTED, "v_head_dim": 8},
        layers=3,
        tables=("full_attention", "sliding_attention"),
    ),
    Family("minimax_m2", "minimax_m2", {**_EXPERTS, "head_dim": HEAD_DIM}),
    Family("ministral", "ministral", _MIXED_LIKE_LLAMA, layers=3),
    Family("nanochat", "nanochat", _WIDE),
    Family("nemotron", "nemotron", {"head_dim": HEAD_DIM}),
    Family("olmo", "olmo", _WIDE),
    Family("olmo3", "olmo3", {**_MIXED_LIKE_LLAMA, **_WIDE}, layers=3),
    Family("olmoe", "olmoe", {**_QWEN_EXPERTS}),
    Family("persimmon", "persimmon", _WIDE),
    Family("phimoe", "phimoe", {**_EXPERTS, **_WIDE, "sliding_window": None}),
    Family("phimoe, own window", "phimoe", {**_EXPERTS, **_WIDE, "sliding_window": OWN_WINDOW}),
    Family("qwen2_moe", "qwen2_moe", _QWEN_EXPERTS),
    Family(
        "qwen2_moe, own window",
        "qwen2_moe",
        {**_QWEN_EXPERTS, "use_sliding_window": True, "sliding_window": OWN_WINDOW, "max_window_layers": 1},
    ),
    Family("seed_oss", "seed_oss", {"head_dim": HEAD_DIM}),
    Family("stablelm", "stablelm", _WIDE, rotary_part=0.5),
    Family(
        "vaultgemma",
        "vaultgemma",
        {**_GEMMA, "sliding_window": OWN_WINDOW, "layer_types": _MIXED, "attn_logit_softcapping": 4.0},
        layers=3,
        embedding=HIDDEN**-0.5,
    ),
)
"""Relatives that nobody promised. They too run exactly or are refused."""

BY_NAME = {family.name: family for family in (*FAMILIES, *KIN)}
