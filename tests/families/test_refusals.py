"""What cannot run exactly is refused in one sentence: by its config where that tells, else by the proof at load."""

from __future__ import annotations

import re

import pytest
from transformers import CONFIG_MAPPING, AutoConfig

from sinkchat.cache.attention import NAME
from sinkchat.errors import ModelRefused
from sinkchat.models.family import check_family
from tests.families import product
from tests.families.families import FAMILIES, Family
from tests.families.models import tiny_config
from tests.families.refused import REFUSED, Refused, config_of, tiny_refused


def assert_one_sentence(error: ModelRefused, pattern: str) -> None:
    words = str(error)
    assert "refused" in words
    assert words.endswith(".")
    assert not re.search(r"[.!?] [A-Z]|\n", words), f"more than one sentence: {words}"
    assert re.search(pattern, words, re.IGNORECASE), words


def named(refused: Refused) -> str:
    return refused.name


@pytest.mark.parametrize("refused", [refused for refused in REFUSED if refused.told], ids=named)
def test_the_config_tells_before_a_weight_is_read(refused: Refused):
    with pytest.raises(ModelRefused) as caught:
        check_family(config_of(refused).to_dict(), "their/model")
    assert_one_sentence(caught.value, str(refused.told))
    assert "their/model" in str(caught.value)


@pytest.mark.parametrize("sinks", [4, 0, 12])
@pytest.mark.parametrize("refused", [refused for refused in REFUSED if refused.proved], ids=named)
def test_the_proof_tells_why(refused: Refused, sinks: int):
    """Even where the config would have told; and whatever the sinks, to which some of the proof could be blind."""
    model = tiny_refused(refused, NAME)
    with pytest.raises(ModelRefused) as caught:
        product.proved(model, 16, sinks)
    assert_one_sentence(caught.value, str(refused.proved))


def test_every_refused_family_meets_a_gate():
    assert all(refused.told or refused.proved for refused in REFUSED)
    assert all(refused.model_type in CONFIG_MAPPING for refused in REFUSED)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_config_of_a_family_that_runs_is_let_through(family: Family):
    check_family(tiny_config(family).to_dict(), "their/model")


def test_queries_scaled_only_at_far_positions_are_found():
    """A scale that begins at position 16,384 is 1 wherever a short test looks."""
    config = AutoConfig.for_model("ministral3")
    assert config.rope_parameters["original_max_position_embeddings"] == 16384
    with pytest.raises(ModelRefused, match="scaled"):
        product.proved(tiny_refused("ministral3", NAME), 16)
