"""Tiny random llama models whose attention is far from uniform, so that a wrong key or a wrong angle shows."""

from __future__ import annotations

import math

import torch
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY = 101

ROPES: dict[str, dict[str, object]] = {
    "default": {"rope_type": "default", "rope_theta": 10000.0},
    "linear": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    # cos and sin are multiplied by a factor here
    "yarn": {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 64,
    },
}


def tiny_llama(
    seed: int = 0,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 16,
    layers: int = 2,
    hidden: int | None = None,
    attention_bias: bool = False,
    rope: str = "default",
    vocabulary: int = VOCABULARY,
    max_position_embeddings: int = 4096,
    sharpness: float = 3.0,
    dtype: torch.dtype = torch.float32,
    attn_implementation: str = "eager",
) -> LlamaForCausalLM:
    """The same arguments give the same weights, whatever `attn_implementation` is.

    `sharpness` is the standard deviation of the attention scores: 0 would be uniform attention, at 3 a few entries
    take most of it. `hidden` is 8 for each head unless given; head_dim need not be hidden / heads.
    """
    hidden = hidden or 8 * heads
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        attention_bias=attention_bias,
        max_position_embeddings=max_position_embeddings,
        rope_parameters=dict(ROPES[rope]),
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        attn_implementation=attn_implementation,
    )
    model = LlamaForCausalLM(config).eval()
    generator = torch.Generator().manual_seed(seed)

    def normal(like: torch.Tensor, deviation: float) -> torch.Tensor:
        return torch.randn(like.shape, generator=generator) * deviation

    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if name.endswith("norm.weight"):
                parameter.copy_(1 + normal(parameter, 0.1))
            elif name.endswith("bias"):
                parameter.copy_(normal(parameter, 0.5))
            elif "embed_tokens" in name:
                parameter.copy_(normal(parameter, 1.0))
            else:
                # Inputs have a mean square of one; these keep it, except where a score or a logit is made.
                gain = 1 / math.sqrt(parameter.shape[1])
                if "q_proj" in name or "k_proj" in name:
                    gain *= math.sqrt(sharpness)
                elif "lm_head" in name:
                    gain *= 3
                parameter.copy_(normal(parameter, gain))
    return model.to(dtype).requires_grad_(False)


def random_tokens(count: int, seed: int = 0, vocabulary: int = VOCABULARY) -> list[int]:
    generator = torch.Generator().manual_seed(1000 + seed)
    return torch.randint(vocabulary, (count,), generator=generator).tolist()
