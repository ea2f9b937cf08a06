"""How far a long piece of work is: a record, and where it is sent. Free of torch."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


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
"""Called often, and not always from the same thread, though never from two at once: a screen keeps the latest."""


def silent(_progress: Progress) -> None:
    """A sink for those who do not watch."""


def folder_bytes(folder: Path) -> int:
    """How much the files under `folder` hold at this moment; 0 if there is no such folder."""
    total = 0
    for place, _, files in os.walk(folder):
        for file in files:
            try:
                total += os.lstat(os.path.join(place, file)).st_size
            except OSError:  # it was moved or deleted since
                continue
    return total
