"""The status line's words for what goes on."""

from __future__ import annotations

from sinkchat.chat.printable import visible
from sinkchat.models.progress import Progress as OpeningProgress
from sinkchat.tui import figures
from sinkchat.tui.readings import Readings
from sinkchat.tui.runs import Progress, Runs
from sinkchat.tui.widgets.panel import share_name
from sinkchat.tui.widgets.status_line import Status

_IDLE_KEYS = (("F1", "help"), ("F2", "sinks on/off"), ("F3", "panel"), ("/", "commands"))


def status(
    runs: Runs, readings: Readings, *, opening: OpeningProgress | None, panel: bool, lines_below: int, endless: bool
) -> Status:
    state, style = _state(runs, readings, opening)
    parts: list[str] = []
    if lines_below:
        parts.append(f"{figures.plural(lines_below, 'line')} below")
    if endless:
        parts.append("endless")
    if not panel:
        parts += _summary(readings)
        if readings.facts is not None:
            parts.append(visible(readings.facts.name))
    keys = (("Esc", "stop"), *_IDLE_KEYS) if runs.busy else _IDLE_KEYS
    return Status(state, style, tuple(parts), keys)


def _state(runs: Runs, readings: Readings, opening: OpeningProgress | None) -> tuple[str, str]:
    of = _of(runs.progress)
    if runs.phase == "loading":
        return _opening(opening), "$sink"
    if runs.phase == "failed":
        return "no model", "$error"
    if runs.again is not None:
        return f"running again{_of(runs.again)}", "$sink"
    if runs.phase == "reading":
        return f"reading{of}", "$read"
    if runs.phase == "writing":
        rate = f", {figures.rate(readings.tokens_per_second)}/s" if readings.tokens_per_second else ""
        return f"writing {figures.plural(_reply_tokens(runs), 'token')}{rate}", "$wrote"
    if runs.phase == "changing":
        return f"running again{of}" if of else "changing the cache", "$sink"
    end = runs.last_end
    if end is not None and end.reason == "cancelled":
        return "stopped", "$muted"
    if end is not None and end.reason == "error":
        return "broke off", "$error"
    return "idle", "$muted"


def _of(progress: Progress) -> str:
    return f" {progress.done:,} of {progress.total:,}" if progress.total else ""


def _reply_tokens(runs: Runs) -> int:
    """Of the whole reply, the parts before an interruption included."""
    messages = runs.session.conversation.messages if runs.session else []
    return len(messages[-1].tokens) if messages and messages[-1].role == "assistant" else 0


def _opening(progress: OpeningProgress | None) -> str:
    """One word; the transcript's place says more."""
    if progress is None or not progress.total:
        return "loading"
    return f"loading {100 * min(1.0, progress.done / progress.total):.0f} %"


def _summary(readings: Readings) -> list[str]:
    """The panel in one line, for terminals that are too narrow for it."""
    cache, facts = readings.cache, readings.facts
    if cache is None or facts is None:
        return []
    bound = facts.trained_length if cache.policy == "full" else cache.window
    parts = [f"{cache.policy} {cache.kv_entries:,}/{bound:,}", f"evicted {cache.evicted_total:,}"]
    if cache.policy == "recompute" or cache.recomputed_total:
        parts.append(f"recomputed {cache.recomputed_total:,}")
    if readings.share is not None:
        parts.append(
            f"{share_name(cache).replace(' share', 's').replace('share of the ', '')} "
            f"{figures.percent(readings.share)}"
        )
    if readings.loss is not None:
        parts.append(f"loss {figures.nats(readings.loss)}")
    return parts
