"""The bookkeeping of slots, against a naive list of positions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sinkchat.cache.policy import POLICIES
from sinkchat.cache.slots import GROWTH, Slots, Span
from sinkchat.errors import CacheError


class Naive:
    """Which positions are held, token by token: a set, and the rule of the policy spelled out."""

    def __init__(self, policy: str, sinks: int, window: int) -> None:
        self.policy, self.sinks, self.window = policy, sinks, window
        self.held: list[int] = []
        self.position = 0
        self.left: list[int] = []  # every eviction, in order
        self.came_back: list[int] = []

    def is_sink(self, position: int) -> bool:
        return self.policy in ("sinks", "recompute") and position < self.sinks

    def leave(self, position: int) -> None:
        self.held.remove(position)
        self.left.append(position)

    def shrink_to(self, most: int) -> None:
        while self.policy != "full" and len(self.held) > most:
            self.leave(min(p for p in self.held if not self.is_sink(p)))

    def feed(self) -> None:
        self.shrink_to(self.window - 1)
        self.held.append(self.position)
        self.position += 1

    def halve(self) -> list[int]:
        """What is fed again."""
        recents = [position for position in self.held if not self.is_sink(position)]
        older = recents[: (len(recents) + 1) // 2]
        for position in older:
            self.leave(position)
        return recents[len(older) :]

    def configure(self, policy: str, sinks: int, window: int) -> None:
        whole = len(self.held) == self.position
        self.policy, self.sinks, self.window = policy, sinks, window
        newest = self.position
        while newest - 1 in self.held:
            newest -= 1
        for position in sorted(self.held):
            if not whole and not self.is_sink(position) and position < newest:
                self.leave(position)
        gone = [p for p in range(min(sinks, self.position)) if self.is_sink(p) and p not in self.held]
        self.shrink_to(window - len(gone))
        self.held = sorted(self.held + gone)
        self.came_back += gone


def positions(span: Span | None) -> list[int]:
    return list(range(span.first, span.last + 1)) if span else []


class SlotsMachine(RuleBasedStateMachine):
    @initialize(policy=st.sampled_from(POLICIES), sinks=st.integers(0, 6), recents=st.integers(1, 12))
    def start(self, policy: str, sinks: int, recents: int) -> None:
        self.slots = Slots(policy, sinks, sinks + recents)
        self.naive = Naive(policy, sinks, sinks + recents)
        self.left: list[int] = []
        self.written: dict[int, int] = {}  # slot -> position: what a real buffer would hold

    def make_room(self) -> None:
        assert self.slots.cramped == (self.slots.policy == "recompute" and len(self.naive.held) == self.slots.window)
        if not self.slots.cramped:
            return
        before = self.slots.recomputed_total
        self.left += positions(self.slots.halve())
        again = self.naive.halve()
        assert self.slots.position == (again[0] if again else self.naive.position)
        assert self.slots.recomputed_total - before == len(again)
        self.written = {self.slots.slot_of[p]: p for p in self.slots.slot_of}
        if again:
            step = self.slots.plan(len(again))
            assert step.evicted is None
            self.written |= {slot: step.first + offset for offset, slot in step.writes}
            self.slots.commit(step)

    @rule(wanted=st.integers(1, 40))
    def feed(self, wanted: int) -> None:
        self.make_room()
        count = self.slots.limit(wanted)
        step = self.slots.plan(count)
        before = [self.slots.position_at[slot] for slot in self.slots.order()]
        keys = [*before, *range(step.first, step.first + count)]
        for query in range(count):
            self.naive.feed()
            sees = keys[: step.sinks] + keys[step.sinks + step.dropped(query) : len(before) + query + 1]
            assert sees == sorted(self.naive.held)
            assert step.seen(query) == len(sees)
        if count == 1:
            sight = self.slots.sight(step)
        for offset, slot in step.writes:
            self.written[slot] = step.first + offset
        self.slots.commit(step)
        self.left += positions(step.evicted)
        if count == 1:
            visible = [slot for slot in range(sight.high) if slot not in sight.empty]
            assert sorted(self.written[slot] for slot in visible) == sorted(self.naive.held)
            oldest = sorted(self.naive.held)[: self.slots.sinks]
            keeps = self.naive.policy in ("sinks", "recompute")
            watched = [p for p in oldest if not keeps or self.naive.is_sink(p)]
            assert [self.written[slot] for slot in sight.watched] == watched

    @rule(policy=st.sampled_from(POLICIES), sinks=st.integers(0, 6), recents=st.integers(1, 12))
    def configure(self, policy: str, sinks: int, recents: int) -> None:
        window = sinks + recents
        if policy == "full" and not self.slots.gapless:
            with pytest.raises(ValueError, match="gone"):
                self.slots.configure(policy, sinks, window)
            return
        switch = self.slots.configure(policy, sinks, window)
        self.naive.configure(policy, sinks, window)
        for span in switch.evicted:
            self.left += positions(span)
        moved = {target: self.written[source] for source, target in switch.moves}
        self.written = {slot: p for slot, p in self.written.items() if slot < self.slots.rows} | moved
        if self.slots.missing:
            step = self.slots.plan_rerun(self.slots.missing)
            for offset, slot in step.writes:
                self.written[slot] = step.first + offset
            self.slots.commit(step)

    @precondition(lambda self: self.slots.position > 0)
    @rule(count=st.integers(1, 30))
    def fail(self, count: int) -> None:
        self.make_room()
        step = self.slots.plan(self.slots.limit(count))
        for _, slot in step.writes:
            self.written.pop(slot, None)
        lost = positions(self.slots.abort(step))
        for position in lost:
            self.naive.leave(position)
        self.left += lost

    @invariant()
    def the_window_is_never_exceeded(self) -> None:
        if self.slots.policy != "full":
            assert self.slots.entries <= self.slots.window == self.slots.rows
        else:
            assert self.slots.entries <= self.slots.rows

    @invariant()
    def the_entries_are_those_of_feeding_one_by_one(self) -> None:
        assert sorted(self.slots.slot_of) == sorted(self.naive.held)
        assert [self.slots.position_at[slot] for slot in self.slots.order()] == sorted(self.naive.held)

    @invariant()
    def no_slot_is_used_twice_and_each_holds_what_was_written(self) -> None:
        slots = list(self.slots.slot_of.values())
        assert len(set(slots)) == len(slots)
        assert all(self.written[slot] == position for position, slot in self.slots.slot_of.items())
        used = {slot for slot, position in enumerate(self.slots.position_at) if position is not None}
        assert used == set(slots)

    @invariant()
    def evictions_come_in_order_and_count_once_per_stay(self) -> None:
        assert self.left == self.naive.left
        assert self.slots.evicted_total == len(self.left)
        assert self.slots.readmitted_total == len(self.naive.came_back)

    @invariant()
    def the_sum_holds(self) -> None:
        s = self.slots
        assert s.entries + s.evicted_total - s.readmitted_total == s.position == self.naive.position

    @invariant()
    def the_recents_are_the_newest_without_a_gap(self) -> None:
        s = self.slots
        assert all(position in s.slot_of for position in range(s.horizon, s.position))
        prefix = min(s.sinks, s.position) if s.policy in ("sinks", "recompute") else 0
        assert sorted(s.slot_of)[: s.sink_entries] == list(range(prefix))


SlotsMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestSlots = SlotsMachine.TestCase


@given(sinks=st.integers(0, 5), recents=st.integers(1, 20), fed=st.integers(1, 80))
@settings(deadline=None)
def test_a_rebuild_brings_the_newest_back_and_the_sum_holds(sinks: int, recents: int, fed: int) -> None:
    slots = Slots("sinks", sinks, sinks + recents)
    feed(slots, fed)
    slots.configure("window", sinks, sinks + recents)
    feed(slots, 3)
    slots.configure("sinks", sinks, sinks + recents)
    if slots.missing:
        slots.commit(slots.plan_rerun(slots.missing))
    evicted = slots.evicted_total
    slots.rewind(max(slots.sink_entries, slots.position - recents))
    feed(slots, fed + 3 - slots.position)
    assert sorted(slots.slot_of)[slots.sink_entries :] == list(
        range(max(min(sinks, fed + 3), fed + 3 - recents), fed + 3)
    )
    assert slots.entries + slots.evicted_total - slots.readmitted_total == slots.position == fed + 3
    assert slots.evicted_total == evicted


@given(sinks=st.integers(0, 5), recents=st.integers(1, 20), back=st.integers(0, 25))
def test_going_back_before_the_first_eviction_is_as_if_never_fed(sinks: int, recents: int, back: int) -> None:
    slots, fresh = Slots("sinks", sinks, sinks + recents), Slots("sinks", sinks, sinks + recents)
    feed(slots, sinks + recents)
    back = min(back, sinks + recents)
    slots.truncate(back)
    feed(fresh, back)
    feed(slots, 30)
    feed(fresh, 30)
    assert slots.slot_of == fresh.slot_of
    assert slots.horizon == fresh.horizon


def test_going_back_after_an_eviction_is_refused() -> None:
    slots = Slots("sinks", 1, 4)
    feed(slots, 5)
    with pytest.raises(ValueError, match="go back"):
        slots.truncate(2)


def test_the_full_cache_grows_in_whole_blocks() -> None:
    slots = Slots("full", 4, 8)
    feed(slots, GROWTH + 1)
    assert slots.rows == 2 * GROWTH
    assert slots.evicted_total == 0


@pytest.mark.parametrize(
    ("policy", "sinks", "window", "names"),
    [
        ("ring", 4, 32, "ring"),
        ("sinks", -1, 32, "-1 sinks"),
        ("sinks", 0, 0, "window of 0"),
        ("sinks", 32, 32, "window of 33"),
    ],
)
def test_numbers_that_make_no_cache_are_refused_in_one_sentence(policy, sinks, window, names) -> None:
    with pytest.raises(CacheError, match=names):
        Slots(policy, sinks, window)
    slots = Slots("sinks", 4, 32)
    feed(slots, 50)
    with pytest.raises(CacheError):
        slots.configure(policy, sinks, window)
    assert (slots.policy, slots.sinks, slots.window, slots.entries) == ("sinks", 4, 32, 32)


def feed(slots: Slots, count: int) -> None:
    while count:
        part = slots.limit(min(count, 7))
        slots.commit(slots.plan(part))
        count -= part
