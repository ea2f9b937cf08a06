"""The gauge tells sinks, recent and free apart, in exact words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkchat.engine.events import CacheState
from sinkchat.tui.widgets.gauge import FREE, RECENT, SINK, cells, words


def _state(policy: str = "sinks", entries: int = 256, sinks: int = 4) -> CacheState:
    return CacheState(
        policy=policy,  # type: ignore[arg-type]
        positions="cache",
        sinks=4,
        window=256,
        position=1000,
        kv_entries=entries,
        sink_entries=sinks,
        kv_bytes=1,
        evicted_total=744,
        readmitted_total=0,
        horizon=748,
    )


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (_state(), "4 sinks + 252 recent = 256 of 256"),
        (_state(entries=1, sinks=1), "1 sink + 0 recent = 1 of 256"),
        (_state("window", sinks=0), "256 recent of 256"),
        (_state("full", entries=1000, sinks=0), "1,000 recent of 8,192 trained"),
        (_state(entries=0, sinks=0), "empty, 0 of 256"),
    ],
)
def test_the_words_add_up(state: CacheState, expected: str) -> None:
    assert words(state, 8192) == expected


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 300), st.integers(2, 60))
def test_the_bar_is_full_exactly_when_the_cache_is(sinks: int, recent: int, total: int, width: int) -> None:
    given_cells = cells((sinks, recent), total, width)
    assert sum(given_cells) <= max(width, 2)
    if sinks + recent < total and width > 3:
        assert sum(given_cells) < width
    if sinks + recent >= total and sinks and recent:
        assert sum(given_cells) == width
    assert (given_cells[0] > 0) == (sinks > 0)
    assert (given_cells[1] > 0) == (recent > 0)


def test_the_parts_differ_without_colours_too() -> None:
    assert len({SINK, RECENT, FREE}) == 3
