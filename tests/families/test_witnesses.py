"""The witnesses against each other: nothing of the product is run here."""

from __future__ import annotations

import pytest
import torch

from tests.families.families import FAMILIES, OWN_WINDOW, Family
from tests.families.models import random_tokens, tiny
from tests.reference import anew, eager, paper
from tests.reference import tiny as llama

TOLERANCE = 5e-6
"""Of the logits' scale. Float32 alone gives a tenth of it."""

COUNT = 52
SCHEDULE = {24: [("policy", "window")], 38: [("policy", "sinks")]}


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max() / b.abs().max())


each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


@each_family
def test_over_a_full_cache_both_witnesses_are_the_model_itself(family: Family):
    model, tokens = tiny(family), random_tokens(COUNT)
    own = anew.own_windows(model)
    seen = eager.visibility(COUNT, 4, 16, policy="full")
    plain = model(torch.tensor([tokens])).logits[0]
    assert difference(anew.run_masked(model, tokens, seen, own).logits, plain) < TOLERANCE
    assert difference(anew.run_placed(model, tokens, seen, own).logits, plain) < TOLERANCE


@each_family
def test_at_true_positions_both_witnesses_agree(family: Family):
    """Through a switch to a pure window and back."""
    model, tokens = tiny(family), random_tokens(COUNT)
    own = anew.own_windows(model)
    seen = eager.visibility(COUNT, 4, 16, schedule=SCHEDULE, positions="absolute")
    masked, placed = anew.run_masked(model, tokens, seen, own), anew.run_placed(model, tokens, seen, own)
    assert difference(placed.logits, masked.logits) < TOLERANCE
    for ours, theirs in zip(placed.attentions, anew.in_cache_order(masked, seen), strict=True):
        assert (ours - theirs).abs().max() < TOLERANCE


@pytest.mark.parametrize("rope", llama.ROPES)
@pytest.mark.parametrize("schedule", [None, SCHEDULE, {20: [("window", 9)], 40: [("window", 20)]}])
def test_placed_anew_is_the_papers_procedure(rope, schedule):
    model, tokens = llama.tiny_llama(rope=rope), llama.random_tokens(COUNT)
    steps = paper.run(model, tokens, 4, 16, schedule=schedule)
    seen = eager.visibility(COUNT, 4, 16, schedule=schedule)
    placed = anew.run_placed(model, tokens, seen, anew.own_windows(model))
    assert difference(placed.logits, paper.logits_of(steps)) < TOLERANCE
    for step, weights in zip(steps, placed.attentions, strict=True):
        assert (step.attention - weights).abs().max() < TOLERANCE


@each_family
def test_own_windows_are_those_of_the_config(family: Family):
    model = tiny(family)
    config = model.config
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None) or (
        ["sliding_attention" if window else "full_attention"] * family.layers
    )
    stated = [window if kind == "sliding_attention" else None for kind in kinds]
    assert anew.own_windows(model) == stated
    assert set(stated) <= {None, OWN_WINDOW}
    assert (family.settings.get("sliding_window") is None) == (set(stated) == {None})


@each_family
def test_what_is_compared_does_differ(family: Family):
    """A family in which policies or positions are one must be so for a reason that is known."""
    model, tokens = tiny(family), random_tokens(COUNT)
    own = anew.own_windows(model)
    runs = {
        name: anew.run_placed(model, tokens, eager.visibility(COUNT, 4, 16, **arguments), own).logits[-20:]
        for name, arguments in {
            "sinks": {},
            "absolute": {"positions": "absolute"},
            "window": {"policy": "window"},
            "full": {"policy": "full"},
        }.items()
    }
    rotary_without_window = {
        "mistral, own window": False,
        "phi3, own window": False,
        "cohere2": False,  # its layers without a window have no rotary positions
    }.get(family.name, True)
    all_windows = None not in own
    assert (difference(runs["sinks"], runs["absolute"]) > 0.05) == rotary_without_window
    assert (difference(runs["sinks"], runs["window"]) > 0.05) == (not all_windows)
    assert (difference(runs["window"], runs["full"]) > 0.05) == (not all_windows)


@pytest.mark.parametrize("rope", ["dynamic", "longrope", "longrope, short"])
def test_a_table_that_depends_on_the_length_is_chosen_once(rope):
    """At the length for which it was chosen it is the model's own; beyond, it stays what it was."""
    own, fixed = tiny("llama", rope), tiny("llama", rope)
    anew.fix_tables(fixed, 16)
    tokens = torch.tensor([random_tokens(COUNT)])
    assert difference(fixed(tokens[:, :16]).logits, own(tokens[:, :16]).logits) < TOLERANCE
    changes = difference(fixed(tokens).logits, own(tokens).logits) > 0.05
    assert changes == (rope != "longrope")  # already past the original length, it has no other


@pytest.mark.parametrize("rope", ["linear", "llama3", "yarn", "dynamic", "longrope", "longrope, short"])
def test_rope_types_differ(rope):
    """As far as tokens 16 positions apart can tell."""
    model, other = tiny("llama"), tiny("llama", rope)
    anew.fix_tables(other, 16)
    tokens = torch.tensor([random_tokens(16)])
    assert difference(other(tokens).logits, model(tokens).logits) > 0.01


def test_learned_sinks_take_attention_that_belongs_to_no_entry():
    model, tokens = tiny("gpt_oss"), random_tokens(COUNT)
    seen = eager.visibility(COUNT, 4, 16)
    weights = anew.run_placed(model, tokens, seen, anew.own_windows(model)).attentions[-1]
    left = 1 - weights.sum(-1)
    assert left.min() > 1e-4
    assert left.max() > 0.2
