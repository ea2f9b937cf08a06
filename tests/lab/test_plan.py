"""Which runs come of lists."""

from __future__ import annotations

import pytest

from sinkchat.errors import SinkchatError
from sinkchat.lab.plan import Plan
from sinkchat.lab.results import Rule


def test_the_full_cache_is_read_once_and_first() -> None:
    rules = Plan(policies=("sinks", "full"), windows=(64, 128)).rules()
    assert rules == (Rule("full"), Rule("sinks", sinks=4, window=64), Rule("sinks", sinks=4, window=128))


def test_no_sinks_are_a_window_once_for_each_size() -> None:
    rules = Plan(policies=("window", "sinks"), windows=(64, 128), sinks=(0, 1, 4)).rules()
    assert [rule.name for rule in rules] == [
        "window 64, no sinks",
        "1 sink, window 64",
        "4 sinks, window 64",
        "window 128, no sinks",
        "1 sink, window 128",
        "4 sinks, window 128",
    ]


def test_only_sinks_can_be_far_away_and_only_for_absolute_positions() -> None:
    plan = Plan(
        policies=("window", "sinks", "recompute"),
        windows=(64,),
        positions=("cache", "absolute"),
        start_positions=(0, 8000),
    )
    assert plan.rules() == (
        Rule("window", window=64),
        Rule("sinks", "cache", 4, 64),
        Rule("sinks", "absolute", 4, 64),
        Rule("sinks", "absolute", 4, 64, 8000),
        Rule("recompute", window=64),
    )


def test_who_asks_for_nothing_else_may_see_that_distance_is_nothing_to_the_cache() -> None:
    rules = Plan(policies=("sinks",), windows=(64,), positions=("cache",), start_positions=(0, 8000)).rules()
    assert rules == (Rule("sinks", sinks=4, window=64), Rule("sinks", sinks=4, window=64, start_position=8000))


def test_sinks_are_replaced_beside_those_of_the_text() -> None:
    rules = Plan(policies=("sinks",), windows=(64,), sinks=(0, 2), sink_tokens=("text", "newlines", "random")).rules()
    assert [(rule.policy, rule.sinks, rule.sink_tokens) for rule in rules] == [
        ("window", 0, "text"),
        ("sinks", 2, "text"),
        ("sinks", 2, "newlines"),
        ("sinks", 2, "random"),
    ]


def test_replaced_sinks_stand_where_the_others_do() -> None:
    rules = Plan(policies=("sinks",), windows=(64,), positions=("absolute",), sink_tokens=("newlines",)).rules()
    assert [(rule.positions, rule.sink_tokens) for rule in rules] == [("absolute", "text"), ("absolute", "newlines")]


def test_a_name_tells_rules_apart() -> None:
    plan = Plan(
        policies=("full", "window", "sinks", "recompute"),
        windows=(64, 128),
        sinks=(0, 1, 4),
        positions=("cache", "absolute"),
        start_positions=(0, 8000),
        sink_tokens=("text", "newlines", "random"),
    )
    rules = plan.rules()
    assert len({rule.name for rule in rules}) == len(rules)


@pytest.mark.parametrize(
    ("lists", "named"),
    [
        ({"policies": ("full", "ring")}, "ring"),
        ({"positions": ("relative",)}, "relative"),
        ({"sink_tokens": ("dots",)}, "dots"),
        ({"start_positions": (-1,)}, "-1"),
        ({"positions": ("absolute",), "start_positions": (10**12,)}, "give 1,000,000,000 or less"),
        ({"sinks": (-1,)}, "-1 sinks"),
        ({"windows": (8,), "sinks": (4, 8)}, "window of 9"),
        (
            {"policies": ("full", "window"), "positions": ("cache", "absolute")},
            "--positions absolute .*add sinks to --policies",
        ),
        ({"sinks": (0,), "positions": ("absolute",)}, "--positions absolute .*give --sinks 1"),
        ({"start_positions": (0, 8000)}, "--start-position .*add --positions absolute"),
        (
            {"policies": ("recompute",), "positions": ("cache",), "start_positions": (8000,)},
            "--start-position .*none",
        ),
        ({"policies": ("full", "recompute"), "sink_tokens": ("text", "newlines")}, "--sink-tokens .*add sinks"),
    ],
)
def test_lists_that_make_no_sense_are_told_in_one_sentence(lists, named) -> None:
    with pytest.raises(SinkchatError, match=named) as told:
        Plan(**lists).rules()
    assert str(told.value).endswith(".")
    assert told.value.exit_code == 2
