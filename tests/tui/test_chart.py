"""The charts draw what they are given, in glyphs that are one cell wide."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from sinkchat.tui.series import MOST_PER_POINT, Series
from sinkchat.tui.widgets.line_chart import ceiling, plot

VALUES = st.lists(st.none() | st.floats(0, 12), max_size=200)


@settings(deadline=None)
@given(VALUES, st.integers(1, 30), st.integers(1, 8))
def test_a_plot_has_a_dot_for_each_value_in_its_column_and_none_elsewhere(
    values: list[float | None], width: int, height: int
) -> None:
    rows = plot(values, width, height, 0.0, 12.0)
    assert [len(row) for row in rows] == [width] * height
    shown = values[-2 * width :]
    for column, value in enumerate(shown, 2 * width - len(shown)):
        dots = _column(rows, column)
        if value is None:
            assert not dots
        else:
            assert 4 * height - 1 - round(value / 12 * (4 * height - 1)) in dots
    for column in range(2 * width - len(shown)):
        assert not _column(rows, column)


@settings(deadline=None)
@given(st.lists(st.floats(0, 12), min_size=2, max_size=60))
def test_the_line_has_no_gaps(values: list[float]) -> None:
    rows = plot(values, 30, 4, 0.0, 12.0)
    columns = [_column(rows, column) for column in range(60 - len(values), 60)]
    for former, latter in pairwise(columns):
        assert min(abs(a - b) for a in former for b in latter) <= 1


def _column(rows: list[list[int]], column: int) -> set[int]:
    bits = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))[column % 2]
    return {4 * y + dot for y, row in enumerate(rows) for dot, bit in enumerate(bits) if row[column // 2] & bit}


def test_every_braille_glyph_is_narrow() -> None:
    assert all(cell_len(chr(0x2800 + pattern)) == 1 for pattern in range(256))


def test_the_axis_holds_the_highest_value_and_moves_in_steps() -> None:
    assert ceiling([0.2, None, 0.9]) == 1.0
    assert ceiling([4.1]) == 6.0
    assert ceiling([1234.5]) == 1234.5
    assert ceiling([]) == 1.0


def test_all_values_are_shown_until_a_point_would_be_the_mean_of_too_many() -> None:
    series = Series()
    for number in range(100):
        series.add(float(number))
    points = series.points(30)
    assert points.each == 4
    assert [point.value for point in points.points][:2] == [1.5, 5.5]
    for number in range(100, 10_000):
        series.add(float(number))
    points = series.points(30)
    assert points.each == MOST_PER_POINT
    assert len(points.points) == 30
    assert points.points[-1].value == 9991.5


def test_a_point_never_changes_once_its_tokens_are_there() -> None:
    series = Series()
    seen: dict[tuple[int, int], float | None] = {}
    for number in range(500):
        series.add(float(number % 7))
        points = series.points(20)
        count = len(series) // points.each
        first = -(-len(series) // points.each) - len(points.points)
        for index, point in enumerate(points.points):
            if first + index < count:
                assert seen.setdefault((points.each, first + index), point.value) == point.value


def test_what_means_nothing_is_a_gap_and_no_zero() -> None:
    series = Series()
    for value in (None, 2.0, None, None):
        series.add(value)
    assert [point.value for point in series.points(4).points] == [None, 2.0, None, None]
    assert series.points(2).points[0].value == 2.0


def test_a_mark_stands_where_the_change_was() -> None:
    series = Series()
    for _ in range(10):
        series.add(1.0)
    series.mark("window")
    for _ in range(10):
        series.add(3.0)
    points = series.points(20)
    assert points.marks == [(10, "window")]


def test_a_running_mean_is_of_one_kind_alone() -> None:
    series = Series()
    for number in range(10):
        series.add(float(number), "read")
        series.add(100.0, "wrote")
    assert series.mean(4, "read") == (7.5, 4)
    assert series.mean(100, "wrote") == (100.0, 10)
    assert series.mean(4, "other") == (None, 0)


def test_a_long_series_forgets_its_start_and_keeps_its_count() -> None:
    series = Series()
    for _ in range(70_000):
        series.add(1.0)
    assert len(series) == 70_000
    assert series.start > 0
    assert len(series.points(100).points) == 100
