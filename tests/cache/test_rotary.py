"""The frozen tables of the llama family's rotary types."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from sinkchat.cache.rotary import FrozenRotary
from tests.reference.tiny import ROPES, tiny_llama

FAR = 1_000_003


@pytest.fixture(params=ROPES)
def rotary(request: pytest.FixtureRequest) -> LlamaRotaryEmbedding:
    return tiny_llama(rope=request.param).model.rotary_emb


def test_near_by_it_is_the_familys_own_module(rotary) -> None:
    places = torch.tensor([[0, 1, 5, 63, 64, 65, 200]])
    frozen = FrozenRotary(rotary, 512)
    for ours, theirs in zip(frozen(torch.zeros(1), places), rotary(torch.zeros(1), places), strict=True):
        assert ours.dtype == torch.float32
        assert torch.allclose(ours, theirs, atol=1e-5)
    assert frozen(torch.zeros(1, dtype=torch.bfloat16), places)[0].dtype == torch.bfloat16


def test_far_away_it_is_the_angle_itself(rotary) -> None:
    """The own float32 angles of the module are off there by a thousand times that and more."""
    place = torch.tensor([[FAR]])
    exact = [FAR * frequency for frequency in rotary.inv_freq.double().tolist()]
    expected = torch.tensor([math.cos(angle) * rotary.attention_scaling for angle in exact * 2])
    assert (FrozenRotary(rotary, 512)(torch.zeros(1), place)[0][0, 0] - expected).abs().max() < 1e-6
    assert (rotary(torch.zeros(1), place)[0][0, 0] - expected).abs().max() > 1e-3


def test_a_turn_carries_no_scaling(rotary) -> None:
    (table,) = FrozenRotary(rotary, 512).tables.values()
    cos, sin = table.turns(torch.tensor([0, -FAR]))
    assert torch.allclose(cos**2 + sin**2, torch.ones_like(cos), atol=1e-6)
    assert torch.equal(cos[0, 0], torch.ones_like(cos[0, 0]))


@pytest.mark.parametrize("length", [64, 256, 1024])
def test_a_table_that_depends_on_the_length_is_the_one_for_that_length_and_stays(length) -> None:
    """`dynamic` rewrites its own table as the sequence grows."""
    config = LlamaConfig(
        hidden_size=32,
        num_attention_heads=2,
        max_position_embeddings=64,
        rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0},
    )
    near, far = torch.arange(length)[None], torch.tensor([[FAR]])
    expected = LlamaRotaryEmbedding(config)(torch.zeros(1), near)[0]
    frozen = FrozenRotary(LlamaRotaryEmbedding(config), length)
    frozen(torch.zeros(1), far)
    assert torch.allclose(frozen(torch.zeros(1), near)[0], expected, atol=1e-4)
    if length > 64:
        short = LlamaRotaryEmbedding(config)(torch.zeros(1), near[:, :60])[0]
        assert not torch.allclose(short, expected[:, :60], atol=1e-2)


def test_a_table_is_chosen_anew_for_another_length() -> None:
    config = LlamaConfig(
        hidden_size=32,
        num_attention_heads=2,
        max_position_embeddings=64,
        rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0},
    )
    near = torch.arange(60)[None]
    long = FrozenRotary(LlamaRotaryEmbedding(config), 1024)
    for length in (256, 64, 1024):
        fresh = FrozenRotary(LlamaRotaryEmbedding(config), length)
        assert torch.equal(long.again(length)(torch.zeros(1), near)[0], fresh(torch.zeros(1), near)[0])
    assert not torch.allclose(long.again(64)(torch.zeros(1), near)[0], long(torch.zeros(1), near)[0], atol=1e-2)
