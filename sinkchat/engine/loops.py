"""Noticing that a reply goes round in circles."""

from __future__ import annotations

LONGEST_PERIOD = 64
LEAST_REPEATS = 4
LEAST_TOKENS = 24


class LoopWatch:
    """Tells when the newest tokens are one piece, repeated: a cost of LONGEST_PERIOD comparisons a token."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._matches = [0] * (LONGEST_PERIOD + 1)  # per period, how many newest tokens equal the one that far before

    def push(self, token_id: int) -> tuple[int, int] | None:
        """(period, repeats) of the shortest piece that the newest tokens repeat often enough; else None."""
        self._ids.append(token_id)
        del self._ids[: -LONGEST_PERIOD - 1]
        found = None
        for period in range(1, min(LONGEST_PERIOD, len(self._ids) - 1) + 1):
            same = self._ids[-1 - period] == token_id
            self._matches[period] = self._matches[period] + 1 if same else 0
            length = self._matches[period] + period
            if found is None and length >= max(LEAST_REPEATS * period, LEAST_TOKENS):
                found = (period, length // period)
        return found
