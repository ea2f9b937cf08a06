"""What does not fit is said before it is loaded, and what is proposed instead does fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import AutoConfig, PreTrainedConfig

from sinkchat.cache.bounded import BoundedCache
from sinkchat.cache.proof import prove
from sinkchat.errors import ModelError, ModelRefused
from sinkchat.models.find import find
from sinkchat.models.load import load
from sinkchat.models.memory import Layout, Plan, check_memory, layout_of, need, weight_need
from sinkchat.models.weights import StoredTensor

LAYOUT = Layout(layers=32, kv_heads=8, key_dim=128, value_dim=128)
"""Of an 8B Llama: 128 KiB of cache an entry in bfloat16."""
EIGHT_B = (
    StoredTensor("model.embed_tokens.weight", (128256, 4096), 2 * 128256 * 4096),
    StoredTensor("lm_head.weight", (128256, 4096), 2 * 128256 * 4096),
    *(StoredTensor(f"model.layers.{n}.all.weight", (4096, 53248), 2 * 4096 * 53248) for n in range(32)),
)
BF16 = Plan("cuda:0", "none", torch.bfloat16, 4096)


def free(gigabytes: float) -> Callable[[str], int | None]:
    return lambda device: int(gigabytes * 1e9) if device.startswith("cuda") else 0


def said(gigabytes: float, plan: Plan = BF16, **options: Any) -> str:
    with pytest.raises(ModelError) as error:
        check_memory(EIGHT_B, LAYOUT, plan, "their/8b", free=free(gigabytes), **options)
    return str(error.value)


def proposed(words: str, plan: Plan = BF16) -> list[Plan]:
    plans = []
    for way in words.partition("; say ")[2].rstrip(".").split(" or "):
        quant, window, device = (re.search(rf"--{flag} (\S+)", way) for flag in ("quant", "window", "device"))
        plans.append(
            replace(
                plan,
                quant=quant[1] if quant else plan.quant,
                window=int(window[1]) if window else plan.window,
                device=device[1] if device else plan.device,
            )
        )
    return plans


def test_what_fits_is_let_through() -> None:
    check_memory(EIGHT_B, LAYOUT, BF16, "their/8b", free=free(24))
    check_memory(EIGHT_B, LAYOUT, BF16, "their/8b", free=lambda _device: None)


@pytest.mark.parametrize(
    ("gigabytes", "window"),
    [
        (gigabytes, window)
        for gigabytes in (6.5, 7, 8, 10, 12, 16.2, 17)
        for window in (1024, 4096, 32768)
        if need(EIGHT_B, LAYOUT, replace(BF16, window=window)) > gigabytes * 1e9
    ],
)
def test_whatever_is_proposed_fits(gigabytes: float, window: int) -> None:
    plan = replace(BF16, window=window)
    there = int(gigabytes * 1e9)
    words = said(gigabytes, plan)
    plans = proposed(words, plan)
    assert plans
    assert all(other != plan and need(EIGHT_B, LAYOUT, other) <= there for other in plans), words


def test_the_sentence_names_weights_cache_and_what_is_free() -> None:
    assert said(12) == (
        "their/8b does not fit into the memory of cuda:0: its weights need 16.1 GB, a window of 4,096 needs 0.5 GB, "
        "and 12.0 GB are free; say --quant nf4."
    )


def test_a_cache_that_is_too_large_is_made_smaller_before_weights_are_quantized() -> None:
    assert said(19.5, replace(BF16, window=32768)).endswith("; say --window 16384 or --quant nf4.")
    assert said(16.9, replace(BF16, window=2000)).endswith("; say --quant nf4 or --window 1024.")


def test_a_checkpoint_that_is_quantized_already_is_not_quantized_again() -> None:
    stored = replace(BF16, quant="gptq", stored=True)
    assert "--quant" not in said(16.2, stored, possible=())


def test_what_nothing_makes_fit_says_so() -> None:
    assert said(2).endswith("; take a smaller model, or close other programs.")


def test_the_cpu_is_proposed_only_if_it_has_the_room() -> None:
    def there(device: str) -> int:
        return 10**9 if device.startswith("cuda") else 10**11

    with pytest.raises(ModelError, match="say --device cpu"):
        check_memory(EIGHT_B, LAYOUT, BF16, "their/8b", free=there)


@pytest.mark.parametrize(("device", "times"), [("cuda:0", 1), ("cpu", 2)])
def test_eight_bit_floats_are_unpacked_where_there_is_no_gpu(device: str, times: int) -> None:
    plan = Plan(device, "fp8", torch.bfloat16, 64, stored=True)
    assert weight_need((StoredTensor("a", (8, 8), 64),), plan) == times * 64


@pytest.mark.parametrize("window", [16, 100])
def test_the_estimate_of_the_cache_is_what_is_allocated(window: int, tiny_folder: Any) -> None:
    loaded = load(find(str(tiny_folder)), device="cpu", dtype="bfloat16", window=window)
    cache = BoundedCache(loaded.model, prove(loaded.model, window), window=window)
    cache.warm_up()
    assert layout_of(loaded.model.config, "m").bytes(window, 2) == cache.kv_bytes


def test_heads_of_a_width_of_their_own_are_counted() -> None:
    config = AutoConfig.for_model(
        "gemma2", hidden_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=128
    )
    assert layout_of(config, "m").bytes(10, 2) == config.num_hidden_layers * 10 * 256 * 2


@pytest.mark.parametrize(
    "name",
    [
        "model.layers.0.mlp.experts.3.up_proj.weight",
        "model.layers.0.mlp.experts.gate_up_proj_bias",
        "model.layers.0.block_sparse_moe.gate.weight",
        "model.layers.0.mlp.router.weight",
        "model.embed_tokens.weight",
    ],
)
def test_what_bitsandbytes_leaves_alone_is_counted_whole(name: str) -> None:
    plan = Plan("cpu", "nf4", torch.bfloat16, 64)
    assert weight_need((StoredTensor(name, (64, 64), 8192),), plan) == 8192


def test_a_config_that_does_not_tell_its_heads_is_refused() -> None:
    config = PreTrainedConfig()
    with pytest.raises(ModelRefused, match="does not tell how many heads"):
        layout_of(config, "their/model")
