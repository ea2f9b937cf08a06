"""The sink share, and the strongest entry beside it, against the sums of attention that was computed elsewhere.

Measured: the largest difference of a head's share is 2.7e-6.
"""

from __future__ import annotations

import pytest
import torch

from sinkchat.engine.sequence import TokenSequence
from tests.cache.product import Witnessed, eager_shares, models, run, watched_share
from tests.cache.test_exactness import LENGTH, SCHEDULES, SHAPES, length, product, reference
from tests.reference import eager, paper, tiny

TOLERANCE = 1e-5
"""A tenth of what is promised."""


def apart(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    assert ours.shape == theirs.shape
    return float((ours - theirs).abs().max())


@pytest.mark.parametrize("chunk", [1, 7, 41])
@pytest.mark.parametrize("shape", SHAPES)
def test_absolute_share_is_the_models_own_attention_to_the_sinks(shape, chunk) -> None:
    own, ours, turns = models("a key head each, bias")
    tokens = tiny.random_tokens(length(shape))
    seen = eager.visibility(len(tokens), *shape)
    done = run(ours, turns, tokens, *shape, chunk=chunk, positions="absolute")
    assert apart(done.shares, eager_shares(eager.run_masked(own, tokens, seen), seen, shape[0])) < TOLERANCE


@pytest.mark.parametrize("chunk", [1, 7, 41])
@pytest.mark.parametrize("policy", ["window", "full"])
def test_without_sinks_it_is_that_of_the_oldest_entries(policy, chunk) -> None:
    """`full` in the positions of the cache, which are the model's own; `window` where both count alike."""
    own, ours, turns = models("grouped heads")
    tokens = tiny.random_tokens(LENGTH)
    seen = eager.visibility(LENGTH, 4, 32, policy=policy)
    done = run(ours, turns, tokens, 4, 32, chunk=chunk, policy=policy)
    theirs = eager_shares(eager.run_masked(own, tokens, seen), seen, 4)
    assert apart(done.shares, theirs) < TOLERANCE
    assert theirs[-1].max() > 0.01


@pytest.mark.parametrize("chunk", [1, 7, 41])
@pytest.mark.parametrize("shape", SHAPES)
def test_share_in_cache_positions_is_the_references(shape, chunk) -> None:
    done = product("grouped heads", shape, chunk=chunk)
    steps = reference("grouped heads", shape)
    assert apart(done.shares, torch.stack([step.sink_share for step in steps])) < TOLERANCE


@pytest.mark.parametrize("chunk", [1, 7])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_share_across_live_changes(schedule, chunk) -> None:
    done = product("grouped heads", chunk=chunk, schedule=SCHEDULES[schedule])
    steps = reference("grouped heads", schedule=schedule)
    assert apart(done.shares, torch.stack([watched_share(step, 4) for step in steps])) < TOLERANCE


def test_a_share_is_not_everywhere_the_same() -> None:
    """Heads and layers and tokens differ by far more than the tolerance, so that none can stand for another."""
    shares = torch.stack([step.sink_share for step in reference("grouped heads")[10:]])  # [T, L, H]
    assert shares.flatten(1).std(1).min() > 0.01
    assert shares.std(0).min() > 0.01


@pytest.mark.parametrize("policy", ["sinks", "window", "full"])
def test_the_strongest_entry_is_the_one_outside_the_watched_with_most_attention(policy) -> None:
    own, ours, turns = models("grouped heads")
    tokens = tiny.random_tokens(60)
    sequence = TokenSequence(Witnessed(ours, turns, policy=policy, sinks=4, window=24))
    for token, step in zip(tokens, paper.run(own, tokens, 4, 24, policy=policy), strict=True):
        sequence.tokens.append(token)
        sequence.feed(1)
        mean = step.attention.mean((0, 1))  # [entries]
        mean[: step.sinks or 4] = 0
        if len(mean) <= 4:
            assert sequence.strong_entry is None
            continue
        position, share = sequence.strong_entry
        assert position == step.visible[int(mean.argmax())]
        assert abs(share - float(mean.max())) < TOLERANCE
