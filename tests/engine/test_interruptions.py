"""However a run ends, the cache is what its state says, and going on equals a run that was never interrupted."""

from __future__ import annotations

from itertools import chain

import pytest

from sinkchat.engine.events import CacheChanged, ChunkRead, Evicted, Finished, Prefilled, Rebuilding, Token
from tests.engine.listening import OUT_OF_MEMORY, SINKS, WINDOW, Failure, Listener, close, engine, own, prompt
from tests.reference import paper

ERRORS = [RuntimeError("CUDA error: device-side assert triggered"), OUT_OF_MEMORY]


def assert_uninterrupted(listener: Listener, tokens: list[int], **settings: object) -> None:
    """Its losses are those of all `tokens`, in one run."""
    listener.check()
    assert listener.engine.state().position == len(tokens)
    losses = dict(enumerate(paper.losses_of(paper.run(own(), tokens, SINKS, WINDOW, **settings))))
    told = [losses[position] for position, token in enumerate(tokens)]
    assert close(listener.losses[-10:], told[-10:])


# ---- cancel


@pytest.mark.parametrize("count", [1, 10, 40])
def test_a_reply_cancelled_between_tokens_goes_on_as_if_it_had_not_been(count) -> None:
    listener = Listener(engine())
    listener.hear(listener.engine.prefill(prompt(15)))
    for event in listener.engine.generate(100):
        listener._check(event)
        if sum(isinstance(e, Token) for e in [event]) and len(listener.ids) == 15 + count:
            listener.engine.cancel()
    assert isinstance(event, Finished)
    assert (event.reason, event.tokens) == ("cancelled", count)
    assert event.cache.position == 15 + count == len(listener.ids)
    listener.hear(listener.engine.generate(12))
    assert close(listener.losses, paper.losses_of(paper.run(own(), listener.ids, SINKS, WINDOW)))


def test_a_prompt_cancelled_between_chunks_leaves_what_was_read() -> None:
    listener = Listener(engine())
    events = []
    for event in listener.engine.prefill(prompt(60)):
        listener._check(event)
        events.append(event)
        if isinstance(event, ChunkRead) and event.done == 32:
            listener.engine.cancel()
    assert (event.reason, event.tokens) == ("cancelled", 32)
    assert not any(isinstance(event, Prefilled) for event in events)
    assert listener.ids == prompt(60)[:32]
    listener.hear(listener.engine.prefill(prompt(20, seed=1)))
    assert listener.ids == prompt(60)[:32] + prompt(20, seed=1)
    assert_uninterrupted(listener, listener.ids)


def test_a_cancel_while_nothing_runs_is_forgotten() -> None:
    listener = Listener(engine())
    listener.engine.cancel()
    assert isinstance(listener.last(listener.engine.prefill(prompt(30))), Prefilled)
    listener.engine.cancel()
    assert listener.last(listener.engine.generate(3)).reason == "length"


# ---- closed


@pytest.mark.parametrize("kind", [Token, Evicted])
def test_a_reply_that_nobody_listens_to_any_more_keeps_every_token_that_was_sent(kind) -> None:
    listener = Listener(engine())
    listener.hear(listener.engine.prefill(prompt(25)))
    sent = iter(range(8))
    listener.hear(listener.engine.generate(50), until=lambda event: isinstance(event, kind) and next(sent) == 7)
    listener.check()
    # the token that was sent last may be owed, and is fed before anything else
    assert listener.engine.state().position == len(listener.ids) - (kind is Token)
    events = listener.hear(listener.engine.prefill(prompt(20, seed=1)))
    assert (Rebuilding(1, 1) in events) == (kind is Token)
    assert_uninterrupted(listener, listener.ids)


@pytest.mark.parametrize("kind", [ChunkRead, Evicted])
def test_a_prompt_that_nobody_listens_to_any_more_ends_with_its_last_chunk(kind) -> None:
    listener = Listener(engine())
    ids = prompt(80)
    listener.hear(
        listener.engine.prefill(ids),
        until=lambda event: isinstance(event, kind) and listener.engine.state().position > 40,
    )
    listener.check()
    fed = ids[: listener.engine.state().position]
    assert len(fed) == 46
    more = prompt(20, seed=1)
    listener.hear(listener.engine.prefill(more))
    assert_uninterrupted(listener, fed + more)


def test_a_switch_back_that_nobody_listens_to_is_finished_before_the_next_token() -> None:
    """The sinks that are to come back are computed first, whatever was heard of it."""
    schedule = {40: [("policy", "window")], 60: [("policy", "sinks")]}
    listener = Listener(engine())
    listener.hear(listener.engine.prefill(prompt(40)))
    listener.hear(listener.engine.change(policy="window"))
    listener.hear(listener.engine.prefill(prompt(20, seed=1)))
    listener.hear(listener.engine.change(policy="sinks"), until=lambda event: isinstance(event, Evicted))
    listener.check()
    listener.hear(listener.engine.generate(3))
    listener.hear(listener.engine.prefill(prompt(20, seed=2)))
    listener.check()
    assert listener.engine.state().sink_entries == SINKS
    assert_uninterrupted(listener, listener.ids, schedule=schedule)


def test_a_rebuild_that_nobody_listens_to_is_finished_before_the_next_token() -> None:
    def run(broken_off: bool) -> Listener:
        listener = Listener(engine())
        listener.hear(listener.engine.prefill(prompt(60)))
        until = (lambda event: isinstance(event, Rebuilding)) if broken_off else None
        listener.hear(listener.engine.rebuild(), until=until)
        listener.hear(listener.engine.prefill(prompt(20, seed=1)))
        listener.check()
        return listener

    assert close(run(broken_off=True).losses, run(broken_off=False).losses)


# ---- failed


@pytest.mark.parametrize("error", ERRORS, ids=["any", "memory"])
@pytest.mark.parametrize("read", [0, 2, 4], ids=["among the sinks", "as it fills up", "when full"])
def test_a_prompt_that_fails_in_the_middle_of_a_pass(error, read) -> None:
    """What the failed chunk may have overwritten is evicted and told; the rest is what it was."""
    listener = Listener(engine())
    failure = Failure(listener.engine)
    ids, chunks = prompt(60), iter(range(100))
    events = []
    if not read:
        failure.next(error)
    for event in listener.engine.prefill(ids):
        listener._check(event)
        events.append(event)
        if isinstance(event, ChunkRead) and next(chunks) == read:
            failure.next(error)
    *_, last = events
    assert isinstance(last, Finished)
    assert last.reason == "error"
    assert last.tokens == last.cache.position == len(listener.ids) == (0 if not read else 4 + 7 * read)
    assert ("memory" in last.error and "window" in last.error) if error is OUT_OF_MEMORY else "assert" in last.error
    listener.check()

    theirs = paper.Paper(own(), SINKS, WINDOW)
    theirs.feed(listener.ids)
    lost = last.cache.evicted_total - theirs.evicted_total
    assert lost == {0: 0, 2: 1, 4: 7}[read]
    theirs.evict(theirs.sink_count, lost)
    steps = theirs.feed(prompt(30, seed=1))
    listener.hear(listener.engine.prefill(prompt(30, seed=1)))
    listener.check()
    assert close(listener.losses[-29:], paper.losses_of(steps)[1:])
    assert listener.engine.state().kv_entries == WINDOW


@pytest.mark.parametrize("error", ERRORS, ids=["any", "memory"])
@pytest.mark.parametrize("read", [10, 40], ids=["while it fills", "when full"])
def test_a_reply_that_fails_in_the_middle_of_a_token(error, read) -> None:
    """The token was sent, so it is part of the sequence: it is fed before anything else."""
    listener = Listener(engine())
    failure = Failure(listener.engine)
    listener.hear(listener.engine.prefill(prompt(read)))
    for event in listener.engine.generate(100):
        listener._check(event)
        if isinstance(event, Token) and len(listener.ids) == read + 6:
            failure.next(error)
    assert isinstance(event, Finished)
    assert (event.reason, event.tokens) == ("error", 6)
    assert event.cache.position == read + 5
    listener.check()

    theirs = paper.Paper(own(), SINKS, WINDOW)
    theirs.feed(listener.ids[:-1])
    if read == 40:
        theirs.evict(SINKS, 1)
    assert theirs.evicted_total == event.cache.evicted_total
    steps = theirs.feed(listener.ids[-1:] + prompt(30, seed=1))
    listener.hear(listener.engine.prefill(prompt(30, seed=1)))
    listener.check()
    assert listener.engine.state().position == read + 6 + 30
    assert close(listener.losses[-30:], paper.losses_of(steps)[1:])


def test_a_reply_that_fails_twice_ends_twice_in_words() -> None:
    listener = Listener(engine())
    failure = Failure(listener.engine)
    listener.hear(listener.engine.prefill(prompt(40)))
    failure.next(OUT_OF_MEMORY)
    assert listener.last(listener.engine.generate(10)).reason == "error"
    failure.next(OUT_OF_MEMORY)
    assert listener.last(listener.engine.prefill(prompt(10, seed=1))).reason == "error"
    failure.next(OUT_OF_MEMORY)
    assert listener.last(listener.engine.generate(10)).reason == "error"
    listener.check()
    assert listener.last(listener.engine.generate(10)).reason == "length"
    said = listener.ids[40:]
    assert len(said) == 1 + 10
    assert listener.engine.state().position == len(listener.ids)


@pytest.mark.parametrize("change", [{"policy": "sinks"}, {"sinks": 8}])
def test_sinks_that_could_not_be_computed_again_are_before_the_next_token(change) -> None:
    """Nothing is fed to a cache whose sinks are half there."""
    begin = {"sinks": SINKS, "policy": "window" if "policy" in change else "sinks"}
    listener = Listener(engine(**begin))
    failure = Failure(listener.engine)
    listener.hear(listener.engine.prefill(prompt(60)))
    failure.next(OUT_OF_MEMORY)
    *_, changed, done = listener.hear(listener.engine.change(**change))
    assert isinstance(changed, CacheChanged)
    assert {name: getattr(changed.after, name) for name in change} == change
    assert (done.reason, done.tokens) == ("error", 0)
    assert listener.engine.state().sink_entries < listener.engine.state().sinks
    listener.hear(listener.engine.prefill(prompt(20, seed=1)))
    listener.hear(listener.engine.generate(3))

    calm = Listener(engine(**begin))
    calm.hear(chain(calm.engine.prefill(prompt(60)), calm.engine.change(**change)))
    calm.hear(calm.engine.prefill(prompt(20, seed=1)))
    assert close(listener.losses[61:80], calm.losses[61:80])
    assert listener.engine.state().sink_entries == change.get("sinks", SINKS)


def test_what_an_interrupt_cost_is_told_by_the_next_run() -> None:
    """Ctrl+C in the middle of a pass is no event, and what it took must not be gone in silence."""
    listener = Listener(engine())
    failure = Failure(listener.engine)
    listener.hear(listener.engine.prefill(prompt(40)))
    failure.next(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        list(listener.engine.prefill(prompt(30, seed=1)))
    assert listener.engine.state().evicted_total == len(listener.evicted) + 7
    first, *_ = listener.hear(listener.engine.prefill(prompt(30, seed=1)))
    assert isinstance(first, Evicted)
    assert first.count == 7
    theirs = paper.Paper(own(), SINKS, WINDOW)
    begin = theirs.feed(prompt(40))
    theirs.evict(SINKS, 7)
    steps = begin + theirs.feed(prompt(30, seed=1))
    listener.check()
    assert close(listener.losses, paper.losses_of(steps))
