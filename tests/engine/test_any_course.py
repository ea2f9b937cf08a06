"""Whatever happens in whatever order, every loss is the reference's over the same course."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import pytest

from sinkchat.engine.events import CacheState, ChunkRead, Event, Token
from tests.engine.listening import OUT_OF_MEMORY, Failure, Listener, close, engine, own, prompt
from tests.reference import paper

COURSES = 36
POLICIES = ("sinks", "window", "recompute")


class Course:
    """The engine and the reference, side by side."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        sinks = self.dice.choice([0, 1, 3, 4])
        window = sinks + self.dice.randint(1, 20)
        policy = self.dice.choice(POLICIES)
        self.listener = Listener(
            engine(sinks=sinks, window=window, policy=policy, chunk=self.dice.choice([1, 5, 16, 64]))
        )
        self.failure = Failure(self.listener.engine)
        self.reference = paper.Paper(own(), sinks, window, policy=policy)
        self.steps: list[paper.Step] = []
        self.fed = 0
        self.lost = 0
        self.met: set[str] = set()

    def keep_up(self) -> None:
        """The reference is fed what the engine was. What a failure cost is evicted first."""
        state = self.listener.engine.state()
        new = self.listener.ids[self.fed : self.listener.engine._sequence.read]
        self.steps += self.reference.feed(new)
        self.fed += len(new)
        if self.listener.engine._sequence.standing:  # it broke off amidst a recomputation, which is made good later
            self.reference.recompute()
        lost = state.evicted_total - self.reference.evicted_total
        self.lost += lost
        self.reference.evict(self.reference.sink_count, lost)
        assert self.reference.held() == sorted(self.listener._here & set(range(self.fed)))
        assert state.readmitted_total == self.reference.readmitted_total

    def events(self) -> Iterator[Event]:
        if self.dice.random() < 0.5 or not self.steps:
            return self.listener.engine.prefill(prompt(self.dice.randint(1, 50), self.dice.randint(0, 99)))
        return self.listener.engine.generate(self.dice.randint(1, 20))

    def run(self) -> None:
        """To its end; or it is cancelled, or closed, or fails, at a moment that the dice choose."""
        how, at = self.dice.choice(["end", "end", "cancel", "close", "fail"]), self.dice.randint(1, 8)
        events = self.events()
        for number, event in enumerate(events):
            self.listener._check(event)
            if number == at and isinstance(event, Token | ChunkRead):
                if how == "cancel":
                    self.listener.engine.cancel()
                elif how == "fail":
                    self.failure.next(OUT_OF_MEMORY)
                elif how == "close":
                    events.close()  # type: ignore[attr-defined]
                    break
        self.failure.next(None)

    def change(self) -> None:
        engine, reference = self.listener.engine, self.reference
        what = self.dice.choice(["policy", "policy", "window", "positions"])
        value = {
            "policy": self.dice.choice(POLICIES),
            "window": reference.S + self.dice.randint(1, 30),
            "positions": self.dice.choice(["cache", "absolute"]),
        }[what]
        self.listener.hear(engine.change(**{what: value}))
        reference.change(what, value)

    def step(self) -> None:
        before = self.listener.engine.state()
        if self.dice.random() < 0.4:
            self.change()
        else:
            self.run()
        now = self.listener.engine.state()
        self.met |= {f"{before.policy} to {now.policy}", f"{before.positions} to {now.positions}"}
        self.met |= {name for name, it_was in self._signs(before, now).items() if it_was}
        self.listener.check()
        self.keep_up()

    def _signs(self, before: CacheState, now: CacheState) -> dict[str, bool]:
        return {
            "a token owed": now.position < len(self.listener.ids),
            "sinks readmitted": now.readmitted_total > before.readmitted_total,
            "a smaller window": now.window < before.window and now.evicted_total > before.evicted_total,
            "a larger window": now.window > before.window,
            "a failure that cost entries": self.lost > 0,
            "a half run again": now.recomputed_total > before.recomputed_total,
        }


@cache
def course(seed: int) -> Course:
    course = Course(seed)
    for _ in range(14):
        course.step()
    course.listener.hear(course.listener.engine.prefill(prompt(20, seed=100)))
    course.keep_up()
    return course


@pytest.mark.parametrize("seed", range(COURSES))
def test_any_course(seed) -> None:
    done = course(seed)
    assert done.fed == len(done.listener.ids) > 60
    assert close(done.listener.losses, paper.losses_of(done.steps))


def test_the_courses_meet_everything_that_can_happen() -> None:
    policies = {f"{a} to {b}" for a in POLICIES for b in POLICIES}
    positions = {f"{a} to {b}" for a in ("cache", "absolute") for b in ("cache", "absolute")}
    others = set(course(0)._signs(*[course(0).listener.engine.state()] * 2))
    assert set().union(*(course(seed).met for seed in range(COURSES))) == policies | positions | others
