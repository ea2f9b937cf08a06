"""What a change of the cache meant, in one quiet line with its counts."""

from __future__ import annotations

from sinkchat.cache.policy import KEEPING
from sinkchat.chat.happening import Eviction, PolicyChange
from sinkchat.chat.telling import span
from sinkchat.engine.events import CacheState
from sinkchat.tui.figures import plural


def describe(change: PolicyChange) -> str:
    """Empty where nothing changed that a person would want to read."""
    before, after = change.before, change.after
    if change.cause == "clear":
        return "new sequence: the model has forgotten everything above" if before.position else ""
    if before == after and change.cause != "rebuild":
        return ""
    moved = _moved(before, after)
    what = {
        "policy": f"policy {after.policy}",
        "positions": f"positions {after.positions}",
        "window": f"window {after.window:,}",
        "sinks": plural(after.sinks, "sink"),
        "rebuild": "rebuilt",
    }[change.cause]
    return f"{what}: {'; '.join(part for part in (moved, _meaning(change)) if part)}"


def halved(gone: Eviction) -> str:
    """Under `recompute` the window was full."""
    again = f", {plural(gone.run_again, 'token')} run again" if gone.run_again else ""
    return f"the window was full: the older half left ({span(gone.first, gone.last)}){again}"


def _moved(before: CacheState, after: CacheState) -> str:
    gone = after.evicted_total - before.evicted_total
    back = after.readmitted_total - before.readmitted_total
    parts = []
    if gone:
        parts.append(f"{plural(gone, 'entry', 'entries')} evicted")
    if back:
        parts.append(f"{back:,} re-admitted")
    stay = _entries(after) if after.policy != "full" else f"{plural(after.kv_entries, 'entry', 'entries')}, no bound"
    return ", ".join([*parts, stay])


def _entries(after: CacheState) -> str:
    recent = after.kv_entries - after.sink_entries
    kept = f"{plural(after.sink_entries, 'sink')} + " if after.sink_entries else ""
    return f"{kept}{recent:,} recent of {after.window:,} stay"


def _meaning(change: PolicyChange) -> str:
    before, after = change.before, change.after
    if change.cause == "policy" and before.policy in KEEPING and after.policy == "window":
        return "nothing is kept for good now" if after.position else ""
    if change.cause == "policy" and after.policy == "recompute":
        return "each time that the window is full its older half leaves, and the newer half runs again"
    if change.cause == "policy" and after.policy == "sinks" and before.policy == "window":
        if not before.evicted_total:
            return ""
        return "what was written meanwhile stays in the window until it slides out, or /rebuild runs it again"
    if change.cause == "positions" and after.positions == "absolute":
        return "a query is placed by its place in the whole sequence, far from the sinks"
    if change.cause == "positions":
        return "a query is placed by its index in the cache, right behind the other entries"
    if change.cause in ("rebuild", "sinks") and before.evicted_total:
        return "exact" if change.exact else "run again without what is gone, so not quite what it was"
    return ""
