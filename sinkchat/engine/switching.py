"""Changing the cache while a sequence is in it: policy, positions, sinks, window, and running entries again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Literal

from sinkchat.cache.policy import Policy, Positions, check
from sinkchat.cache.slots import Span, Switch
from sinkchat.engine.events import CacheChanged, Event, Evicted, Readmitted, Rebuilding
from sinkchat.engine.memory import device_memory
from sinkchat.engine.sequence import TokenSequence
from sinkchat.errors import CacheError
from sinkchat.models.facts import ModelFacts

Resized = Literal["policy", "sinks", "window"]
"""What can make entries leave. The first of them that is asked for names a change of several."""


class Switcher:
    """Changes the cache of one sequence. `text` gives the text of positions first..last."""

    def __init__(
        self, sequence: TokenSequence, facts: ModelFacts, chunk: int, text: Callable[[int, int], str]
    ) -> None:
        self._sequence = sequence
        self._facts = facts
        self._chunk = chunk
        self._text = text

    def change(
        self, policy: Policy | None, positions: Positions | None, sinks: int | None, window: int | None
    ) -> Iterator[Event]:
        """Raises CacheError before anything changed when it cannot be done; RuntimeError when the device fails later,
        once CacheChanged has told what did change."""
        cache, slots = self._sequence.cache, self._sequence.cache.slots
        yield from self.tell_lost()
        yield from self._run_again()
        before = self._sequence.state()
        goal = (
            slots.policy if policy is None else policy,
            slots.sinks if sinks is None else sinks,
            slots.window if window is None else window,
        )
        check_fits(self._facts, *goal)
        resized: Resized = "policy" if policy else "sinks" if sinks is not None else "window"
        cause = "positions" if policy is None and sinks is None and window is None else resized
        replayed = goal[0] == "full" and not slots.gapless
        if replayed:
            self._check_replay()
        try:
            if replayed:
                yield from self._replay(goal)
            elif goal != (slots.policy, slots.sinks, slots.window):
                for span in self._lay_out(goal).evicted:
                    yield self.evicted(span, resized)
            if positions is not None:
                cache.positions = positions
            yield from self._bring_back()
        except RuntimeError:
            yield CacheChanged(cause, before, self._sequence.state(), exact=True)
            raise
        yield CacheChanged(cause, before, self._sequence.state(), exact=True)

    def rebuild(self) -> Iterator[Event]:
        """The sinks stay as they are; the newest tokens run again on top of them."""
        slots = self._sequence.cache.slots
        yield from self.tell_lost()
        yield from self._run_again()
        yield from self._bring_back()
        before = self._sequence.state()
        exact = slots.gapless
        share = slots.position if slots.policy == "full" else slots.window - slots.sink_entries
        newest = max(0, slots.position - share)
        target = max(slots.sink_entries, newest)
        gone = max(0, slots.horizon - target)
        self._sequence.rewind(target)
        if gone:
            yield Readmitted(target, target + gone - 1, gone)
        yield from self.catch_up()
        yield CacheChanged("rebuild", before, self._sequence.state(), exact=exact)

    def catch_up(self) -> Iterator[Event]:
        """Make good what a run that broke off left: sinks to be computed again, tokens to be fed."""
        yield from self.tell_lost()
        yield from self._run_again()
        yield from self._bring_back()
        total = self._sequence.pending
        while self._sequence.pending:
            yield from self.make_room()
            read = self._sequence.feed(self._chunk)
            if read.evicted:
                yield self.evicted(read.evicted, "rebuild")
            yield Rebuilding(total - self._sequence.pending, total)

    def make_room(self) -> Iterator[Event]:
        """Under `recompute`, with the window full: the older half leaves, and the newer runs again. To be asked for
        before every step."""
        yield from self._run_again()
        if self._sequence.cache.slots.cramped:
            yield self.evicted(self._sequence.halve(), "recompute")
            yield from self._run_again()

    def _run_again(self) -> Iterator[Event]:
        total = self._sequence.standing
        while self._sequence.standing:
            self._sequence.feed(self._chunk)
            yield Rebuilding(total - self._sequence.standing, total)

    def _lay_out(self, goal: tuple[Policy, int, int]) -> Switch:
        """Keep the books and the buffers in the new way; raises CacheError, and both stay as they were."""
        cache = self._sequence.cache
        before = deepcopy(cache.slots)
        if goal[0] == "full" and not cache.slots.gapless:
            cache.slots.rewind(0)
        switch = cache.slots.configure(*goal)
        rows = cache.slots.rows
        try:
            cache.relayout(rows, switch.moves)
        except RuntimeError as error:
            cache.slots = before
            raise CacheError(
                f"There is no memory to lay out {rows:,} entries anew; choose another window, or /clear."
            ) from error
        return switch

    def _bring_back(self) -> Iterator[Event]:
        missing = self._sequence.cache.slots.missing
        for span in self._sequence.rerun(self._chunk):
            assert missing is not None
            yield Readmitted(span.first, span.last, span.count)
            yield Rebuilding(span.last + 1 - missing.first, missing.count)

    def tell_lost(self) -> Iterator[Event]:
        """The evictions that failed steps brought."""
        lost = self._sequence.cache.lost
        while lost:
            yield self.evicted(lost.pop(0), "token")

    def _replay(self, goal: tuple[Policy, int, int]) -> Iterator[Event]:
        """Every token runs again, over the cache that forgets nothing."""
        slots = self._sequence.cache.slots
        gone = slots.position - slots.entries
        first = next(p for p in range(slots.position) if p not in slots.slot_of)
        self._lay_out(goal)
        self._sequence.rewind(0)
        yield Readmitted(first, first + gone - 1, gone)
        yield from self.catch_up()

    def _check_replay(self) -> None:
        state = self._sequence.state()
        trained = self._facts.trained_length
        if state.position > trained:
            raise CacheError(
                f"The full cache would hold {state.position:,} tokens, and {self._facts.name} was trained for "
                f"{trained:,}; stay with a bounded policy, or /clear."
            )
        rows = self._sequence.cache.slots.rows
        # while buffers grow, the old and the new ones lie side by side
        needed = state.kv_bytes * max(0, 2 * state.position - rows) // rows
        memory = device_memory(self._facts.device)
        if memory and needed > memory.free:
            raise CacheError(
                f"The full cache of {state.position:,} tokens needs {needed / 1e9:.1f} GB more to grow, and "
                f"{memory.free / 1e9:.1f} GB are free; stay with a bounded policy, or /clear."
            )

    def evicted(self, span: Span, cause: Resized | Literal["rebuild", "token", "recompute"]) -> Evicted:
        return Evicted(span.first, span.last, span.count, self._text(span.first, span.last), cause)


def check_fits(facts: ModelFacts, policy: Policy, sinks: int, window: int) -> None:
    """Raises CacheError, in one sentence, unless these make a cache of this model."""
    check(policy, sinks, window)
    if window > facts.trained_length:
        raise CacheError(
            f"A window of {window:,} entries is longer than the {facts.trained_length:,} positions that "
            f"{facts.name} was trained for; give a window of {facts.trained_length:,} or less."
        )
