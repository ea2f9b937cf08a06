"""Going on freely, against the engine's own draws, a plain model and slow definitions."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sinkchat.lab.generation as module
from sinkchat.engine.events import Token
from sinkchat.errors import CacheError, SinkchatError, UsageError
from sinkchat.lab.generation import distinct, generate, loops
from sinkchat.lab.reading import engine_for
from sinkchat.lab.results import Generation, Rule
from sinkchat.models.sampling import Sampling
from tests.engine.listening import GREEDY, OUT_OF_MEMORY, Failure
from tests.lab import tiny
from tests.reference.tiny import random_tokens

RULES = [
    Rule("full"),
    Rule("sinks", sinks=4, window=24),
    Rule("window", window=24),
    Rule("recompute", sinks=2, window=24),
]
rules = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)

PROMPT = random_tokens(30, vocabulary=300)


def go_on(_done: int) -> bool:
    return True


def generated(rule: Rule = RULES[1], tokens: int = 50, seed: int = 3, watching=go_on, **options: Any) -> Generation:
    loaded = options.pop("loaded", None) or tiny.loaded()
    return generate(loaded, rule, PROMPT, tokens, seed, watching, **options)


def drawn(rule: Rule, tokens: int = 50, seed: int = 3) -> list[Token]:
    """By the engine alone."""
    engine = engine_for(tiny.loaded(), rule, replace(tiny.LIVELY, seed=seed))
    list(engine.prefill(PROMPT))
    return [event for event in engine.generate(tokens, ignore_stops=True) if isinstance(event, Token)]


# What repeats


def continues_a_loop(ids: list[int], last: int) -> bool:
    """Whether the tokens up to `last` end in a piece, repeated four times and over 24 tokens."""
    until = ids[: last + 1]
    for period in range(1, 65):
        length = max(4 * period, 24)
        piece = until[-length:][:period]
        if len(until) >= length and until[-length:] == (piece * length)[:length]:
            return True
    return False


pieces = st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.integers(1, 12)), max_size=4)


@settings(max_examples=60, deadline=None)
@given(pieces)
def test_loops_are_what_a_slow_search_finds(repeated) -> None:
    ids = [token for piece, times in repeated for token in piece * times]
    found = [number for number in range(1, len(ids) + 1) if continues_a_loop(ids, number - 1)]
    assert loops(ids) == (len(found), found[0] if found else None)


def test_a_long_piece_is_a_loop_up_to_64_tokens() -> None:
    for period, known in ((64, True), (65, False)):
        ids = random_tokens(period, vocabulary=100_000) * 5
        assert loops(ids) == ((period + 1, 4 * period) if known else (0, None))


def test_ngrams() -> None:
    assert [distinct([1, 2, 1, 2, 1], n) for n in (1, 2, 3, 4)] == [2 / 5, 2 / 4, 2 / 3, 2 / 2]
    assert [distinct([1, 1], n) for n in (1, 2, 3, 4)] == [1 / 2, 1.0, None, None]
    assert distinct([], 1) is None


def test_what_the_model_repeats_is_told() -> None:
    """Who sees one token alone, and takes the likeliest next, comes round again."""
    told = generated(Rule("window", window=1), tokens=400, sampling=GREEDY)
    assert 0 < told.loop_rate < 1
    assert told.loop_rate == pytest.approx((400 - told.loop_at + 1) / 400)
    assert told.distinct[0] < told.distinct[3] * 1.1 < 0.6


# What is drawn


@rules
def test_the_tokens_are_those_that_the_engine_draws_with_this_seed(rule) -> None:
    told, tokens = generated(rule), drawn(rule)
    assert (told.rule, told.seed, told.prompt_tokens, told.tokens) == (rule, 3, 30, 50)
    assert told.text == tiny.byte_level().decode([token.id for token in tokens], clean_up_tokenization_spaces=False)
    assert told.loss == pytest.approx(fmean(token.loss for token in tokens))
    assert told.distinct[:2] == (distinct([t.id for t in tokens], 1), distinct([t.id for t in tokens], 2))
    assert generated(rule) == told
    assert generated(rule, seed=4).text != told.text


@rules
@torch.inference_mode()
def test_the_full_caches_losses_are_those_of_the_plain_model(rule) -> None:
    told, ids = generated(rule, size=16), [token.id for token in drawn(rule)]
    logits = tiny.own()(torch.tensor([[*PROMPT, *ids]])).logits[0].double().log_softmax(-1)
    losses = [-float(logits[len(PROMPT) - 1 + at, token]) for at, token in enumerate(ids)]
    assert told.loss_full == pytest.approx(fmean(losses), abs=1e-4)
    assert [first for first, _, _ in told.curve] == [0, 16, 32, 48]
    own = [token.loss for token in drawn(rule)]
    for first, loss, full in told.curve:
        assert loss == pytest.approx(fmean(own[first : first + 16]))
        assert full == pytest.approx(fmean(losses[first : first + 16]), abs=1e-4)
    if rule.policy != "full":
        assert told.loss_full > told.loss + 0.01, "the full cache would have said something else"


def test_the_makers_sampling_holds_unless_another_is_given() -> None:
    greedy = tiny.loaded(sampling=GREEDY)
    assert generated(loaded=greedy, seed=1).text == generated(loaded=greedy, seed=2).text
    assert generated(loaded=greedy).text == generated(sampling=GREEDY).text
    own_seed = Sampling(temperature=1.0, min_p=None, repetition_penalty=None, seed=99)
    assert generated(sampling=own_seed, seed=3).text == generated(seed=3).text


def test_stops_do_not_end_it() -> None:
    usual = {token.id for token in drawn(RULES[1])}
    told = generated(loaded=tiny.loaded(stops=frozenset(usual)))
    assert told.tokens == 50
    assert told.text != generated().text


def test_past_the_trained_length_there_is_no_control() -> None:
    assert generated(loaded=tiny.loaded(trained=80)).loss_full is not None
    for rule in RULES:
        told = generated(rule, loaded=tiny.loaded(trained=79))
        assert told.tokens == 50
        assert told.loss_full is None
        assert all(full is None for _, _, full in told.curve)


def test_replaced_sinks_are_read_by_both() -> None:
    rule = Rule("sinks", sinks=4, window=24, sink_tokens="newlines")
    told = generated(rule)
    assert told.text != generated(replace(rule, sink_tokens="text")).text
    assert told.loss_full is not None


# Interrupted


def test_progress_counts_what_is_fed() -> None:
    told: list[int] = []
    generated(watching=lambda done: told.append(done) is None)
    assert told == sorted(told)
    assert told[-1] == 30 + 50 + (30 + 50)
    assert set(range(31, 81)) <= set(told), "at each token"


@pytest.mark.parametrize("count", [1, 20])
def test_what_was_drawn_so_far_is_kept(count) -> None:
    told = generated(watching=lambda done: done < 30 + count)
    tokens = drawn(RULES[1])[:count]
    assert told.tokens == count
    assert told.text == tiny.byte_level().decode([token.id for token in tokens], clean_up_tokenization_spaces=False)
    assert told.loss == pytest.approx(fmean(token.loss for token in tokens))
    assert told.loss_full is None
    assert told.curve[0] == (0, pytest.approx(fmean(t.loss for t in tokens[:16])), None)


def test_interrupted_in_the_prompt_nothing_is_drawn() -> None:
    told = generated(watching=lambda _done: False)
    assert (told.tokens, told.loop_rate, told.loop_at, told.loss, told.loss_full) == (0, 0.0, None, None, None)
    assert (tuple(told.distinct), tuple(told.curve), told.text) == ((None,) * 4, (), "")


def test_interrupted_in_the_second_reading_the_first_is_told() -> None:
    told, whole = generated(tokens=300, watching=lambda done: done <= 330), generated(tokens=300)
    assert whole.loss_full is not None
    assert told == replace(whole, loss_full=None, curve=tuple((first, loss, None) for first, loss, _ in whole.curve))


# Refused


def test_bad_input_is_told() -> None:
    with pytest.raises(UsageError, match="The prompt has no tokens"):
        generate(tiny.loaded(), RULES[0], [], 5, 0, go_on)
    with pytest.raises(UsageError, match="ask for 1 or more"):
        generated(tokens=0)
    with pytest.raises(CacheError, match="no room for a recent token"):
        generated(Rule("sinks", sinks=24, window=24))


def test_a_device_that_fails_is_told(monkeypatch) -> None:
    made = module.engine_for

    def failing(*arguments):
        engine = made(*arguments)
        Failure(engine).next(OUT_OF_MEMORY)
        return engine

    monkeypatch.setattr(module, "engine_for", failing)
    with pytest.raises(SinkchatError, match="The memory of cpu ran out"):
        generated()
