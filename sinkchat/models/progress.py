"""How far a long piece of work is: a record, and where it is sent. Free of torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """One moment of fetching, converting or loading. A new `stage` means that the one before is done."""

    stage: str
    """What is being done, in words for the screen: `fetching the small model`."""
    done: float
    total: float | None
    """The same unit as `done`; None where nobody can know it."""
    unit: str = ""
    """`B` for bytes, empty for steps."""


ProgressSink = Callable[[Progress], None]


def silent(_progress: Progress) -> None:
    """A sink for those who do not watch."""
