"""Losses, entries and shares of a text that is read, against loops that share nothing with the product."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from torch import nn

from sinkchat.lab.plan import FARTHEST
from sinkchat.lab.reading import read, with_sinks
from sinkchat.lab.results import Rule
from sinkchat.lab.summary import summarize
from tests.lab import tiny
from tests.reference import paper
from tests.reference import tiny as llama

COUNT, WINDOW = 150, 40
IDS = llama.random_tokens(COUNT, vocabulary=len(tiny.byte_level()))

RULES = [
    Rule("full"),
    Rule("window", window=WINDOW),
    *(Rule("sinks", sinks=sinks, window=WINDOW) for sinks in (1, 4, 16)),
    Rule("sinks", sinks=4, window=7),
    Rule("sinks", "absolute", sinks=4, window=WINDOW),
    Rule("sinks", "absolute", sinks=4, window=WINDOW, start_position=40_000),
    Rule("sinks", sinks=4, window=WINDOW, start_position=40_000),
    Rule("sinks", sinks=4, window=WINDOW, sink_tokens="newlines"),
    Rule("sinks", sinks=4, window=WINDOW, sink_tokens="random"),
    Rule("recompute", window=WINDOW),
    Rule("recompute", sinks=4, window=WINDOW),
    Rule("recompute", window=1),
]
rules = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def go_on(_done: int) -> bool:
    return True


def plain_losses(model: nn.Module, ids: list[int]) -> list[float | None]:
    """Each token's loss from a forward pass of its own, over all tokens before it."""
    losses: list[float | None] = [None]
    with torch.no_grad():
        for at in range(1, len(ids)):
            logits = model(torch.tensor([ids[:at]]), use_cache=False).logits[0, -1].double()
            losses.append(-torch.log_softmax(logits, dim=-1)[ids[at]].item())
    return losses


@cache
def reference(rule: Rule) -> list[paper.Step]:
    ids = with_sinks(tiny.loaded(), IDS, rule.sinks, rule.sink_tokens)
    return paper.run(
        tiny.own(),
        ids,
        rule.sinks,
        rule.window or COUNT + 1,
        rule.policy,
        rule.positions,
        distance=rule.start_position,
    )


def close(ours, theirs, tolerance: float = 1e-3) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine is None) == (other is None)
        assert mine is None or mine == pytest.approx(other, abs=tolerance)


def test_under_the_full_cache_losses_are_those_of_the_plain_model() -> None:
    close(read(tiny.loaded(), Rule("full"), IDS, go_on).losses, plain_losses(tiny.own(), IDS))


@rules
def test_losses_are_those_of_the_slow_reference(rule: Rule) -> None:
    with paper.one_thread():
        expected = paper.losses_of(reference(rule))
    if rule.sink_tokens != "text":
        expected[: rule.sinks] = [None] * rule.sinks
    close(read(tiny.loaded(), rule, IDS, go_on).losses, expected)


@rules
def test_entries_and_evictions_are_those_of_the_slow_reference(rule: Rule) -> None:
    steps = reference(rule)
    reading = read(tiny.loaded(), rule, IDS, go_on)
    assert list(reading.entries) == [step.entries for step in steps]
    run = summarize(reading, None, 4096, 16)
    assert [point.kv_entries for point in run.curve] == [step.entries for step in [*steps[15::16], steps[-1]]]
    assert [point.evicted for point in run.curve] == [step.evicted_total for step in [*steps[15::16], steps[-1]]]
    assert run.evictions == steps[-1].evicted_total
    assert run.kv_entries_max == max(step.entries for step in steps)
    first = next((at for at, step in enumerate(steps) if step.evicted_total), None)
    assert run.first_eviction == first == (rule.window if rule.window and rule.window < COUNT else None)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.policy == "sinks"], ids=lambda rule: rule.name)
def test_shares_are_those_of_the_slow_reference(rule: Rule) -> None:
    steps = reference(rule)
    reading = read(tiny.loaded(), rule, IDS, go_on)
    close(reading.shares, [None, *(step.sink_share.mean().item() for step in steps[:-1])])
    run = summarize(reading, None, 4096, 16)
    after = torch.stack([step.sink_share for step in steps[rule.window : -1]])  # queries that saw a cut cache
    assert run.sink_share_mean == pytest.approx(after.mean().item(), abs=1e-4)
    assert torch.allclose(torch.tensor(run.sink_share_heads), after.mean(0), atol=1e-4)
    for heads in run.head_maps:
        mean = torch.stack([step.sink_share for step in steps[heads.first : heads.last + 1]]).mean(0)
        assert torch.allclose(torch.tensor(heads.shares), mean, atol=1e-4)
    spans = [(heads.first, heads.last) for heads in run.head_maps]
    assert spans[0] == (0, rule.window - 1), "those before the first eviction stay apart"
    assert [first for first, _ in spans[1:]] == [last + 1 for _, last in spans[:-1]]
    assert spans[-1][1] == COUNT - 2


@pytest.mark.parametrize("past", [1, 2, 5, 9, 17])
def test_heads_are_told_of_the_same_queries_as_their_mean(past: int) -> None:
    """However few tokens follow the first eviction."""
    rule = Rule("sinks", sinks=4, window=WINDOW)
    run = summarize(read(tiny.loaded(), rule, IDS[: WINDOW + 1 + past], go_on), None, 4096, 16)
    after = torch.stack([step.sink_share for step in reference(rule)[WINDOW : WINDOW + past]])
    assert run.sink_share_mean == pytest.approx(after.mean().item(), abs=1e-4)
    assert torch.allclose(torch.tensor(run.sink_share_heads), after.mean(0), atol=1e-4)


def test_the_window_and_the_full_cache_tell_of_the_oldest() -> None:
    for rule in (Rule("full"), Rule("window", window=WINDOW)):
        reading = read(tiny.loaded(), rule, IDS, go_on)
        assert reading.watched == 4
        steps = reference(rule)
        close(reading.shares, [None, *(step.share(4).mean().item() for step in steps[:-1])])


def test_what_a_recomputation_costs_is_counted() -> None:
    """Each token past a full window of 40 makes 20 leave and 20 run again, once in 20 tokens."""
    run = summarize(read(tiny.loaded(), Rule("recompute", window=WINDOW), IDS, go_on), None, 4096, 16)
    times = math.ceil((COUNT - WINDOW) / 20)
    assert (run.evictions, run.recomputed) == (20 * times, 20 * times)
    pinned = summarize(read(tiny.loaded(), Rule("recompute", sinks=5, window=WINDOW), IDS, go_on), None, 4096, 16)
    times = math.ceil((COUNT - WINDOW) / 18)  # of 35 recents 18 leave
    assert (pinned.evictions, pinned.recomputed) == (18 * times, 17 * times)


@pytest.mark.parametrize("count", [1, 4])
def test_replaced_sinks_are_what_they_are_called(count: int) -> None:
    loaded = tiny.loaded()
    assert with_sinks(loaded, IDS, count, "text") == IDS
    lines = with_sinks(loaded, IDS, count, "newlines")
    assert loaded.tokenizer.decode(lines[:count]) == "\n" * count
    other = with_sinks(loaded, IDS, count, "random")
    assert other[:count] != IDS[:count]
    assert other == with_sinks(loaded, IDS, count, "random")
    assert lines[count:] == other[count:] == IDS[count:]


def test_one_may_have_had_enough_and_what_was_read_is_told() -> None:
    rule = Rule("sinks", sinks=4, window=7)
    whole = read(tiny.loaded(), rule, IDS, go_on)
    told: list[int] = []

    def enough(done: int) -> bool:
        told.append(done)
        return done < 30

    reading = read(tiny.loaded(), rule, IDS, enough)
    assert 30 <= len(reading.losses) == told[-1] < COUNT
    assert not reading.complete
    assert whole.complete
    assert reading.losses == whole.losses[: len(reading.losses)]
    run = summarize(reading, whole, 4096, 16)
    assert (run.complete, run.tokens) == (False, len(reading.losses))
    assert run.loss_full_same_positions == pytest.approx(run.loss_same_positions)


def test_the_full_cache_counts_up_to_the_trained_length() -> None:
    full = read(tiny.loaded(), Rule("full"), IDS, go_on)
    reading = read(tiny.loaded(), Rule("sinks", sinks=4, window=WINDOW), IDS, go_on)
    run = summarize(reading, full, 100, 16)
    assert run.loss_full_same_positions == pytest.approx(sum(full.losses[WINDOW + 1 : 100]) / (99 - WINDOW))
    assert run.loss_same_positions == pytest.approx(sum(reading.losses[WINDOW + 1 : 100]) / (99 - WINDOW))
    assert run.loss_after == pytest.approx(sum(reading.losses[WINDOW + 1 :]) / (COUNT - 1 - WINDOW))
    assert run.loss_before == pytest.approx(sum(reading.losses[1 : WINDOW + 1]) / WINDOW)
    nowhere = summarize(reading, full, WINDOW, 16)
    assert nowhere.loss_full_same_positions is nowhere.loss_same_positions is nowhere.collapse_at is None


@pytest.mark.real_model
def test_the_small_models_losses_are_those_of_plain_transformers_and_of_the_reference(small_float32) -> None:
    from transformers import AutoModelForCausalLM

    from sinkchat.lab.source import read_text

    ids = small_float32.tokenizer(read_text(None).text[:2000], add_special_tokens=False).input_ids[:60]
    folder = small_float32.model.config._name_or_path
    own = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        logits = own(torch.tensor([ids]), use_cache=False).logits[0].double()
    losses = -torch.log_softmax(logits[:-1], dim=-1)[range(len(ids) - 1), ids[1:]]
    close(read(small_float32, Rule("full"), ids, go_on).losses, [None, *losses.tolist()])
    for rule in (Rule("sinks", sinks=4, window=24), Rule("recompute", window=24)):
        steps = paper.run(own, ids, rule.sinks, 24, rule.policy, keep_attention=False)
        close(read(small_float32, rule, ids, go_on).losses, paper.losses_of(steps))


@pytest.mark.parametrize("positions", ["cache", "absolute"])
def test_as_far_as_a_text_may_start_angles_are_exact(positions: str) -> None:
    rule = Rule("sinks", positions, sinks=4, window=WINDOW, start_position=FARTHEST)
    with paper.one_thread():
        expected = paper.losses_of(reference(rule))
    close(read(tiny.loaded(), rule, IDS, go_on).losses, expected, 1e-4)
