"""A figure over the tokens of a session, as many as a chart can show, and the moments that a chart marks."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan

LONGEST = 1 << 14
"""Values that are kept; older ones have left every chart."""

MOST_PER_POINT = 32
"""Values that one point of a chart may be the mean of; from then on the chart shows only the newest."""


@dataclass(frozen=True, slots=True)
class Point:
    """The mean of the values that exist among `Points.each` tokens; None if there are none."""

    value: float | None
    tag: str


@dataclass(frozen=True, slots=True)
class Points:
    """What a chart draws: one point each for the mean of `each` tokens, and marks at the points' indices."""

    points: Sequence[Point]
    each: int
    marks: Sequence[tuple[int, str]]


@dataclass
class Series:
    """Values in the order of the tokens. Counting goes on when the oldest are dropped, so points never shift."""

    start: int = 0
    """Number of the first value that is kept."""
    marks: list[tuple[int, str]] = field(default_factory=list)
    """Number of the first value after each moment, and its name."""
    _values: array[float] = field(default_factory=lambda: array("d"))
    _tags: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        """Values that were ever added."""
        return self.start + len(self._values)

    def add(self, value: float | None, tag: str = "") -> None:
        self._values.append(nan if value is None else value)
        self._tags.append(tag)
        if len(self._values) >= 2 * LONGEST:
            self.start += LONGEST
            del self._values[:LONGEST], self._tags[:LONGEST]
            self.marks = [(number, name) for number, name in self.marks if number >= self.start]

    def mark(self, name: str) -> None:
        """Something changed here: between the latest value and the next."""
        self.marks.append((len(self), name))

    def mean(self, last: int, tag: str) -> tuple[float | None, int]:
        """Mean of the newest `last` values with this tag, and how many they are."""
        found: list[float] = []
        for value, kind in zip(reversed(self._values), reversed(self._tags), strict=True):
            if kind == tag and value == value:
                found.append(value)
                if len(found) == last:
                    break
        return (sum(found) / len(found), len(found)) if found else (None, 0)

    def points(self, room: int) -> Points:
        """The newest values as at most `room` points: each the mean of as few tokens as lets all of them in."""
        each = 1
        while each < MOST_PER_POINT and -(-len(self) // each) > room:
            each *= 2
        last = -(-len(self) // each)
        first = max(last - room, -(-self.start // each))
        points = [self._point(number * each, (number + 1) * each) for number in range(first, last)]
        marks = [(number // each - first, name) for number, name in self.marks if first <= number // each <= last]
        return Points(points, each, marks)

    def _point(self, first: int, last: int) -> Point:
        low, high = first - self.start, last - self.start
        known = [value for value in self._values[low:high] if value == value]
        tags = self._tags[low:high]
        return Point(sum(known) / len(known) if known else None, tags[-1] if tags else "")
