"""The reference against the models' own attention, and against small cases worked out by hand."""

from __future__ import annotations

import random

import pytest
import torch

from . import eager, paper, tiny

TOLERANCE = 1e-4  # of the scale of the logits; a wrong angle or a wrong entry is off by far more

MODELS = {
    "one key head, three layers": {"heads": 3, "kv_heads": 1, "head_dim": 8, "layers": 3},
    "a key head each, bias": {"heads": 2, "kv_heads": 2, "head_dim": 32, "attention_bias": True, "seed": 1},
    "linear": {"rope": "linear", "seed": 2},
    "llama3, bias": {"rope": "llama3", "attention_bias": True, "seed": 3},
    "yarn": {"rope": "yarn", "seed": 4},
}
SHAPES = [(4, 16), (0, 12), (1, 9), (4, 5), (2, 200)]
SCHEDULES: list[paper.Schedule] = [
    {26: [("policy", "window")], 38: [("policy", "sinks")]},
    {20: [("window", 24)], 40: [("window", 10)], 45: [("window", 32)]},
    {5: [("policy", "window")], 14: [("policy", "sinks")], 15: [("policy", "window")], 17: [("policy", "sinks")]},
    {18: [("policy", "window")], 19: [("window", 30), ("policy", "sinks")], 60: [("policy", "window")]},
]


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(params=MODELS, scope="module")
def model(request):
    return tiny.tiny_llama(**MODELS[request.param])


def difference(one, other):
    return ((one - other).abs().max() / other.abs().max()).item()


def close(steps, logits):
    return difference(paper.logits_of(steps), logits) < TOLERANCE


def attention_close(step, full_row, numbers):
    """`full_row` [layers, heads, T] is the eager attention of the query over all tokens."""
    others = [number for number in range(full_row.shape[-1]) if number not in numbers]
    assert not full_row[:, :, others].any()
    return (step.attention - full_row[:, :, list(numbers)]).abs().max().item() < TOLERANCE


# ---- against the model's own attention ----------------------------------------------------------------------------


@pytest.mark.parametrize("positions", paper.POSITIONS)
def test_full_is_the_models_own_causal_attention(model, positions):
    tokens = tiny.random_tokens(70)
    steps = paper.run(model, tokens, policy="full", positions=positions)
    own = eager.run_masked(model, tokens, eager.causal(70))
    assert close(steps, own.logits)
    assert all(attention_close(step, own.attentions[:, :, t], range(t + 1)) for t, step in enumerate(steps))
    assert difference(model(torch.tensor([tokens])).logits[0], own.logits) < 1e-6


@pytest.mark.parametrize("shape", SHAPES)
def test_absolute_is_the_models_own_attention_under_a_mask(model, shape):
    tokens = tiny.random_tokens(40)
    steps = paper.run(model, tokens, *shape, positions="absolute", start_position=100)
    seen = eager.visibility(40, *shape)
    own = eager.run_masked(model, tokens, seen, start_position=100)
    assert close(steps, own.logits)
    for t, step in enumerate(steps):
        assert attention_close(step, own.attentions[:, :, t], [p - 100 for p in step.visible])
        share = own.attentions[:, :, t, list(range(min(shape[0], t + 1)))].sum(-1)
        assert (step.sink_share - share).abs().max() < TOLERANCE


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_absolute_with_live_changes(model, schedule):
    tokens = tiny.random_tokens(66)
    steps = paper.run(model, tokens, 4, 16, positions="absolute", schedule=schedule)
    own = eager.run_masked(model, tokens, eager.visibility(66, 4, 16, schedule=schedule))
    assert close(steps, own.logits)
    assert all(attention_close(step, own.attentions[:, :, t], step.visible) for t, step in enumerate(steps))


@pytest.mark.parametrize("shape", SHAPES)
def test_cache_positions_are_the_models_own_attention_over_placed_keys(model, shape):
    tokens = tiny.random_tokens(40)
    steps = paper.run(model, tokens, *shape)
    own = eager.run_placed(model, tokens, eager.visibility(40, *shape))
    assert close(steps, own.logits)
    for step, weights in zip(steps, own.attentions, strict=True):
        assert (step.attention - weights).abs().max() < TOLERANCE


@pytest.mark.parametrize("schedule", [*SCHEDULES, {33: [("positions", "absolute")], 55: [("positions", "cache")]}])
def test_cache_positions_with_live_changes(model, schedule):
    tokens = tiny.random_tokens(66)
    steps = paper.run(model, tokens, 4, 16, schedule=schedule)
    seen = eager.visibility(66, 4, 16, schedule=schedule)
    assert close(steps, eager.run_placed(model, tokens, seen).logits)


@pytest.mark.parametrize("shape", [(4, 12), (0, 12)])
def test_with_one_layer_a_query_is_the_last_token_of_a_short_text(shape):
    """Keys and values of a single layer know nothing of other tokens, so what is visible is the whole text."""
    model = tiny.tiny_llama(layers=1, attention_bias=True)
    tokens = tiny.random_tokens(40)
    for step in paper.run(model, tokens, *shape, start_position=7):
        text = [tokens[position - 7] for position in step.visible]
        own = eager.run_masked(model, text, eager.causal(len(text)))
        assert difference(step.logits, own.logits[-1]) < TOLERANCE
        assert (step.attention - own.attentions[:, :, -1]).abs().max() < TOLERANCE


# ---- what must and must not change --------------------------------------------------------------------------------


def test_before_the_first_eviction_every_policy_is_the_full_cache(model):
    tokens = tiny.random_tokens(20)
    full = paper.logits_of(paper.run(model, tokens, policy="full"))
    for policy in ("sinks", "window"):
        for positions in paper.POSITIONS:
            assert close(paper.run(model, tokens, 4, 20, policy=policy, positions=positions), full)


def test_the_start_position_changes_nothing(model):
    tokens = tiny.random_tokens(50)
    for positions in paper.POSITIONS:
        near = paper.run(model, tokens, 4, 16, positions=positions, schedule=SCHEDULES[0])
        far = paper.run(model, tokens, 4, 16, positions=positions, schedule=SCHEDULES[0], start_position=10**6)
        assert close(far, paper.logits_of(near))
        assert [p + 10**6 for p in near[-1].visible] == list(far[-1].visible)
        assert [step.position for step in far] == list(range(10**6, 10**6 + 50))


def test_what_is_compared_does_differ(model):
    """The tests above would be worth nothing if these agreed."""
    tokens = tiny.random_tokens(40)
    runs = {
        "sinks": paper.run(model, tokens, 4, 16),
        "absolute": paper.run(model, tokens, 4, 16, positions="absolute"),
        "window": paper.run(model, tokens, 4, 16, policy="window"),
        "full": paper.run(model, tokens, policy="full"),
        "fewer sinks": paper.run(model, tokens, 3, 16),
        "one more entry": paper.run(model, tokens, 4, 17),
    }
    last = {name: paper.logits_of(steps)[-20:] for name, steps in runs.items()}
    for one in last:
        for other in last:
            assert one == other or difference(last[one], last[other]) > 100 * TOLERANCE, (one, other)


def test_without_sinks_the_policies_are_one():
    model = tiny.tiny_llama()
    tokens = tiny.random_tokens(40)
    window = paper.run(model, tokens, 4, 12, policy="window")
    assert close(paper.run(model, tokens, 0, 12), paper.logits_of(window))


def test_attention_is_a_distribution_and_far_from_uniform(model):
    steps = paper.run(model, tiny.random_tokens(66), 4, 40)
    weights = steps[-1].attention
    assert torch.allclose(weights.sum(-1), torch.ones(weights.shape[:2]), atol=1e-6)
    assert torch.allclose(steps[-1].share(40), torch.ones(weights.shape[:2]), atol=1e-6)
    assert weights.max(dim=-1).values.mean() > 4 / 40


def test_a_bounded_cache_in_double_precision_agrees():
    tokens = tiny.random_tokens(50)
    exact = paper.run(tiny.tiny_llama(dtype=torch.float64), tokens, 4, 16)
    assert (
        difference(paper.logits_of(paper.run(tiny.tiny_llama(), tokens, 4, 16)).double(), paper.logits_of(exact))
        < 1e-5
    )


# ---- bookkeeping --------------------------------------------------------------------------------------------------


def test_bookkeeping_by_hand():
    model = tiny.tiny_llama(layers=1)
    schedule = {8: [("policy", "window")], 11: [("policy", "sinks")], 12: [("window", 3)], 13: [("window", 6)]}
    steps = paper.run(model, tiny.random_tokens(16), 2, 5, schedule=schedule)
    rows = [(list(step.visible), step.sinks, step.evicted_total, step.readmitted_total) for step in steps]
    assert rows == [
        ([0], 1, 0, 0),
        ([0, 1], 2, 0, 0),
        ([0, 1, 2], 2, 0, 0),
        ([0, 1, 2, 3], 2, 0, 0),
        ([0, 1, 2, 3, 4], 2, 0, 0),
        ([0, 1, 3, 4, 5], 2, 1, 0),
        ([0, 1, 4, 5, 6], 2, 2, 0),
        ([0, 1, 5, 6, 7], 2, 3, 0),
        ([5, 6, 7, 8], 0, 5, 0),  # both sinks left at once
        ([5, 6, 7, 8, 9], 0, 5, 0),  # refilled
        ([6, 7, 8, 9, 10], 0, 6, 0),
        ([0, 1, 9, 10, 11], 2, 9, 2),  # 6 and 7 made room for the sinks, 8 for the new token
        ([0, 1, 12], 2, 12, 2),
        ([0, 1, 12, 13], 2, 12, 2),
        ([0, 1, 12, 13, 14], 2, 12, 2),
        ([0, 1, 12, 13, 14, 15], 2, 12, 2),
    ]
    assert [step.index for step in steps] == [len(row[0]) - 1 for row in rows]


def test_sinks_that_nothing_separates_from_the_recents_stay_and_come_back():
    model = tiny.tiny_llama(layers=1)
    schedule = {4: [("policy", "window")], 6: [("policy", "sinks")]}
    steps = paper.run(model, tiny.random_tokens(7), 2, 5, schedule=schedule)
    rows = [(list(step.visible), step.sinks, step.evicted_total, step.readmitted_total) for step in steps[3:]]
    assert rows == [
        ([0, 1, 2, 3], 2, 0, 0),
        ([0, 1, 2, 3, 4], 0, 0, 0),
        ([1, 2, 3, 4, 5], 0, 1, 0),
        ([0, 1, 4, 5, 6], 2, 3, 1),  # 1 was still here; 2 made room for 0, 3 for the new token
    ]


def test_readmitted_sinks_are_what_they_were():
    model = tiny.tiny_llama(layers=3)
    cache = paper.Paper(model, 4, 12)
    cache.feed(tiny.random_tokens(30))
    before = [entries[:4] for entries in cache.cache]
    cache.set_policy("window")
    assert cache.held() == list(range(22, 30))
    cache.set_policy("sinks")
    assert cache.held() == [0, 1, 2, 3, *range(22, 30)]
    for old, new in zip(before, cache.cache, strict=True):
        for (p, key, value), (q, key_again, value_again) in zip(old, new[:4], strict=True):
            assert p == q
            assert torch.equal(key, key_again)
            assert torch.equal(value, value_again)


def test_full_only_while_nothing_is_missing():
    model = tiny.tiny_llama(layers=1)
    cache = paper.Paper(model, 2, 5)
    cache.feed(tiny.random_tokens(5))
    cache.set_policy("full")
    cache.feed(tiny.random_tokens(5))
    assert cache.held() == list(range(10))
    cache.set_policy("sinks")
    assert cache.held() == [0, 1, 7, 8, 9]
    with pytest.raises(ValueError, match="built again"):
        cache.set_policy("full")


@pytest.mark.parametrize("seed", range(25))
def test_two_bookkeepers_agree_on_any_schedule(seed):
    """And both hold what a bounded cache promises."""
    dice = random.Random(seed)
    model = tiny.tiny_llama(layers=1, heads=1, kv_heads=1, head_dim=4, hidden=8)
    sinks = dice.choice([0, 1, 2, 4])
    window = sinks + dice.randint(1, 12)
    schedule: dict[int, list[tuple[str, object]]] = {}
    for _ in range(dice.randint(0, 8)):
        change = dice.choice([("policy", "window"), ("policy", "sinks"), ("window", sinks + dice.randint(1, 14))])
        schedule.setdefault(dice.randint(0, 59), []).append(change)
    policy = dice.choice(["sinks", "window"])
    steps = paper.run(model, tiny.random_tokens(60), sinks, window, policy=policy, schedule=schedule)
    seen = eager.visibility(60, sinks, window, policy=policy, schedule=schedule)
    for t, step in enumerate(steps):
        assert list(step.visible) == sorted(seen.seen[t])
        assert list(step.visible[: step.sinks]) == sorted(seen.sinks[t])
        assert (step.evicted_total, step.readmitted_total) == (seen.evicted_total[t], seen.readmitted_total[t])
        assert step.entries + step.evicted_total - step.readmitted_total == t + 1
        for what, value in schedule.get(t, ()):
            policy, window = (value, window) if what == "policy" else (policy, value)
        assert step.entries <= window
        recents = step.visible[step.sinks :]
        assert step.sinks == (min(sinks, t + 1) if policy == "sinks" else 0)
        assert not recents or list(recents) == list(range(recents[0], t + 1))


def test_what_would_be_wrong_without_a_word_is_refused():
    model = tiny.tiny_llama()
    for arguments in ({"sinks": 4, "window": 4}, {"policy": "ring"}, {"positions": "relative"}):
        with pytest.raises(ValueError, match=r"window|policy"):
            paper.Paper(model, **arguments)
    with pytest.raises(ValueError, match="float32"):
        paper.Paper(tiny.tiny_llama(dtype=torch.bfloat16))
    model.config.model_type = "qwen3"
    with pytest.raises(ValueError, match="qwen3"):
        paper.Paper(model)
    with pytest.raises(ValueError, match="eager"):
        eager.run_masked(tiny.tiny_llama(attn_implementation="sdpa"), [1, 2], eager.causal(2))


def test_losses():
    steps = paper.run(tiny.tiny_llama(), tiny.random_tokens(12), policy="full")
    losses = paper.losses_of(steps)
    assert losses[0] is None
    expected = torch.nn.functional.cross_entropy(
        paper.logits_of(steps)[:-1], torch.tensor([step.token for step in steps[1:]]), reduction="none"
    )
    assert torch.allclose(torch.tensor(losses[1:]), expected, atol=1e-5)
    assert paper.perplexity(steps) == pytest.approx(expected.mean().exp().item(), rel=1e-5)
