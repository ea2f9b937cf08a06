"""Layers that are trained with a window of their own, beside windows of the cache of every size."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from sinkchat.cache.attention import NAME
from tests.families import product
from tests.families.families import OWN_WINDOW
from tests.families.models import random_tokens, tiny
from tests.reference import anew, eager

COUNT = 44
FAMILIES = ("mistral, own window", "gemma2", "gemma3_text", "gpt_oss", "cohere2")
TOLERANCE = 1e-4

assert OWN_WINDOW == 8
SHAPES = {
    "own window as long as the cache": (4, 8, None),
    "own window longer than the cache": (3, 6, None),
    "own window within the recents": (4, 12, None),
    "no sinks": (0, 12, None),
    "a cache that grows past the own window": (3, 6, {20: [("window", 16)]}),
    "a cache that shrinks below the own window": (3, 16, {20: [("window", 6)]}),
    "a gap that the own window spans": (2, 4, {6: [("window", 20)]}),
    "sinks that come back": (4, 12, {20: [("policy", "window")], 30: [("policy", "sinks")]}),
    "a full cache that is bounded": (4, 12, {20: [("policy", "sinks")]}),
}


@cache
def models(family: str) -> tuple[Any, list[int | None], Any, Any]:
    model, ours = tiny(family), tiny(family, attn_implementation=NAME)
    return model, anew.own_windows(model), ours, product.proved(ours, 20)


@pytest.mark.parametrize("positions", ["cache", "absolute"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_layer_keeps_the_window_that_it_was_trained_with(family: str, shape: str, positions: str):
    model, own, ours, turns = models(family)
    sinks, window, schedule = SHAPES[shape]
    policy = "full" if shape.startswith("a full cache") else "sinks"
    tokens = random_tokens(COUNT)
    seen = eager.visibility(COUNT, sinks, window, policy, schedule, positions)
    reference = anew.run_placed(model, tokens, seen, own)
    for chunk in (1, 7, 25):
        run = product.run(
            ours, turns, tokens, sinks, window, chunk=chunk, policy=policy, positions=positions, schedule=schedule
        )
        apart = (run.logits - reference.logits).abs().max() / reference.logits.abs().max()
        assert apart < TOLERANCE, f"chunk {chunk}: {apart}"
        in_force = torch.tensor([[anew.binds(w, window) for w in own] for window in seen.windows])
        has_share = ~run.shares.isnan().any(-1)
        if policy != "full":
            assert torch.equal(has_share, ~in_force), "a layer has sinks unless its own window is in force"
        if sinks and has_share.any():
            shares = anew.share(reference.attentions, seen, sinks)
            assert (run.shares - shares)[has_share].abs().max() < TOLERANCE
