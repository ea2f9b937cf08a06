"""Which slot the next token takes and which entry that evicts: plain Python, free of torch.

Positions count tokens of the sequence from 0. A slot is a row of the preallocated key and value buffers. Sinks are
the entries of positions below S under the policies that keep them; the recents are all others, without a gap from
`horizon` to the newest. Nothing moves while tokens are fed: a new entry takes a free slot or that of the oldest
recent. Under `recompute` none is overwritten: when no slot is free the older half of the recents leaves, and the
newer half is fed again (`halve`).

At every moment `entries + evicted_total - readmitted_total == position`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from sinkchat.cache.policy import KEEPING, Policy, check

GROWTH = 1024
"""Rows by which the buffers of `full` grow at a time."""


@dataclass(frozen=True, slots=True)
class Span:
    """Positions `first`..`last`, both included."""

    first: int
    last: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Step:
    """`count` tokens that are fed at once, with the outcome of feeding them one by one.

    Query i (0..count-1) sees all `sinks` sinks and, of (the `recents` recents, then the step's own tokens), those
    from `dropped(i)` up to itself.
    """

    first: int
    """Position of the step's first token."""
    count: int
    sinks: int
    recents: int
    room: int
    """Tokens that find a free slot; each one more pushes out the oldest recent."""
    writes: tuple[tuple[int, int], ...]
    """(offset in the step, slot) of every token that is written and still there after the step."""
    evicted: Span | None
    """What leaves. Tokens of the step itself are among them when it is longer than the recents' share."""
    as_sinks: bool = False
    """The tokens become sinks."""
    rerun: bool = False
    """They are sinks that are computed again, from the sinks before them alone."""
    apart: int = 0
    """How much further from the sinks the tokens stand than by their positions."""

    def dropped(self, query: int) -> int:
        return max(0, query + 1 - self.room)

    def seen(self, query: int) -> int:
        """Entries that the query sees, itself included."""
        return self.sinks + self.recents + query + 1 - self.dropped(query)


@dataclass(frozen=True, slots=True)
class Sight:
    """Where the query of a single token looks."""

    slot: int
    """The token's own."""
    high: int
    """All entries lie in slots 0..high-1."""
    empty: tuple[int, ...]
    """Slots below `high` without an entry."""
    watched: tuple[int, ...]
    """Slots whose share of attention is shown: the sinks, or the S oldest entries of a policy without sinks."""


@dataclass(frozen=True, slots=True)
class Switch:
    """What a switch of policy, sinks or window did; the buffers are to have as many rows as the slots now."""

    moves: tuple[tuple[int, int], ...]
    """(from slot, to slot) of entries that lie past the end of smaller buffers."""
    evicted: tuple[Span, ...]


class Slots:
    """The bookkeeping of one sequence's entries; the same for every layer."""

    def __init__(self, policy: Policy, sinks: int, window: int, distance: int = 0) -> None:
        """`distance`: how much further than by its position each token after the sinks stands, as if so much had been
        read in between."""
        check(policy, sinks, window)
        self.policy: Policy = policy
        self.sinks = sinks
        self.window = window
        self.distance = distance
        self._near = sinks if policy in KEEPING else 0
        self.reset()

    def reset(self) -> None:
        """Forget every entry and count from 0 again."""
        self.position = 0
        self.horizon = 0
        self.evicted_total = 0
        self.readmitted_total = 0
        self.recomputed_total = 0
        self.slot_of: dict[int, int] = {}
        self.position_at: list[int | None] = []
        self._free: list[int] = []  # ascending: the lowest is taken first, so that those in use stay together
        self._resize(GROWTH if self.policy == "full" else self.window)

    @property
    def rows(self) -> int:
        return len(self.position_at)

    @property
    def entries(self) -> int:
        return len(self.slot_of)

    @property
    def sink_entries(self) -> int:
        return self.entries - self.recent_entries

    @property
    def recent_entries(self) -> int:
        return self.position - self.horizon

    @property
    def keeps_sinks(self) -> bool:
        return self.policy in KEEPING

    @property
    def cramped(self) -> bool:
        """No token can be fed before `halve`."""
        return self.policy == "recompute" and not self._free

    @property
    def gapless(self) -> bool:
        """Every token of the sequence is in the cache."""
        return self.entries == self.position

    def order(self) -> list[int]:
        """All slots in use, by position: the sinks, then the recents from the oldest."""
        sinks = [self.slot_of[p] for p in range(self._prefix()) if p in self.slot_of]
        return sinks + [self.slot_of[p] for p in range(self.horizon, self.position)]

    @property
    def missing(self) -> Span | None:
        """From the first to the last position that is to be a sink and is gone: to be rerun before anything else."""
        gone = [p for p in range(self._prefix()) if p not in self.slot_of]
        return Span(gone[0], gone[-1]) if gone else None

    # Feeding

    def place(self, position: int) -> int:
        """Where a token stands for its angles."""
        return position + self.distance if position >= self._near else position

    def limit(self, wanted: int) -> int:
        """How many of `wanted` tokens the next step may take: a step holds sinks or recents, never both, and under
        `recompute` no more than find a free slot."""
        if self.policy == "recompute":
            wanted = min(wanted, len(self._free))
        if self.keeps_sinks and self.position < self.sinks:
            return min(wanted, self.sinks - self.position)
        return wanted

    def plan(self, count: int, coming: int = 0) -> Step:
        """What feeding the next `count` tokens does. Changes nothing, but that `full` gets the rows it needs: those
        of all `coming` tokens at once, since each growth is a copy of everything."""
        if not 1 <= count == self.limit(count):
            raise ValueError(f"a step of {count} tokens")
        if self.policy == "full" and len(self._free) < count:
            short = max(count, coming) - len(self._free)
            self._resize(self.rows + -(-short // GROWTH) * GROWTH)
        room = len(self._free)
        leaving = max(0, count - room)
        overwritten = min(leaving, self.recent_entries)
        stay = count - leaving + overwritten
        slots = self._free[:stay] + [self.slot_of[p] for p in range(self.horizon, self.horizon + overwritten)]
        return Step(
            first=self.position,
            count=count,
            sinks=self.sink_entries,
            recents=self.recent_entries,
            room=room,
            writes=tuple(zip(range(count - stay, count), slots, strict=True)),
            evicted=Span(self.horizon, self.horizon + leaving - 1) if leaving else None,
            as_sinks=self.keeps_sinks and self.position < self.sinks,
            apart=self.place(self.position) - self.position,
        )

    def sight(self, step: Step) -> Sight:
        """What the query of a step of one token sees, its own entry written."""
        ((_, slot),) = step.writes
        if self.keeps_sinks:
            oldest = range(min(self.sinks, step.first + 1))
        else:
            start = step.evicted.last + 1 if step.evicted else self.horizon
            oldest = range(start, min(start + self.sinks, step.first + 1))
        empty = [s for s in self._free if s != slot]
        entries = self.rows - len(empty)
        packed = not empty or empty[0] == entries
        return Sight(
            slot=slot,
            high=entries if packed else self.rows,
            empty=() if packed else tuple(empty),
            watched=tuple(slot if p == step.first else self.slot_of[p] for p in oldest),
        )

    def commit(self, step: Step) -> None:
        """The step was fed."""
        if step.evicted:
            self.evicted_total += step.evicted.count
            self._release(range(step.evicted.first, min(step.evicted.last + 1, self.position)))
        self._admit((step.first + offset, slot) for offset, slot in step.writes)
        if step.rerun:
            self.readmitted_total += len(step.writes)
            return
        self.position += step.count
        if step.as_sinks:
            self.horizon = self.position
        elif step.evicted:
            self.horizon = step.evicted.last + 1

    def abort(self, step: Step) -> Span | None:
        """The step failed half-way. None of its tokens counts as fed; the entries that it may have overwritten are
        evicted, and returned."""
        if not step.evicted or not self.recent_entries:
            return None
        lost = Span(step.evicted.first, min(step.evicted.last, self.position - 1))
        self._release(range(lost.first, lost.last + 1))
        self.evicted_total += lost.count
        self.horizon = lost.last + 1
        return lost

    def halve(self) -> Span:
        """The older half of the recents leaves, and is returned; the newer half is to be fed again from now on."""
        leaving = -(-self.recent_entries // 2)
        span = Span(self.horizon, self.horizon + leaving - 1)
        self._release(range(span.first, span.last + 1))
        self.evicted_total += span.count
        self.horizon += span.count
        self.recomputed_total += self.recent_entries
        self.rewind(self.horizon)
        return span

    # Switching

    def configure(self, policy: Policy, sinks: int, window: int) -> Switch:
        """Switch policy, S and W at once; what the new rule does not keep leaves.

        Under policies that keep sinks the first S tokens stay, or are `missing` and to be rerun before anything else
        is fed; of the others the newest stay, without a gap. `full` needs a gapless cache: `rewind(0)` first.
        Raises CacheError when the numbers make no cache, before anything changed.
        """
        check(policy, sinks, window)
        if policy == "full" and not self.gapless:
            raise ValueError("tokens are gone that the full cache holds")
        start = 0 if self.gapless else self.horizon
        self.policy, self.sinks, self.window = policy, sinks, window
        prefix = self._prefix()
        strays = [p for p in self.slot_of if prefix <= p < start]
        self.horizon = max(start, prefix)
        excess = 0 if policy == "full" else max(0, prefix + self.recent_entries - window)
        evicted = [Span(min(strays), max(strays))] if strays else []
        if excess:
            evicted.append(Span(self.horizon, self.horizon + excess - 1))
            self.horizon += excess
        for span in evicted:
            self._release(range(span.first, span.last + 1))
            self.evicted_total += span.count
        moves = self._resize(max(self.rows, GROWTH) if policy == "full" else window)
        return Switch(moves, tuple(evicted))

    def plan_rerun(self, span: Span) -> Step:
        """Compute the sinks of `span` again, seeing only the sinks before them; those that are gone are written."""
        gone = [p for p in range(span.first, span.last + 1) if p not in self.slot_of]
        slots = self._free[: len(gone)]
        return Step(
            first=span.first,
            count=span.count,
            sinks=span.first,
            recents=0,
            room=span.count,
            writes=tuple((p - span.first, slot) for p, slot in zip(gone, slots, strict=True)),
            evicted=None,
            as_sinks=True,
            rerun=True,
        )

    def rewind(self, position: int) -> None:
        """Go back so that the tokens from `position` on are fed again: no recents, the sinks before it stay.

        Entries that this brings back count as re-admitted, those that were there do not.
        """
        again = self.position - position
        gone = [p for p in self.slot_of if p >= min(self.horizon, position)]
        self.readmitted_total += again - len(gone)
        self._release(gone)
        self.position = self.horizon = position

    def truncate(self, position: int) -> None:
        """Take the tokens from `position` on back, as if they had never been fed. Only while nothing is gone."""
        if not self.gapless or not 0 <= position <= self.position:
            raise ValueError(f"cannot go back to position {position}")
        self._release(range(position, self.position))
        self.position = position
        self.horizon = min(self.horizon, position)

    def _prefix(self) -> int:
        """How many tokens of the sequence are to be sinks."""
        return min(self.sinks, self.position) if self.keeps_sinks else 0

    def _admit(self, entries: Iterable[tuple[int, int]]) -> None:
        for position, slot in entries:
            self.slot_of[position] = slot
            self.position_at[slot] = position
            del self._free[bisect_left(self._free, slot)]

    def _release(self, positions: Iterable[int]) -> None:
        for position in positions:
            slot = self.slot_of.pop(position)
            self.position_at[slot] = None
            self._free.append(slot)
        self._free.sort()

    def _resize(self, rows: int) -> tuple[tuple[int, int], ...]:
        """Have `rows` rows; entries past the end move to free ones, and the moves are returned."""
        used = set(self.slot_of.values())
        free = [slot for slot in range(rows) if slot not in used]
        moves: list[tuple[int, int]] = []
        for position, slot in self.slot_of.items():
            if slot >= rows:
                self.slot_of[position] = free[len(moves)]
                moves.append((slot, free[len(moves)]))
        self._free = free[len(moves) :]
        self.position_at = [None] * rows
        for position, slot in self.slot_of.items():
            self.position_at[slot] = position
        return tuple(moves)
