"""The entries of the cache as a bar: sinks, recent and free told apart."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from sinkchat.engine.events import CacheState

SINK, RECENT, FREE = "═", "━", "─"


def cells(parts: tuple[int, ...], total: int, width: int) -> tuple[int, ...]:
    """How many of `width` cells each part gets. A part that is not empty gets one at least, and all of them together
    fill the bar only if they make up the total."""
    if total <= 0 or width <= 0:
        return tuple(0 for _ in parts)
    filled = sum(parts)
    room = width if filled >= total else min(width - 1, filled * width // total)
    given = [max(1, part * room // max(1, filled)) if part else 0 for part in parts]
    given[-1] = max(1 if parts[-1] else 0, room - sum(given[:-1]))
    return tuple(given)


def bound(cache: CacheState, trained_length: int) -> int:
    """What the bar is full at: the window, or under `full` the length that the model was trained for."""
    return trained_length if cache.policy == "full" else cache.window


def words(cache: CacheState, trained_length: int) -> str:
    """`4 sinks + 252 recent = 256 of 256`."""
    recent = cache.kv_entries - cache.sink_entries
    limit = bound(cache, trained_length)
    tail = f"of {limit:,}" + (" trained" if cache.policy == "full" else "")
    if not cache.sink_entries:
        return f"{recent:,} recent {tail}" if recent else f"empty, 0 {tail}"
    sinks = f"{cache.sink_entries:,} sink{'' if cache.sink_entries == 1 else 's'}"
    return f"{sinks} + {recent:,} recent = {cache.kv_entries:,} {tail}"


class Gauge(Static):
    """One line; the rest of its width is drawn as free."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._shown: tuple[int, int, int] = (0, 0, 1)

    def show(self, cache: CacheState, trained_length: int) -> None:
        shown = (cache.sink_entries, cache.kv_entries - cache.sink_entries, bound(cache, trained_length))
        if shown != self._shown:
            self._shown = shown
            self.refresh()

    def render(self) -> Content:
        sinks, recent, limit = self._shown
        width = self.size.width
        sink_cells, recent_cells = cells((sinks, recent), limit, width)
        return Content.assemble(
            (SINK * sink_cells, "$sink"),
            (RECENT * recent_cells, "$recent"),
            (FREE * (width - sink_cells - recent_cells), "$free"),
        )
