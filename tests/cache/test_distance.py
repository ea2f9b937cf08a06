"""Sinks that stand far from everything after them, as if so much had been read in between."""

from __future__ import annotations

import pytest
import torch

from sinkchat.cache.attention import NAME
from tests.cache.product import models, run
from tests.families import product as families
from tests.families.models import random_tokens, tiny
from tests.reference import paper
from tests.reference import tiny as llama

TOKENS = llama.random_tokens(60)
SINKS, WINDOW = 4, 24
TOLERANCE = 2e-5  # of the scale


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


def product(chunk: int, distance: int, positions: str = "cache", policy: str = "sinks") -> torch.Tensor:
    _, ours, turns = models("grouped heads")
    return run(
        ours, turns, TOKENS, SINKS, WINDOW, chunk=chunk, policy=policy, positions=positions, distance=distance
    ).logits


@pytest.mark.parametrize("chunk", [1, 7, 60])
@pytest.mark.parametrize("distance", [1, 100, 40_000, 1_000_000])
def test_with_absolute_positions_the_sinks_are_that_far(chunk, distance) -> None:
    steps = paper.run(models("grouped heads")[0], TOKENS, SINKS, WINDOW, positions="absolute", distance=distance)
    assert difference(product(chunk, distance, "absolute"), paper.logits_of(steps)) < TOLERANCE


@pytest.mark.parametrize("chunk", [1, 7, 60])
@pytest.mark.parametrize("distance", [1, 40_000, 1_000_000])
def test_with_cache_positions_the_distance_is_nothing(chunk, distance) -> None:
    assert difference(product(chunk, distance), product(7, 0)) < TOLERANCE


@pytest.mark.parametrize("policy", ["window", "full"])
def test_without_sinks_there_is_nothing_to_be_far_from(policy) -> None:
    assert difference(product(7, 1000, "absolute", policy), product(7, 0, "absolute", policy)) < TOLERANCE


def test_the_distance_matters_where_it_should() -> None:
    near = product(7, 0, "absolute")
    assert difference(product(7, 1000, "absolute"), near) > 1000 * TOLERANCE


@pytest.mark.parametrize("family", ["gemma2", "mistral, own window"])
def test_a_layers_own_window_is_long_past_the_sinks(family) -> None:
    """One by one and in chunks are two ways of counting who sees whom."""
    ours = tiny(family, attn_implementation=NAME)
    turns = families.proved(ours, 20)
    tokens = random_tokens(30)
    far = [
        families.run(ours, turns, tokens, 4, 12, chunk=chunk, positions="absolute", distance=1000).logits
        for chunk in (1, 7, 30)
    ]
    near = families.run(ours, turns, tokens, 4, 12, chunk=7, positions="absolute").logits
    assert difference(far[1], far[0]) < TOLERANCE
    assert difference(far[2], far[0]) < TOLERANCE
    assert difference(near, far[0]) > 100 * TOLERANCE
