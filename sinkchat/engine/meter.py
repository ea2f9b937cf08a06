"""What is measured over a run of tokens: losses, attention shares, seconds."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from sinkchat.engine.events import Heads
from sinkchat.engine.sequence import Read, mean_share, share_table


class Meter:
    """Sums in float64 over the tokens of one prompt or one reply. The clock starts when it is made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._first: float | None = None
        self._last = self._start
        self._tokens = 0
        self._losses: list[float] = []
        self._shares: Tensor | None = None
        self._shared = 0

    def tick(self) -> None:
        """A token was drawn."""
        self._last = time.perf_counter()
        self._first = self._first or self._last
        self._tokens += 1

    def add(self, read: Read) -> None:
        self._losses.extend(loss for loss in read.losses if loss is not None)
        if read.shares is not None and len(read.shares):
            total = read.shares.sum(0, dtype=torch.float64)
            self._shares = total if self._shares is None else self._shares + total
            self._shared += len(read.shares)

    def loss(self) -> float | None:
        """Mean, in nats."""
        return sum(self._losses) / len(self._losses) if self._losses else None

    def share(self) -> float | None:
        """Mean over tokens and heads."""
        return None if self._shares is None else mean_share(self._shares / self._shared)

    def heads(self) -> Heads | None:
        """Mean over tokens, `[L][H]`."""
        return None if self._shares is None else share_table(self._shares / self._shared)

    def seconds(self) -> float:
        return time.perf_counter() - self._start

    def seconds_to_first_token(self) -> float | None:
        return None if self._first is None else self._first - self._start

    def tokens_per_second(self) -> float | None:
        """Of the tokens after the first."""
        if self._first is None or self._tokens < 2 or self._last <= self._first:
            return None
        return (self._tokens - 1) / (self._last - self._first)
