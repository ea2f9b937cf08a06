"""Every family gives over the bounded cache what its own attention gives: in logits, and in shares per head.

Absolute positions are compared with the model's own eager attention under explicit masks, cache positions with the
paper's procedure. Both come from the model's own modules (tests/reference/anew.py).
"""

from __future__ import annotations

import contextlib

import pytest
import torch

from sinkchat.cache.attention import NAME
from sinkchat.errors import ModelRefused
from tests.families import product
from tests.families.families import FAMILIES, KIN, Family
from tests.families.matrix import CHUNKS, POLICIES, POSITIONS, Case, cases, difference
from tests.families.models import tiny


def assert_exact(case: Case, chunks: tuple[int, ...] = CHUNKS, start_position: int = 0) -> None:
    for chunk in chunks:
        apart = difference(case, chunk, start_position)
        assert apart.exact, f"{case}, chunk {chunk}: {apart}"


@pytest.mark.parametrize("case", [case for family in FAMILIES for case in cases(family)], ids=str)
def test_a_family_is_exact(case: Case):
    assert_exact(case)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_million_tokens_later_nothing_has_changed(family: Family):
    """The witnesses stay near 0, where a family's own float32 angles are good."""
    for positions in POSITIONS:
        assert_exact(Case(family.name, "default", POLICIES[-1], positions), (7,), start_position=1_000_000)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_rounding_is_no_reason_to_refuse(family: Family, dtype: torch.dtype):
    assert len(product.proved(tiny(family, attn_implementation=NAME).to(dtype), 16)) == family.layers


@pytest.mark.parametrize("family", KIN, ids=lambda family: family.name)
def test_a_relative_is_exact_or_refused(family: Family):
    """Never a crash, never a wrong logit without a word."""
    for positions in POSITIONS:
        with contextlib.suppress(ModelRefused):
            assert_exact(Case(family.name, "default", POLICIES[-1], positions))
