"""The rules by which a cache can be bounded: plain Python, free of torch."""

from __future__ import annotations

from typing import Literal

from sinkchat.errors import CacheError

Policy = Literal["sinks", "window", "full", "recompute"]
Positions = Literal["cache", "absolute"]

POLICIES: tuple[Policy, ...] = ("sinks", "window", "full", "recompute")
POSITIONS: tuple[Positions, ...] = ("cache", "absolute")

KEEPING: tuple[Policy, ...] = ("sinks", "recompute")
"""Those under which the first S tokens stay for good."""


def check(policy: Policy, sinks: int, window: int) -> None:
    """Raises CacheError, in one sentence, when these make no cache."""
    if policy not in POLICIES:
        raise CacheError(f"There is no policy {policy!r}; choose one of {', '.join(POLICIES)}.")
    if sinks < 0:
        raise CacheError(f"{sinks} sinks make no sense; give 0 or more.")
    if window < 1:
        raise CacheError(f"A window of {window} entries holds nothing; give 1 or more.")
    if window <= sinks:
        raise CacheError(
            f"A window of {window} entries has no room for a recent token beside {sinks} sinks, which it counts in; "
            f"give a window of {sinks + 1} or more, or fewer sinks."
        )
