"""What the cache does, in figures: entries, evictions, sink share, loss, speed and the model. Exact, and quiet."""

from __future__ import annotations

import time
from collections.abc import Callable

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Size

from sinkchat.cache.policy import KEEPING
from sinkchat.chat.printable import visible
from sinkchat.engine.events import CacheState
from sinkchat.tui import figures
from sinkchat.tui.later import after
from sinkchat.tui.readings import READ, WROTE, Readings
from sinkchat.tui.series import Point, Points, Series
from sinkchat.tui.widgets import gauge
from sinkchat.tui.widgets.figure_rows import FigureRow, FigureRows, shorten_start
from sinkchat.tui.widgets.gauge import Gauge
from sinkchat.tui.widgets.line_chart import LineChart
from sinkchat.tui.widgets.sink_switch import SinkSwitch

MEAN, HEAD = "mean", "head"


SECTIONS = 6
"""Empty lines between the parts of the panel, where there is room for them."""
FIXED = 16
"""Lines that are always there: everything but the charts."""
CHART = 3
"""Lines without which a chart says nothing."""
TALLEST = 10

SHOWN_FROM = 100
"""Columns of the screen from which the panel is shown unasked."""
PANEL_NEEDS = 70, 12
"""Columns and rows of the screen without which it is not shown at all."""

EVERY = 0.2
"""Seconds between two pictures."""


def chart_lines(height: int, further: int = 0) -> tuple[int, bool]:
    """Lines of each chart, 0 for none, and whether empty lines stand between the parts. `further`: lines that are
    there besides the fixed ones."""
    fixed = FIXED + further
    spread = height >= fixed + SECTIONS + 2 * (CHART + 1)
    room = (height - fixed - (SECTIONS if spread else 0)) // 2
    return (min(room, TALLEST) if room >= CHART else 0), spread


class Panel(Vertical, can_focus=False):
    """Shows `Readings`; whoever has new ones calls `show`."""

    def __init__(self, *, key: str, id: str | None = None) -> None:
        super().__init__(id=id)
        self._key = key
        self._next = 0.0  # when it may be drawn again
        self._due = False
        self._further = 0  # lines of figures that only some models and policies have
        self._wanted: bool | None = None  # what somebody asked for; None leaves it to the width

    def compose(self) -> ComposeResult:
        yield FigureRows(id="cache-title", classes="title")
        yield Gauge(id="gauge")
        yield FigureRows(id="cache-rows")
        yield FigureRows(id="evicted", classes="section")
        yield FigureRows(id="share-title", classes="title section")
        yield LineChart(id="share-chart", percent=True)
        yield FigureRows(id="share-rows")
        yield FigureRows(id="loss-title", classes="title section")
        yield LineChart(id="loss-chart")
        yield FigureRows(id="loss-rows")
        yield FigureRows(id="speed", classes="section")
        yield FigureRows(id="model", classes="section")
        yield SinkSwitch(key=self._key, id="switch")

    def place(self, screen: Size) -> None:
        """Show it where there is room for it, or where somebody asked for it."""
        wanted = screen.width >= SHOWN_FROM if self._wanted is None else self._wanted
        self.display = wanted and _fits(screen)

    def toggle(self, screen: Size) -> bool:
        """Show or hide it. False if it does not fit."""
        if not _fits(screen):
            return False
        self._wanted = not self.display
        self.place(screen)
        return True

    def on_resize(self, event: events.Resize) -> None:
        self._share_out(event.size.height)

    def _share_out(self, height: int) -> None:
        """Give the charts what the figures leave of the height."""
        lines, spread = chart_lines(height, self._further)
        self.set_class(spread, "-spread")
        for chart in self.query(LineChart):
            chart.styles.height = lines
            chart.display = lines > 0

    def offer(self, readings: Readings, quiet_until: Callable[[], float]) -> None:
        """Show the readings soon: a few times a second, and not before `quiet_until`, so that nothing moves while
        somebody types. What is shown is what they say by then."""
        if not self._due:
            self._due = True
            self._wait(readings, quiet_until)

    def _wait(self, readings: Readings, quiet_until: Callable[[], float]) -> None:
        wait = max(self._next, quiet_until()) - time.monotonic()
        if wait > 0:
            after(wait, self, lambda: self._wait(readings, quiet_until))
            return
        self._due = False
        self._next = time.monotonic() + EVERY
        self.show(readings)

    def show(self, readings: Readings) -> None:
        """Show them now."""
        if not self.display or not self.size.width:
            return
        further = len(_recomputed(readings)) + len(learned(readings.learned_share))
        if further != self._further:
            self._further = further
            self._share_out(self.size.height)
        self._show_cache(readings)
        self._show_share(readings)
        self._show_loss(readings)
        self._show_speed(readings)
        self._show_model(readings)

    def _rows(self, id: str, *rows: FigureRow) -> None:
        self.query_one(f"#{id}", FigureRows).show(*rows)

    @property
    def _width(self) -> int:
        return self.query_one("#evicted", FigureRows).size.width

    def _show_cache(self, readings: Readings) -> None:
        cache, facts = readings.cache, readings.facts
        if cache is None or facts is None:
            # The lines stand from the start, so that nothing moves when the model comes.
            dash = figures.NOTHING
            self._rows("cache-title", _title("cache", dash))
            self._rows("cache-rows", FigureRow(dash), FigureRow("keys and values", dash))
            self._rows("evicted", FigureRow("evicted", dash), FigureRow(dash))
            return
        self._rows("cache-title", _title("cache", f"{cache.policy} · {cache.positions} positions"))
        self.query_one("#gauge", Gauge).show(cache, facts.trained_length)
        self._rows(
            "cache-rows",
            FigureRow(gauge.words(cache, facts.trained_length), name_style="$foreground"),
            FigureRow("keys and values", figures.size(cache.kv_bytes)),
        )
        self._rows(
            "evicted",
            FigureRow(*_evictions(cache)),
            self._evicted_text(readings),
            *_recomputed(readings),
        )
        self.query_one("#switch", SinkSwitch).show(cache.policy)

    def _evicted_text(self, readings: Readings) -> FigureRow:
        if readings.evicted_text is None:
            return FigureRow(figures.NOTHING)
        at = f" at {readings.evicted_last:,}" if readings.evicted_last is not None else ""
        text = quoted(readings.evicted_text, self._width - len(at))
        return FigureRow(text + at, name_style="$horizon")

    def _show_share(self, readings: Readings) -> None:
        cache = readings.cache
        self._rows("share-title", _title(share_name(cache), figures.percent(readings.share), "$sink"))
        chart = self.query_one("#share-chart", LineChart)
        room = chart.room
        lines = [_tagged(readings.shares, room, MEAN), _tagged(readings.head_shares, room, HEAD)]
        chart.show(lines, {MEAN: "$sink", HEAD: "$head"})
        self._rows("share-rows", *strongest(readings, self._width), *learned(readings.learned_share))

    def _show_loss(self, readings: Readings) -> None:
        chart = self.query_one("#loss-chart", LineChart)
        points = readings.losses.points(chart.room)
        each = f" a point is {points.each} tokens" if points.each > 1 else ""
        kind = READ if points.points and points.points[-1].tag == READ else WROTE
        self._rows("loss-title", _title("loss", f"{figures.nats(readings.loss)} nats", f"${kind}", each))
        chart.show([points], {READ: "$read", WROTE: "$wrote"})
        self._rows("loss-rows", _mean_row(readings, READ), _mean_row(readings, WROTE))

    def _show_speed(self, readings: Readings) -> None:
        rate, first = figures.rate(readings.tokens_per_second), figures.seconds(readings.seconds_to_first_token)
        self._rows("speed", FigureRow(f"{rate} tokens/s", f"first after {first}", "$foreground", "$muted"))

    def _show_model(self, readings: Readings) -> None:
        facts = readings.facts
        if facts is None:
            self._rows("model", FigureRow("model", figures.NOTHING), FigureRow("memory", figures.NOTHING))
            return
        weights = f"weights {figures.size(facts.weight_bytes)}"
        name = shorten_start(visible(facts.name), self._width - len(weights) - 1)
        held = figures.held(facts.quant, facts.dtype, facts.device)
        memory = figures.size_of(readings.memory.used, readings.memory.total) if readings.memory else figures.NOTHING
        if len(f"{held} memory {memory}") <= self._width:
            memory = f"memory {memory}"
        self._rows(
            "model",
            FigureRow(name, weights, "$foreground", "$muted"),
            FigureRow(held, memory, value_style="$muted"),
        )


def _fits(screen: Size) -> bool:
    return screen.width >= PANEL_NEEDS[0] and screen.height >= PANEL_NEEDS[1]


def _title(name: str, value: str, value_style: str = "$muted", note: str = "") -> FigureRow:
    return FigureRow(name, value, "bold $foreground", value_style, note)


def _evictions(cache: CacheState) -> tuple[str, str]:
    back = f", {cache.readmitted_total:,} re-admitted" if cache.readmitted_total else ""
    return "evicted", f"{cache.evicted_total:,}{back}"


def share_name(cache: CacheState | None) -> str:
    """Whose share of attention it is: that of the sinks, or of the oldest entries where none are kept."""
    if cache is None or not cache.sinks:
        return "sink share"
    return "sink share" if cache.policy in KEEPING else f"share of the oldest {cache.sinks:,}"


def quoted(text: str, width: int) -> str:
    """The end of a text on one line, in quotes: its line breaks as signs."""
    line = visible(text).replace("\n", "↵").replace("\t", " ")
    return f"“{shorten_start(line, max(1, width - 2))}”"


def _tagged(series: Series, room: int, tag: str) -> Points:
    points = series.points(room)
    return Points([Point(point.value, tag) for point in points.points], points.each, points.marks)


def strongest(readings: Readings, width: int) -> tuple[FigureRow, FigureRow]:
    """Which head gives the watched entries most, and which other entry takes most; or why there is no share."""
    head, entry, cache = readings.strong_head, readings.strong_entry, readings.cache
    if cache and cache.sinks and readings.loss is not None and readings.share is None:
        return FigureRow("every layer keeps its own window,"), FigureRow("so the policy changes nothing")
    named = f"strongest: layer {head.layer}, head {head.head}" if head else "strongest head"
    other = "strongest other"
    if entry:
        at = f" at {entry.position:,}"
        other = "other: " + quoted(entry.text, width - len(at) - 16) + at
    return (
        FigureRow(named, figures.percent(head.share if head else None), "$head"),
        FigureRow(other, figures.percent(entry.share if entry else None)),
    )


def learned(share: float | None) -> tuple[FigureRow, ...]:
    """Apart from the sink tokens: a learned sink is a number per head, and no entry."""
    return () if share is None else (FigureRow("learned sinks, no entries", figures.percent(share)),)


def _recomputed(readings: Readings) -> tuple[FigureRow, ...]:
    """What the policy `recompute` costs, and cost the last time; nothing where it never was in force."""
    cache, last = readings.cache, readings.recomputed_last
    if cache is None or (cache.policy != "recompute" and not cache.recomputed_total):
        return ()
    lately = f", last {last:,}" if last else ""
    return (FigureRow("recomputed", f"{figures.plural(cache.recomputed_total, 'token')}{lately}"),)


def _mean_row(readings: Readings, kind: str) -> FigureRow:
    mean = readings.mean_loss(kind)
    last = f"{kind}, mean of {mean.tokens}" if mean.tokens else kind
    return FigureRow(last, f"{figures.nats(mean.mean)} → ppl {figures.perplexity(mean.perplexity)}", f"${kind}")
