"""How a token is drawn from the logits."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkchat.engine.sampler import Sampler
from sinkchat.models.sampling import Sampling

PLAIN = {"temperature": 1.0, "min_p": None, "repetition_penalty": None, "seed": 3}


def logits(*values: float) -> torch.Tensor:
    return torch.tensor(values)


def drawn(scores: torch.Tensor, times: int = 4000, context: tuple[int, ...] = (), **changes: object) -> Counter[int]:
    sampler = Sampler(Sampling(**(PLAIN | changes)))
    return Counter(sampler.draw(scores, context) for _ in range(times))


def assert_shares(counts: Counter[int], expected: torch.Tensor) -> None:
    """Within four standard deviations of what a fair draw gives."""
    times = sum(counts.values())
    for token, chance in enumerate(expected.tolist()):
        spread = 4 * (times * chance * (1 - chance)) ** 0.5
        assert abs(counts[token] - times * chance) <= spread, (token, counts[token], times * chance)


@given(values=st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=30, unique=True), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=50)
def test_temperature_zero_is_the_most_likely_whatever_the_seed(values, seed) -> None:
    sampler = Sampler(Sampling(temperature=0.0, min_p=0.9, top_p=0.5, repetition_penalty=None, seed=seed))
    assert sampler.draw(logits(*values), []) == values.index(max(values))


def test_tokens_come_as_often_as_they_are_likely() -> None:
    scores = logits(0.0, 1.0, 2.0, -1.0)
    assert_shares(drawn(scores), torch.softmax(scores, -1))
    assert_shares(drawn(scores, temperature=0.5), torch.softmax(scores * 2, -1))
    assert_shares(drawn(scores, temperature=2.0), torch.softmax(scores / 2, -1))


def test_the_unlikely_are_left_out() -> None:
    scores = torch.log(torch.tensor([0.5, 0.3, 0.15, 0.05]))
    left = torch.tensor([0.5, 0.3, 0.0, 0.0])
    assert_shares(drawn(scores, top_k=2), left / left.sum())
    assert_shares(drawn(scores, top_p=0.75), left / left.sum())
    assert_shares(drawn(scores, min_p=0.4), left / left.sum())
    assert set(drawn(scores, top_p=1.0, top_k=0, min_p=0.0)) == {0, 1, 2, 3}


def test_a_repetition_is_less_likely() -> None:
    """Positive logits are divided by the penalty, negative ones multiplied."""
    scores = logits(2.0, 2.0, -1.0, -1.0)
    expected = torch.softmax(logits(1.0, 2.0, -2.0, -1.0), -1)
    assert_shares(drawn(scores, context=(0, 2), repetition_penalty=2.0), expected)


def test_only_the_latest_tokens_are_penalised() -> None:
    scores = logits(3.0, 2.9)
    greedy = Sampling(temperature=0.0, min_p=None, repetition_penalty=1.5)
    assert greedy.repetition_window == 128
    assert Sampler(greedy).draw(scores, [0]) == 1
    padded = torch.cat((scores, torch.full((4,), -9.0)))
    assert Sampler(greedy).draw(padded, [0] + [5] * 127) == 1
    assert Sampler(greedy).draw(padded, [0] + [5] * 128) == 0
    assert Sampler(greedy).draw(padded, []) == 0


def test_banned_tokens_never_come() -> None:
    scores = logits(9.0, 0.0, 8.0, 0.0)
    assert Sampler(Sampling(temperature=0.0, repetition_penalty=None)).draw(scores, [], banned=(0,)) == 2
    sampler = Sampler(Sampling(**PLAIN))
    assert {sampler.draw(scores, [], banned=(0, 2)) for _ in range(200)} == {1, 3}


def test_the_logits_stay_as_they_were() -> None:
    """Losses are computed from them, and they are raw."""
    scores = logits(9.0, 0.0, 8.0, 0.0)
    Sampler(Sampling(temperature=0.3, repetition_penalty=2.0)).draw(scores, [0, 1], banned=(2,))
    assert scores.tolist() == [9.0, 0.0, 8.0, 0.0]


def test_the_same_seed_draws_the_same() -> None:
    scores = torch.randn(100, generator=torch.Generator().manual_seed(0))

    def said(seed: int) -> list[int]:
        sampler = Sampler(Sampling(**(PLAIN | {"seed": seed})))
        return [sampler.draw(scores, []) for _ in range(30)]

    assert said(1) == said(1) != said(2)


def test_a_seed_that_was_not_given_is_named_and_repeats_the_run() -> None:
    scores = torch.randn(100, generator=torch.Generator().manual_seed(0))
    first = Sampler(Sampling(**(PLAIN | {"seed": None})))
    said = [first.draw(scores, []) for _ in range(30)]
    again = Sampler(first.sampling)
    assert [again.draw(scores, []) for _ in range(30)] == said
    assert Sampler(Sampling(seed=None)).sampling.seed != first.sampling.seed


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_drawn_in_float32(dtype) -> None:
    scores = torch.linspace(-2, 2, 50).to(dtype)
    assert_shares(drawn(scores, times=3000), torch.softmax(scores.float(), -1))
