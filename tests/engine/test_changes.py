"""Live changes, rebuilds, going back and beginning anew: what they tell, and that what follows is exact."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from sinkchat.cache.ring import Ring
from sinkchat.engine import switching
from sinkchat.engine.events import CacheChanged, DeviceMemory, Evicted, Finished, Readmitted, Rebuilding
from sinkchat.errors import CacheError
from tests.engine.listening import OUT_OF_MEMORY, SINKS, WINDOW, Failure, Listener, close, engine, own, prompt
from tests.reference import paper


def after(count: int, **settings: Any) -> Listener:
    """A prompt of `count` tokens was read."""
    listener = Listener(engine(**settings))
    listener.hear(listener.engine.prefill(prompt(count)))
    return listener


def told(events: list[Any]) -> list[tuple[Any, ...]]:
    """Evictions and readmissions, as (kind, first, last, cause)."""
    return [
        (type(event).__name__, event.first, event.last, getattr(event, "cause", None))
        for event in events
        if isinstance(event, Evicted | Readmitted)
    ]


def assert_next_losses(listener: Listener, steps: list[paper.Step], *, of: int) -> None:
    """The newest `of` tokens, whose losses the reference's last `of` + 1 steps give."""
    assert close(listener.losses[-of:], paper.losses_of(steps[-of - 1 :])[1:])


# ---- policy, window, positions


def test_the_sinks_leave_at_once_and_come_back_at_once() -> None:
    listener = after(60)
    gone = listener.hear(listener.engine.change(policy="window"))
    assert told(gone) == [("Evicted", 0, 3, "policy")]
    change = gone[-1]
    assert isinstance(change, CacheChanged)
    assert (change.cause, change.exact) == ("policy", True)
    assert (change.before.policy, change.before.kv_entries, change.before.sink_entries) == ("sinks", 24, 4)
    assert (change.after.policy, change.after.kv_entries, change.after.sink_entries) == ("window", 20, 0)
    listener.hear(listener.engine.prefill(prompt(10, seed=1)))

    back = listener.hear(listener.engine.change(policy="sinks"))
    assert told(back) == [("Evicted", 46, 49, "policy"), ("Readmitted", 0, 3, None)]
    assert [event for event in back if isinstance(event, Rebuilding)] == [Rebuilding(4, 4)]
    assert back[-1].after.kv_entries == WINDOW
    listener.hear(listener.engine.generate(10))
    schedule = {60: [("policy", "window")], 70: [("policy", "sinks")]}
    assert close(listener.losses, paper.losses_of(paper.run(own(), listener.ids, SINKS, WINDOW, schedule=schedule)))


def test_a_smaller_window_evicts_at_once_and_a_larger_one_grows_by_new_tokens() -> None:
    listener = after(60)
    bytes_before = listener.engine.state().kv_bytes
    smaller = listener.hear(listener.engine.change(window=12))
    assert told(smaller) == [("Evicted", 40, 51, "window")]
    assert smaller[-1].after.kv_bytes == bytes_before // 2
    larger = listener.hear(listener.engine.change(window=48))
    assert told(larger) == []
    assert (larger[-1].after.kv_entries, larger[-1].after.kv_bytes) == (12, bytes_before * 2)
    listener.hear(listener.engine.prefill(prompt(50, seed=1)))
    schedule = {60: [("window", 12), ("window", 48)]}
    assert close(listener.losses, paper.losses_of(paper.run(own(), listener.ids, SINKS, WINDOW, schedule=schedule)))


def test_several_things_change_at_once() -> None:
    listener = after(60)
    events = listener.hear(listener.engine.change(policy="window", window=16, positions="absolute"))
    assert told(events) == [("Evicted", 0, 3, "policy"), ("Evicted", 40, 43, "policy")]
    now = listener.engine.state()
    assert (now.policy, now.window, now.positions, now.kv_entries) == ("window", 16, "absolute", 16)
    listener.hear(listener.engine.change(policy="sinks"))
    listener.hear(listener.engine.prefill(prompt(20, seed=1)))
    schedule = {60: [("policy", "window"), ("window", 16), ("positions", "absolute"), ("policy", "sinks")]}
    assert close(listener.losses, paper.losses_of(paper.run(own(), listener.ids, SINKS, WINDOW, schedule=schedule)))


def test_positions_change_what_follows_and_evict_nothing() -> None:
    listener = after(60)
    events = listener.hear(listener.engine.change(positions="absolute"))
    assert [type(event) for event in events] == [CacheChanged]
    assert (events[0].cause, events[0].before.positions, events[0].after.positions) == (
        "positions",
        "cache",
        "absolute",
    )
    listener.hear(listener.engine.generate(10))
    schedule = {60: [("positions", "absolute")]}
    assert close(listener.losses, paper.losses_of(paper.run(own(), listener.ids, SINKS, WINDOW, schedule=schedule)))


def test_what_is_so_already_changes_nothing() -> None:
    listener = after(60)
    before = listener.engine.state()
    assert told(listener.hear(listener.engine.change(policy="sinks", sinks=SINKS, window=WINDOW))) == []
    assert listener.engine.state() == before


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"window": 513}, "512 positions"),
        ({"window": 4}, "no room"),
        ({"sinks": 24}, "no room"),
        ({"sinks": -1}, "-1 sinks"),
        ({"policy": "ring"}, "ring"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_changed(change, why) -> None:
    listener = after(60)
    before = listener.engine.state()
    with pytest.raises(CacheError, match=why):
        listener.hear(listener.engine.change(**change))
    assert listener.engine.state() == before
    listener.check()


# ---- the full cache, by a replay


@pytest.mark.parametrize("policy", ["sinks", "window"])
def test_the_full_cache_after_evictions_is_a_replay_of_everything(policy) -> None:
    listener = after(60, policy=policy)
    events = listener.hear(listener.engine.change(policy="full"))
    first, last = (4, 39) if policy == "sinks" else (0, 35)
    assert told(events) == [("Readmitted", first, last, None)]
    progress = [event for event in events if isinstance(event, Rebuilding)]
    assert [event.total for event in progress] == [60] * 9
    assert progress[-1] == Rebuilding(60, 60)
    assert (events[-1].cause, events[-1].exact, events[-1].after.kv_entries) == ("policy", True, 60)
    listener.hear(listener.engine.generate(5))
    listener.hear(listener.engine.prefill(prompt(20, seed=1)))
    steps = paper.run(own(), listener.ids, policy="full")
    assert_next_losses(listener, steps, of=25)
    assert close(listener.shares[-24:], [float(step.share(SINKS).mean()) for step in steps[-25:-1]])


def test_a_replay_past_the_trained_length_is_refused() -> None:
    listener = after(65, trained=64)
    before = listener.engine.state()
    with pytest.raises(CacheError, match="65 tokens"):
        listener.hear(listener.engine.change(policy="full"))
    assert listener.engine.state() == before
    listener = after(64, trained=64)
    assert listener.last(listener.engine.change(policy="full")).after.kv_entries == 64


def test_a_replay_that_does_not_fit_into_memory_is_refused(monkeypatch) -> None:
    listener = after(60)
    before = listener.engine.state()
    monkeypatch.setattr(switching, "device_memory", lambda device: DeviceMemory(1000, 1010, 10))
    with pytest.raises(CacheError, match=" GB "):
        listener.hear(listener.engine.change(policy="full"))
    assert listener.engine.state() == before


def test_a_replay_that_fails_on_the_way_is_finished_before_the_next_token() -> None:
    listener = after(60)
    failure = Failure(listener.engine)
    events = []
    for event in listener.engine.change(policy="full"):
        listener._check(event)
        events.append(event)
        if isinstance(event, Rebuilding) and event.done == 21:
            failure.next(OUT_OF_MEMORY)
    assert isinstance(events[-1], Finished)
    assert events[-2].after.policy == "full"
    listener.hear(listener.engine.prefill(prompt(20, seed=1)))
    listener.check()
    assert listener.engine.state().kv_entries == 80
    assert_next_losses(listener, paper.run(own(), listener.ids, policy="full"), of=19)


@pytest.mark.parametrize("change", [{"window": 12}, {"window": 48}, {"policy": "full"}, {"window": 30, "sinks": 2}])
def test_buffers_that_cannot_be_laid_out_anew_leave_everything_as_it_was(change, monkeypatch) -> None:
    def fail(*_: Any) -> Ring:
        raise torch.OutOfMemoryError("out of memory")

    listener = after(60)
    before = listener.engine.state()
    with monkeypatch.context() as patch:
        patch.setattr(Ring, "relaid", fail)
        with pytest.raises(CacheError, match="memory"):
            listener.hear(listener.engine.change(**change))
    assert listener.engine.state() == before
    listener.hear(listener.engine.prefill(prompt(20, seed=1)))
    assert close(listener.losses, paper.losses_of(paper.run(own(), listener.ids, SINKS, WINDOW)))


# ---- rebuild


def test_a_rebuild_holds_the_sinks_and_the_newest_as_if_nothing_else_had_been() -> None:
    """In the positions of the cache, that is a fresh run over those tokens alone."""
    listener = after(50)
    listener.hear(listener.engine.change(policy="window"))
    listener.hear(listener.engine.prefill(prompt(3, seed=1)))
    listener.hear(listener.engine.change(policy="sinks"))
    listener.hear(listener.engine.change(window=14))
    listener.hear(listener.engine.change(window=WINDOW))
    assert listener.engine.state().kv_entries == 14
    events = listener.hear(listener.engine.rebuild())
    assert told(events) == [("Readmitted", 33, 42, None)]
    assert (events[-1].cause, events[-1].exact, events[-1].after.kv_entries) == ("rebuild", False, WINDOW)
    assert events[-1].after.sink_entries == SINKS

    recents = listener.ids[-(WINDOW - SINKS) :]
    listener.hear(listener.engine.generate(15))
    fresh = paper.Paper(own(), SINKS, WINDOW)
    steps = fresh.feed(listener.ids[:SINKS] + recents + listener.ids[-15:])
    assert_next_losses(listener, steps, of=15)


def test_a_rebuild_of_a_pure_window_is_a_fresh_run_of_the_newest() -> None:
    listener = after(60, policy="window")
    listener.hear(listener.engine.rebuild())
    recents = listener.ids[-WINDOW:]
    listener.hear(listener.engine.generate(15))
    steps = paper.run(own(), recents + listener.ids[-15:], SINKS, WINDOW, policy="window")
    assert_next_losses(listener, steps, of=15)


@pytest.mark.parametrize("policy", ["sinks", "full"])
def test_a_rebuild_before_anything_was_evicted_is_exact(policy) -> None:
    listener = after(20, policy=policy)
    assert listener.last(listener.engine.rebuild()).exact
    listener.hear(listener.engine.generate(20))
    assert close(listener.losses, paper.losses_of(paper.run(own(), listener.ids, SINKS, WINDOW, policy=policy)))


# ---- going back and beginning anew


@pytest.mark.parametrize("policy", ["sinks", "window", "full"])
@pytest.mark.parametrize("position", [1, 3, 4, 5, 19, 20])
def test_going_back_is_as_if_the_rest_had_never_been(policy, position) -> None:
    listener = after(20, policy=policy)
    listener.engine.truncate(position)
    assert listener.engine.state().position == position
    assert listener.engine.state().kv_entries == position
    anew = after(position, policy=policy)
    ours, theirs = torch.tensor(listener.engine.share_heads()), torch.tensor(anew.engine.share_heads())
    assert (ours - theirs).abs().max() < 1e-5
    events = [list(each.engine.prefill(prompt(30, seed=1))) for each in (listener, anew)]
    losses = [[loss for event in each if hasattr(event, "ids") for loss in event.losses] for each in events]
    assert len(losses[0]) == 30
    assert close(*losses)
    assert listener.engine.state() == anew.engine.state()


def test_going_back_to_the_beginning() -> None:
    listener = after(20)
    listener.engine.truncate(0)
    assert listener.engine.share_heads() is None
    with pytest.raises(CacheError, match="nothing to go on"):
        next(listener.engine.generate(1))
    again = next(event for event in listener.engine.prefill(prompt(20)))
    assert again.losses[0] is None


def test_going_back_is_refused_once_something_is_gone() -> None:
    listener = after(30)
    before = listener.engine.state()
    with pytest.raises(CacheError, match="6 tokens are gone"):
        listener.engine.truncate(28)
    assert listener.engine.state() == before


@pytest.mark.parametrize("position", [-1, 21])
def test_going_back_to_where_nothing_is_changes_nothing(position) -> None:
    listener = after(20)
    with pytest.raises(ValueError, match="position"):
        listener.engine.truncate(position)
    listener.hear(listener.engine.generate(10))
    assert close(listener.losses, paper.losses_of(paper.run(own(), listener.ids, SINKS, WINDOW)))


def test_a_clear_forgets_the_sequence_and_keeps_the_settings() -> None:
    listener = after(60)
    listener.hear(listener.engine.change(window=16, positions="absolute"))
    before = listener.engine.state()
    (cleared,) = listener.engine.clear()
    assert isinstance(cleared, CacheChanged)
    assert (cleared.cause, cleared.before) == ("clear", before)
    now = listener.engine.state()
    assert cleared.after == now
    assert (now.position, now.kv_entries, now.evicted_total, now.readmitted_total, now.horizon) == (0, 0, 0, 0, 0)
    assert (now.window, now.positions, now.kv_bytes) == (16, "absolute", before.kv_bytes)
    assert listener.engine.share_heads() is None

    anew = Listener(listener.engine)
    anew.hear(anew.engine.prefill(prompt(40, seed=1)))
    steps = paper.run(own(), anew.ids, SINKS, 16, positions="absolute")
    assert close(anew.losses, paper.losses_of(steps))
