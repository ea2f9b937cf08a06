"""Tiny models of families that cannot run exactly, and what a person is to be told of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForSeq2SeqLM

from tests.families.families import VOCABULARY
from tests.families.models import random_model

_LIKE_LLAMA: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
_LATENT = {
    "moe_intermediate_size": 32,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "q_lora_rank": 8,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 4,
    "v_head_dim": 8,
    "first_k_dense_replace": 1,
    "num_key_value_heads": 4,
}
_LIKE_GPT2 = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4}
_TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
_TOWER = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}


@dataclass(frozen=True)
class Refused:
    name: str
    model_type: str
    told: str | None
    """A pattern of what the config alone tells; None: it need not."""
    proved: str | None
    """A pattern of what the proof tells; None: such a model does not come so far."""
    settings: Mapping[str, Any] = field(default_factory=dict)


_LEARNED = r"learned positions"
_VALUES = r"values of a lone token change"
_BIAS = r"bias"
_LATENTS = r"latent|compressed"
_RECURRENT = r"recurren|state|hybrid|linear|convol"
_LAYERS = r"\d+ of its \d+ layers|cannot be reached"

REFUSED = (
    Refused("gpt2", "gpt2", _LEARNED, _VALUES, {**_LIKE_GPT2, "n_positions": 128}),
    Refused(
        "opt",
        "opt",
        _LEARNED,
        _VALUES,
        {
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "ffn_dim": 64,
            "num_attention_heads": 4,
            "max_position_embeddings": 128,
            "word_embed_proj_dim": 32,
        },
    ),
    Refused(
        "bloom", "bloom", _BIAS, _LAYERS, {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4}
    ),
    Refused(
        "mpt",
        "mpt",
        _BIAS,
        _LAYERS,
        {"vocab_size": VOCABULARY, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 128},
    ),
    Refused(
        "falcon with ALiBi",
        "falcon",
        r"attention|bias|support",
        None,
        {
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "alibi": True,
        },
    ),
    Refused(
        "ministral3", "ministral3", r"queries.*scaled", r"layer 0.*queries.*scaled", {**_LIKE_LLAMA, "head_dim": 8}
    ),
    Refused("deepseek_v2", "deepseek_v2", _LATENTS, None, {**_LIKE_LLAMA, **_LATENT}),
    Refused("deepseek_v3", "deepseek_v3", _LATENTS, None, {**_LIKE_LLAMA, **_LATENT, "n_group": 1, "topk_group": 1}),
    Refused(
        "mamba",
        "mamba",
        _RECURRENT,
        _LAYERS,
        {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
    ),
    Refused(
        "qwen3_next",
        "qwen3_next",
        _RECURRENT,
        _LAYERS,
        {
            **_LIKE_LLAMA,
            "head_dim": 8,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 16,
            "layer_types": ["linear_attention", "full_attention"],
        },
    ),
    Refused("lfm2", "lfm2", _RECURRENT, _LAYERS, {**_LIKE_LLAMA, "layer_types": ["conv", "full_attention"]}),
    Refused(
        "falcon_h1",  # attention in every layer, beside a recurrent part
        "falcon_h1",
        _RECURRENT,
        r"differ",
        {**_LIKE_LLAMA, "head_dim": 8, "mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 4},
    ),
    Refused(
        "llama4_text",
        "llama4_text",
        r"queries.*scaled|chunk",
        r"layer|reached",
        {**_LIKE_LLAMA, "head_dim": 8, "intermediate_size_mlp": 64, "num_local_experts": 2},
    ),
    Refused(
        "dory",  # queries scaled per dimension after they were turned
        "dory",
        None,
        r"layer 0.*queries.*scaled|attend",
        {**_LIKE_LLAMA, "head_dim": 8, "sliding_window": 8},
    ),
    Refused(
        "t5",
        "t5",
        r"encoder",
        None,
        {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
    ),
    Refused(
        "llava",
        "llava",
        r"more than text|vision|image|pictures",
        None,
        {
            "text_config": {**_TEXT, "model_type": "llama"},
            "vision_config": {**_TOWER, "model_type": "clip_vision_model", "num_hidden_layers": 2},
        },
    ),
)

BY_NAME = {refused.name: refused for refused in REFUSED}


def config_of(refused: Refused) -> Any:
    return AutoConfig.for_model(refused.model_type, **refused.settings)


def tiny_refused(refused: Refused | str, attn_implementation: str | None = None) -> nn.Module:
    """In float32. None takes what the family takes by itself; not every one knows others."""
    refused = BY_NAME[refused] if isinstance(refused, str) else refused
    config = config_of(refused)
    if "vision_config" in refused.settings:
        kind: Any = AutoModelForImageTextToText
    elif config.is_encoder_decoder:
        kind = AutoModelForSeq2SeqLM
    else:
        kind = AutoModelForCausalLM
    return random_model(config, attn_implementation, kind=kind).to(torch.float32)
