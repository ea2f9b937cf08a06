"""The same promises on the real small model: 30 layers, float32, a text of 112 tokens.

Measured: logits differ by at most 1.1e-4 on a scale of 38, shares by 5.7e-6.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pydoc_data.topics import topics
from typing import Any

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from sinkchat.cache.attention import NAME
from sinkchat.cache.proof import Turns, prove
from sinkchat.models.load import LoadedModel
from tests.cache.product import Run, eager_shares, run
from tests.reference import eager, paper

pytestmark = pytest.mark.real_model

TOLERANCE = 1e-3
"""Of logits, as they are."""
SHARE_TOLERANCE = 1e-4

FORK = 40
SCHEDULE: paper.Schedule = {
    FORK: [("window", 64)],
    62: [("policy", "window")],
    72: [("policy", "sinks")],
    84: [("window", 24)],
    94: [("policy", "window")],
    95: [("policy", "sinks")],
    100: [("window", 48)],
}


class Paper(paper.Paper):
    """With a rotary table of its own, as the product has frozen the model's."""

    def inv_freq(self, layer_number: int) -> tuple[torch.Tensor, float]:
        own = LlamaRotaryEmbedding(self.model.config)
        return own.inv_freq, float(own.attention_scaling)


@dataclass
class Real:
    model: Any
    turns: Turns
    tokens: list[int]

    @cached_property
    def _run(self) -> tuple[list[paper.Step], list[paper.Step]]:
        """Steps of S = 4, W = 32; and those of the schedule, which begin alike."""
        procedure = Paper(self.model, 4, 32)
        begin = procedure.feed(self.tokens[:FORK])
        fork = copy(procedure)
        fork.tokens, fork.cache = list(procedure.tokens), [list(entries) for entries in procedure.cache]
        return (
            begin + procedure.feed(self.tokens[FORK:]),
            begin + fork.feed(self.tokens[FORK:], SCHEDULE),
        )

    @property
    def steps(self) -> list[paper.Step]:
        return self._run[0]

    @property
    def changed(self) -> list[paper.Step]:
        return self._run[1]

    @cached_property
    def without_sinks(self) -> list[paper.Step]:
        return Paper(self.model, 0, 32).feed(self.tokens[:80])

    def product(self, count: int, sinks: int, window: int, **settings: Any) -> Run:
        return run(self.model, self.turns, self.tokens[:count], sinks, window, **settings)

    @contextmanager
    def eager(self) -> Iterator[Any]:
        self.model.set_attn_implementation("eager")
        try:
            yield self.model
        finally:
            self.model.set_attn_implementation(NAME)


@pytest.fixture(scope="module")
def real(small_float32: LoadedModel) -> Real:
    text = "".join(topics[name] for name in sorted(topics))[:2000]
    tokens = small_float32.tokenizer.encode(text)[:112]
    return Real(small_float32.model, prove(small_float32.model, 8192), tokens)


def assert_equal(done: Run, steps: list[paper.Step]) -> None:
    logits = paper.logits_of(steps)
    apart = (done.logits - logits).abs().max()
    share = (done.shares - torch.stack([step.share(step.sinks or 4) for step in steps])).abs().max()
    print(f"logits {apart:.1e} on a scale of {logits.abs().max():.0f}, share {share:.1e}")
    assert apart < TOLERANCE
    assert share < SHARE_TOLERANCE
    assert done.states[-1].kv_entries == steps[-1].entries


@pytest.mark.parametrize("chunk", [1, 7, 32, 112])
def test_four_sinks(real, chunk) -> None:
    assert_equal(real.product(112, 4, 32, chunk=chunk), real.steps)


@pytest.mark.parametrize("chunk", [7, 80])
def test_no_sinks(real, chunk) -> None:
    done = real.product(80, 0, 32, chunk=chunk)
    assert (done.logits - paper.logits_of(real.without_sinks)).abs().max() < TOLERANCE


@pytest.mark.parametrize("chunk", [7, 112])
def test_switches_and_resizes(real, chunk) -> None:
    assert_equal(real.product(112, 4, 32, chunk=chunk, schedule=SCHEDULE), real.changed)


def test_positions_near_one_million(real) -> None:
    start = 1_000_000 - 50
    assert_equal(real.product(112, 4, 32, chunk=7, start_position=start), real.steps)
    assert_equal(real.product(112, 4, 32, chunk=32, start_position=start, schedule=SCHEDULE), real.changed)


def test_absolute_is_its_own_eager_attention_under_a_mask(real) -> None:
    seen = eager.visibility(112, 4, 32, schedule=SCHEDULE)
    with real.eager() as model:
        own = eager.run_masked(model, real.tokens, seen)
    done = real.product(112, 4, 32, chunk=7, positions="absolute", schedule=SCHEDULE)
    assert (done.logits - own.logits).abs().max() < TOLERANCE
    assert (done.shares - eager_shares(own, seen, 4)).abs().max() < SHARE_TOLERANCE


def test_the_full_cache_is_its_own_eager_attention(real) -> None:
    with real.eager() as model:
        own = eager.run_masked(model, real.tokens, eager.causal(112))
    done = real.product(112, 4, 32, chunk=50, policy="full")
    assert (done.logits - own.logits).abs().max() < TOLERANCE
    theirs = torch.stack([own.attentions[:, :, t, :4].sum(-1) for t in range(112)])
    assert (done.shares - theirs).abs().max() < SHARE_TOLERANCE
