"""How far a long evaluation is, and how long it will still take. Free of torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

MOMENTS = 5.0
"""Seconds of work before anything is said of the time that remains."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment of it."""

    what: str
    """The piece that is being worked on: a rule's name, and what is done under it."""
    number: int
    """Which piece of all, from 1."""
    pieces: int
    done: int
    """Tokens of this piece."""
    total: int
    left: float | None
    """Seconds until all pieces are done, judged by those before; None while nobody can know."""

    def __str__(self) -> str:
        piece = f"{self.number} of {self.pieces}: {self.what}: {self.done:,} of {self.total:,} tokens"
        return piece if self.left is None else f"{piece}, {duration(self.left)} left"


Follow = Callable[[Moment], bool]
"""Told of each moment; answers whether to go on."""


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


@dataclass(frozen=True, slots=True)
class Piece:
    what: str
    tokens: int
    cost: float
    """Work of a token, beside that of one that is read under a bounded cache."""


class Course:
    """The pieces of an evaluation in their order."""

    def __init__(self, pieces: list[Piece], follow: Follow) -> None:
        self._pieces = pieces
        self._follow = follow
        self._begun = time.monotonic()
        self._worked = 0.0
        self._number = 0
        self.ended = False
        """Whoever follows has had enough."""

    def next(self) -> bool:
        """The next piece begins, and the one before is done; False: enough."""
        if self.ended:
            return False
        if self._number:
            piece = self._pieces[self._number - 1]
            self._worked += piece.tokens * piece.cost
        self._number += 1
        return self(0)

    def __call__(self, done: int) -> bool:
        """So many tokens of this piece are done; False: enough."""
        piece = self._pieces[self._number - 1]
        worked = self._worked + done * piece.cost
        whole = sum(other.tokens * other.cost for other in self._pieces)
        spent = time.monotonic() - self._begun
        left = spent * (whole - worked) / worked if worked and spent > MOMENTS else None
        moment = Moment(piece.what, self._number, len(self._pieces), done, piece.tokens, left)
        if not self.ended and not self._follow(moment):
            self.ended = True
        return not self.ended
