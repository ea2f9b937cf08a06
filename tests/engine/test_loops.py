"""The watch for replies that go round in circles, against a search through the whole reply."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sinkchat.engine.loops import LEAST_REPEATS, LEAST_TOKENS, LONGEST_PERIOD, LoopWatch


def search(ids: list[int]) -> tuple[int, int] | None:
    """The shortest piece that the end of `ids` repeats, often enough and over tokens enough."""
    for period in range(1, LONGEST_PERIOD + 1):
        length = period
        while length < len(ids) and ids[-length - 1] == ids[-length - 1 + period]:
            length += 1
        if length <= len(ids) and length >= max(LEAST_REPEATS * period, LEAST_TOKENS):
            return period, length // period
    return None


loops = st.builds(
    lambda head, piece, times, tail: head + piece * times + tail,
    st.lists(st.integers(0, 3), max_size=20),
    st.lists(st.integers(0, 3), min_size=1, max_size=LONGEST_PERIOD + 2),
    st.integers(1, 30),
    st.lists(st.integers(0, 3), max_size=3),
)


@given(ids=st.one_of(loops, st.lists(st.integers(0, 1), max_size=200)))
@example(ids=[1] * 40)
@example(ids=list(range(LONGEST_PERIOD)) * 5)
@example(ids=list(range(LONGEST_PERIOD + 1)) * 5)
@settings(max_examples=200, deadline=None)
def test_every_loop_is_found_when_it_is_there_and_never_else(ids) -> None:
    watch = LoopWatch()
    for count in range(1, len(ids) + 1):
        assert watch.push(ids[count - 1]) == search(ids[:count])


@pytest.mark.parametrize(
    ("piece", "times", "found"),
    [
        ([7], LEAST_TOKENS - 1, None),
        ([7], LEAST_TOKENS, (1, LEAST_TOKENS)),
        ([1, 2], 11, None),
        ([1, 2], 12, (2, 12)),
        (list(range(10)), 3, None),
        (list(range(10)), 4, (10, 4)),
        (list(range(LONGEST_PERIOD)), 4, (LONGEST_PERIOD, 4)),
        (list(range(LONGEST_PERIOD + 1)), 9, None),
    ],
)
def test_how_often_is_often_enough(piece, times, found) -> None:
    watch = LoopWatch()
    assert [watch.push(token) for token in piece * times][-1] == found
