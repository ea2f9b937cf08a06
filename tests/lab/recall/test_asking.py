"""Asking for facts under a rule, against counts and loops that share nothing with it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch

import sinkchat.lab.recall.asking as module
from sinkchat.errors import CacheError, SinkchatError
from sinkchat.lab.recall.asking import Answer, ask, recall, summed_up, tokens_to_read
from sinkchat.lab.recall.stream import Probe, Stream, make_stream
from sinkchat.lab.results import Recall, Rule
from tests.engine.listening import OUT_OF_MEMORY, Failure
from tests.lab import tiny
from tests.reference import paper

WINDOW = 48


def stream(probes: int = 18, window: int = WINDOW) -> Stream:
    return make_stream(tiny.loaded(), tiny.TEXT, window, seed=2, probes=probes)


SINKS = sorted(probe.first for probe in stream().probes)[2] + 3
"""So many that two facts are among them, and a third is cut in two by their edge."""

MANY_SINKS = Rule("sinks", sinks=SINKS, window=SINKS + WINDOW)

RULES = [
    Rule("full"),
    Rule("window", window=WINDOW),
    Rule("sinks", sinks=4, window=WINDOW),
    MANY_SINKS,
    Rule("recompute", window=WINDOW),
    Rule("recompute", sinks=5, window=WINDOW),
    Rule("sinks", "absolute", sinks=4, window=WINDOW),
]

rules = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def go_on(_done: int) -> bool:
    return True


def held(rule: Rule, query: int) -> set[int]:
    """The tokens in the cache that the query sees, counted one by one."""
    here: list[int] = []
    for token in range(query + 1):
        kept = rule.sinks if rule.policy in ("sinks", "recompute") else 0
        if rule.window is not None and len(here) == rule.window:
            recents = [number for number in here if number >= kept]
            leave = -(-len(recents) // 2) if rule.policy == "recompute" else 1
            here = [number for number in here if number not in recents[:leave]]
        here.append(token)
    return set(here)


@rules
def test_visible_is_what_a_count_by_hand_says(rule) -> None:
    answers = ask(tiny.loaded(), rule, stream(), go_on)
    assert len(answers) == 18
    for answer in answers:
        fact = set(range(answer.probe.first, answer.probe.answer + 1))
        assert answer.visible == (fact <= held(rule, answer.probe.query))


def test_a_fact_that_is_cut_in_two_is_not_visible() -> None:
    rule = Rule("window", window=WINDOW)
    made = make_stream(tiny.loaded(), tiny.TEXT, WINDOW, 0, probes=9, distances=(WINDOW - 2,))
    for answer in ask(tiny.loaded(), rule, made, go_on):
        fact = set(range(answer.probe.first, answer.probe.answer + 1))
        assert fact & held(rule, answer.probe.query)
        assert not answer.visible


@torch.inference_mode()
def test_the_full_cache_answers_as_the_plain_model_does() -> None:
    made = stream()
    logits = tiny.own()(torch.tensor([made.ids])).logits[0].double()
    answers = ask(tiny.loaded(), Rule("full"), made, go_on)
    assert [answer.probe for answer in answers] == list(made.probes)
    for answer in answers:
        row = logits[answer.probe.query]
        likeliest = max(answer.probe.candidates, key=lambda token: float(row[token]))
        assert answer.right == (likeliest == made.ids[answer.probe.query + 1])
        assert answer.loss == pytest.approx(-float(row.log_softmax(-1)[answer.probe.right]), abs=1e-4)
    assert 0 < sum(answer.right for answer in answers) < len(answers), "a random model guesses"


@rules
def test_every_rule_answers_as_the_slow_reference_does(rule) -> None:
    made = stream(probes=6)
    last = max(probe.query for probe in made.probes)
    steps = paper.run(
        tiny.own(),
        made.ids[: last + 1],
        rule.sinks,
        rule.window or 1024,
        policy=rule.policy,
        positions=rule.positions,
    )
    logits = paper.logits_of(steps).double()
    for answer in ask(tiny.loaded(), rule, made, go_on):
        row = logits[answer.probe.query]
        assert answer.loss == pytest.approx(-float(row.log_softmax(-1)[answer.probe.right]), abs=1e-3)
        assert answer.right == (max(answer.probe.candidates, key=lambda t: float(row[t])) == answer.probe.right)


def test_answers_are_summed_up_by_distance_and_by_what_was_visible() -> None:
    def answer(distance: int, visible: bool, right: bool, loss: float) -> Answer:
        probe = Probe(first=40, answer=45, query=45 + distance, right=1, candidates=(3, 1, 2, 7))
        return Answer(probe, visible, right, loss)

    rule = Rule("recompute", window=64)
    answers = [
        answer(50, False, False, 6.0),
        answer(20, True, True, 1.0),
        answer(50, True, True, 0.5),
        answer(20, True, False, 2.0),
        answer(50, False, True, 4.0),
    ]
    asked = Stream(48, 1, (), ())
    assert summed_up(rule, answers, asked) == [
        Recall(rule, 20, True, asked=2, right=1, chance=0.25, loss=1.5, stream_window=48, stream_seed=1),
        Recall(rule, 50, True, asked=1, right=1, chance=0.25, loss=0.5, stream_window=48, stream_seed=1),
        Recall(rule, 50, False, asked=2, right=1, chance=0.25, loss=5.0, stream_window=48, stream_seed=1),
    ]
    assert summed_up(rule, [], asked) == []


@pytest.mark.parametrize("policy", ["sinks", "recompute"])
def test_a_fact_among_the_sinks_stays_visible(policy) -> None:
    rule = Rule(policy, sinks=SINKS, window=SINKS + 20)
    whole, too, cut = sorted(stream().probes, key=lambda probe: probe.first)[:3]
    assert min(whole.distance, too.distance, cut.distance) > 20
    answers = {answer.probe: answer.visible for answer in ask(tiny.loaded(), rule, stream(), go_on)}
    assert (answers[whole], answers[too], answers[cut]) == (True, True, False)


@rules
def test_each_distance_is_told_with_its_number_of_questions(rule) -> None:
    told = recall(tiny.loaded(), rule, stream(), go_on)
    asked: Counter[int] = Counter()
    for record in told:
        assert record.rule == rule
        assert record.chance == pytest.approx(0.1)
        assert math.isfinite(record.loss)
        asked[record.distance] += record.asked
    assert asked == Counter(probe.distance for probe in stream().probes)


def test_progress_is_told_and_ends_where_it_was_said_to() -> None:
    told: list[int] = []
    rule = Rule("recompute", window=WINDOW)

    def watching(done: int) -> bool:
        told.append(done)
        return True

    recall(tiny.loaded(), rule, stream(), watching)
    assert told == sorted(told)
    assert told[-1] == tokens_to_read(tiny.loaded(), rule, stream()) == stream().probes[-1].query + 1


def test_an_interruption_keeps_the_answers_so_far_and_reads_no_more() -> None:
    rule = Rule("sinks", sinks=4, window=WINDOW)
    whole = ask(tiny.loaded(), rule, stream(), go_on)
    told: list[int] = []

    def watching(done: int) -> bool:
        told.append(done)
        return done < 400

    answers = ask(tiny.loaded(), rule, stream(), watching)
    assert [done for done in told if done >= 400] == told[-1:]
    assert answers == whole[: len(answers)]
    assert 0 < len(answers) < len(whole)
    assert sum(record.asked for record in recall(tiny.loaded(), rule, stream(), lambda done: done < 400)) == len(
        answers
    )


def test_interrupted_at_once_there_are_no_answers() -> None:
    assert recall(tiny.loaded(), Rule("full"), stream(), lambda _done: False) == []


def test_past_the_trained_length_the_full_cache_is_not_asked() -> None:
    loaded = tiny.loaded(trained=500)
    made = stream()
    within = [probe for probe in made.probes if probe.query < 500]
    assert 0 < len(within) < len(made.probes)
    told: list[int] = []
    answers = ask(loaded, Rule("full"), made, lambda done: told.append(done) is None)
    assert [answer.probe for answer in answers] == within
    assert max(told) == tokens_to_read(loaded, Rule("full"), made) <= 500
    assert len(ask(loaded, Rule("window", window=WINDOW), made, go_on)) == len(made.probes)


def test_replaced_sinks_hold_no_facts() -> None:
    rule = replace(MANY_SINKS, sink_tokens="newlines")
    made = stream()
    there = [probe for probe in made.probes if probe.first < SINKS]
    answers = ask(tiny.loaded(), rule, made, go_on)
    assert len(there) == 3
    assert [answer.probe for answer in answers] == [probe for probe in made.probes if probe not in there]
    as_text = ask(tiny.loaded(), replace(rule, sink_tokens="text"), made, go_on)
    losses = {answer.probe: answer.loss for answer in as_text}
    assert any(abs(losses[answer.probe] - answer.loss) > 1e-3 for answer in answers), "the sinks are others"


def test_a_device_that_fails_is_told(monkeypatch) -> None:
    made = module.engine_for

    def failing(*arguments):
        engine = made(*arguments)
        Failure(engine).next(OUT_OF_MEMORY)
        return engine

    monkeypatch.setattr(module, "engine_for", failing)
    with pytest.raises(SinkchatError, match="The memory of cpu ran out"):
        recall(tiny.loaded(), Rule("full"), stream(), go_on)


def test_a_rule_that_makes_no_cache_is_told() -> None:
    with pytest.raises(CacheError, match="no room for a recent token"):
        recall(tiny.loaded(), Rule("sinks", sinks=48, window=WINDOW), stream(), go_on)
