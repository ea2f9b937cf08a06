"""What stands in the transcript's place before anything was said: how far the model is, then what one can do."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from sinkchat.chat.printable import visible
from sinkchat.engine.events import CacheState
from sinkchat.models.facts import ModelFacts
from sinkchat.models.progress import Progress
from sinkchat.tui import figures
from sinkchat.tui.widgets.figure_rows import shorten

BAR = 32


class Welcome(Static):
    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._lines: list[Content] = [_muted("starting")]

    def opening(self, progress: Progress) -> None:
        """A model is being fetched, converted or loaded."""
        self._show([_muted(progress_words(progress)), _bar(progress), _muted("Write meanwhile: it waits its turn.")])

    def ready(self, facts: ModelFacts, cache: CacheState) -> None:
        self._show(
            [
                Content.assemble((visible(facts.name), "$foreground")),
                _muted(figures.held(facts.quant, facts.dtype, facts.device)),
                Content(""),
                Content.assemble((_room(cache), "$foreground")),
                _muted(_promise(cache)),
                Content(""),
                _keys(("Enter", "sends"), ("/", "commands"), ("F1", "help")),
                _keys(("/read FILE", "lets the model read a text")),
                _keys(("F2", _switch(cache))),
            ]
        )

    def failed(self, error: str) -> None:
        self._show([Content.assemble((visible(error), "$error")), _keys(("/quit", "leaves"))])

    def _show(self, lines: list[Content]) -> None:
        self._lines = lines
        self.refresh()

    def render(self) -> Content:
        lines = [Content.assemble(("sinkchat", "bold $sink")), Content(""), *self._lines]
        height = self.size.height
        if len(lines) > height:
            lines = [line for line in lines if line.plain][:height]
        return Content("\n").join(lines)


def progress_words(progress: Progress) -> str:
    """`fetching the small model: 43 %, 40.2 MB of 92.9 MB`."""
    if progress.total is None or progress.total <= 0:
        done = f": {_amount(progress.done, progress.unit)}" if progress.done else ""
        return f"{progress.stage}{done}"
    share = f"{100 * min(1.0, progress.done / progress.total):.0f} %"
    if progress.unit != "B":
        return f"{progress.stage}: {share}"
    return f"{progress.stage}: {share}, {figures.size(progress.done)} of {figures.size(progress.total)}"


def _amount(done: float, unit: str) -> str:
    return figures.size(done) if unit == "B" else f"{done:,.0f}{unit and ' ' + unit}"


def _bar(progress: Progress) -> Content:
    if progress.total is None or progress.total <= 0:
        return Content.assemble(("─" * BAR, "$free"))
    done = int(BAR * min(1.0, progress.done / progress.total))
    return Content.assemble(("━" * done, "$sink"), ("─" * (BAR - done), "$free"))


def _room(cache: CacheState) -> str:
    if cache.policy == "full":
        return "the full cache"
    if cache.policy == "window":
        return f"{cache.window:,} recent entries"
    return f"{figures.plural(cache.sinks, 'sink')} + {cache.window - cache.sinks:,} recent = {cache.window:,} entries"


def _promise(cache: CacheState) -> str:
    if cache.policy == "full":
        return "Everything stays, and memory grows with it."
    if cache.policy == "recompute":
        return "When full, the older half leaves and the newer half is read again."
    return "The cache never holds more; what leaves it is gone, and the screen says so."


def _switch(cache: CacheState) -> str:
    if cache.policy == "recompute":
        return "lets the oldest leave one by one instead, the sinks kept"
    return "takes the sinks away, and brings them back"


def _muted(text: str) -> Content:
    return Content.assemble((shorten(visible(text), 200), "$muted"))


def _keys(*keys: tuple[str, str]) -> Content:
    return Content("   ").join([Content.assemble((key, "$foreground"), (f" {does}", "$muted")) for key, does in keys])
