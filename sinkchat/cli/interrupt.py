"""Ctrl+C and SIGTERM: asked once, the reply ends in order; asked twice, the program does."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interrupt:
    """While entered, a signal raises `KeyboardInterrupt`; once `patient`, the first one only sets `asked`.

    The handler does nothing else: it runs between any two steps of the main thread, where a lock may be held.
    """

    def __init__(self) -> None:
        self.asked = False
        self.patient = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                # A shell starts background jobs with Ctrl+C ignored: it stays ignored.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._arrived)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _arrived(self, _number: int, _frame: FrameType | None) -> None:
        if not self.patient or self.asked:
            raise KeyboardInterrupt
        self.asked = True
