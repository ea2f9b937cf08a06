"""The arithmetic on losses equals the obvious formula, in exact fractions; where nothing is known it says nothing."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkchat.lab.figures import (
    COLLAPSE_NATS,
    COLLAPSE_TOKENS,
    POINTS,
    SMALLEST_BIN,
    Losses,
    bin_size,
    binned,
    collapse_at,
    mean,
    perplexity,
    slope,
    slope_of_difference,
)

loss = st.floats(0, 30, width=32)
texts = st.lists(loss | st.none(), min_size=0, max_size=60)


def exact_line(points: Sequence[tuple[int, Fraction]]) -> tuple[float, float]:
    """Slope and its standard error by the normal equations, in fractions, per 1,000 tokens."""
    n = len(points)
    sum_x, sum_y = sum(x for x, _ in points), sum((y for _, y in points), Fraction())
    sum_xx, sum_xy = sum(x * x for x, _ in points), sum((x * y for x, y in points), Fraction())
    rise = (n * sum_xy - sum_x * sum_y) / Fraction(n * sum_xx - sum_x**2)
    base = (sum_y - rise * sum_x) / n
    residual = sum(((y - base - rise * x) ** 2 for x, y in points), Fraction())
    variance = residual / (n - 2) / (Fraction(sum_xx) - Fraction(sum_x**2, n))
    return 1000 * float(rise), 1000 * math.sqrt(variance)


def points(losses: Losses, first: int, last: int) -> list[tuple[int, Fraction]]:
    return [(at, Fraction(value)) for at, value in enumerate(losses) if value is not None and first <= at <= last]


def parted(losses: Sequence[int], control: Sequence[int], first_eviction: int, last: int) -> int | None:
    """The definition, word by word, in whole 1,024ths of a nat."""
    compared = last - first_eviction
    for start in range(first_eviction + 1, last - COLLAPSE_TOKENS + 2):
        if last + 1 - start < compared / 4:
            return None
        spans = (range(start, start + COLLAPSE_TOKENS), range(start, last + 1))
        if all(sum(losses[at] - control[at] for at in span) > 1024 * COLLAPSE_NATS * len(span) for span in spans):
            return start
    return None


@given(texts, st.integers(0, 60), st.integers(0, 60))
def test_a_mean_is_over_the_losses_that_there_are(losses: Losses, first: int, last: int) -> None:
    there = [value for _, value in points(losses, first, last)]
    found = mean(losses, first, last)
    if there:
        assert found == pytest.approx(float(sum(there) / len(there)), rel=1e-15)
    else:
        assert found is None


def test_a_mean_of_everything_needs_no_range() -> None:
    assert mean([None, 1.0, 2.0, 6.0]) == 3.0
    assert mean([None]) is None
    assert mean([]) is None


def test_a_loss_that_is_not_finite_is_in_its_mean() -> None:
    assert mean([None, 1.0, math.inf]) == math.inf
    assert math.isnan(mean([None, 1.0, math.nan]) or 0.0)


def test_perplexity_is_exp_of_a_loss_wherever_that_leads() -> None:
    assert perplexity(math.log(11.5)) == pytest.approx(11.5)
    assert perplexity(800.0) == perplexity(math.inf) == math.inf
    assert math.isnan(perplexity(math.nan) or 0.0)
    assert perplexity(None) is None


@given(texts, st.integers(0, 60), st.integers(0, 60))
def test_a_slope_and_its_error_equal_the_normal_equations(losses: Losses, first: int, last: int) -> None:
    there = points(losses, first, last)
    rise, error = slope(losses, first, last)
    if len(there) < 2:
        assert (rise, error) == (None, None)
    elif len(there) == 2:
        (x, y), (later, other) = there
        assert rise == pytest.approx(1000 * float((other - y) / (later - x)), abs=1e-9)
        assert error is None
    else:
        expected = exact_line(there)
        assert rise == pytest.approx(expected[0], rel=1e-9, abs=1e-9)
        assert error == pytest.approx(expected[1], rel=1e-9, abs=1e-9)


def test_a_straight_line_has_its_slope_and_no_error() -> None:
    losses = [None, *(2.0 + at / 1024 for at in range(1, 500))]
    rise, error = slope(losses, 100)
    assert rise == pytest.approx(1000 / 1024, rel=1e-12)
    assert error == pytest.approx(0, abs=1e-9)


def test_a_small_slope_far_into_a_text_is_still_exact() -> None:
    drawn = random.Random(1)
    losses = [None, *(3 + drawn.random() + 1e-7 * at for at in range(1, 30_000))]
    rise, error = slope(losses, 25_000)
    expected = exact_line(points(losses, 25_000, 30_000))
    assert rise == pytest.approx(expected[0], rel=1e-9)
    assert error == pytest.approx(expected[1], rel=1e-9)


@given(texts, texts, st.integers(0, 60), st.integers(0, 60))
def test_a_slope_over_a_control_is_that_of_the_differences(
    losses: Losses, control: Losses, first: int, last: int
) -> None:
    pairs = zip(losses, control, strict=False)
    differences = [None if one is None or other is None else one - other for one, other in pairs]
    assert slope_of_difference(losses, control, first, last) == slope(differences, first, last)


def test_a_slope_over_losses_that_are_not_finite_is_not_a_number() -> None:
    for rise, error in (
        slope([None, 1.0, math.inf, 2.0], 1),
        slope_of_difference([None, 1.0, 2.0, 3.0], [None, 1.0, math.inf, 2.0], 1),
    ):
        assert rise is not None
        assert error is not None
        assert math.isnan(rise)
        assert math.isnan(error)


def test_a_million_losses_are_no_matter() -> None:
    drawn = random.Random(2)
    losses = [None, *(drawn.random() * 6 for _ in range(1_000_000))]
    control = [None, *(value - 0.499 for value in losses[1:] if value is not None)]
    assert slope(losses, 512)[0] is not None
    assert slope_of_difference(losses, control, 512)[0] == pytest.approx(0, abs=1e-9)
    assert collapse_at(losses, control, 512) is None
    assert mean(losses) is not None
    assert len(binned(losses, bin_size(len(losses)))) <= POINTS


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_the_collapse_is_where_the_definition_says(data: st.DataObject) -> None:
    tokens = data.draw(st.integers(2, 900))
    drawn = random.Random(data.draw(st.integers()))
    control = [drawn.randrange(6 * 1024) for _ in range(tokens)]
    step, height = data.draw(st.integers(1, 900)), data.draw(st.sampled_from([0, 511, 512, 513, 3000]))
    noise = data.draw(st.sampled_from([1, 200]))
    losses = [
        value + (height if at >= step else 0) + drawn.randrange(noise) - noise // 2
        for at, value in enumerate(control)
    ]
    first_eviction, last = data.draw(st.integers(1, tokens)), data.draw(st.integers(0, tokens - 1))
    found = collapse_at(in_nats(losses), in_nats(control), first_eviction, last)
    assert found == parted(losses, control, first_eviction, last)


def in_nats(values: Sequence[int]) -> Losses:
    return [None, *(value / 1024 for value in values[1:])]


def test_a_collapse_needs_more_than_the_bound_for_the_whole_stretch() -> None:
    control = [None, *[3.0] * 1000]
    exactly = [None, *[3.0 + COLLAPSE_NATS] * 1000]
    assert collapse_at(exactly, control, 100) is None
    exactly[400] = 3.6
    assert collapse_at(exactly, control, 100) == 400 - COLLAPSE_TOKENS + 1
    assert collapse_at([None, *[4.0] * 1000], control, 100, 100 + COLLAPSE_TOKENS) == 101
    assert collapse_at([None, *[4.0] * 1000], control, 100, 100 + COLLAPSE_TOKENS - 1) is None


def test_what_comes_back_has_not_collapsed() -> None:
    control = [None, *[3.0] * 2000]
    losses = [None, *[4.0] * 500, *[3.0] * 1500]
    assert collapse_at(losses, control, 100) is None
    assert collapse_at(losses, control, 100, 700) == 101


def test_what_parts_near_the_end_has_not_shown_that_it_stays() -> None:
    """As where a text repeats itself, and the full cache alone remembers."""
    control = [None, *[3.0] * 2000]
    assert collapse_at([None, *[3.0] * 1700, *[4.5] * 300], control, 100) is None
    assert collapse_at([None, *[3.0] * 1200, *[4.5] * 800], control, 100) is not None


def test_there_is_no_collapse_without_an_eviction_or_a_control() -> None:
    bad = [None, *[20.0] * 1000]
    assert collapse_at(bad, [None, *[3.0] * 1000], None) is None
    assert collapse_at(bad, [], 100) is None
    assert collapse_at(bad, [None, *[3.0] * 300], 100) is None
    assert collapse_at(bad, [None, *[3.0] * 356], 100) == 101
    assert collapse_at(bad, [None, *[math.nan] * 1000], 100) is None


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_a_collapse(broken: float) -> None:
    losses: list[float | None] = [None, *[3.0] * 1000]
    losses[700] = broken
    assert collapse_at(losses, [None, *[3.0] * 1000], 100) == 700 - COLLAPSE_TOKENS + 1
    losses[150] = broken
    assert collapse_at(losses, [None, *[3.0] * 1000], 100) == 101


@given(st.integers(1, 5_000_000))
def test_a_curve_has_few_points_of_many_tokens(tokens: int) -> None:
    size = bin_size(tokens)
    assert size >= SMALLEST_BIN
    assert -(-tokens // size) <= POINTS
    assert size == SMALLEST_BIN or -(-tokens // (size - 1)) > POINTS


@given(texts, st.integers(1, 20))
def test_every_loss_is_in_its_bin(losses: Losses, size: int) -> None:
    bins = binned(losses, size)
    assert len(bins) == -(-len(losses) // size)
    for number, found in enumerate(bins):
        assert found == mean(losses, number * size, number * size + size - 1)
