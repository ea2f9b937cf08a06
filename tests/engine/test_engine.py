"""What each event says, against the reference run over the same tokens."""

from __future__ import annotations

import math

import pytest
import torch

from sinkchat.engine.events import ChunkRead, Evicted, Finished, Looping, Prefilled, Token
from sinkchat.errors import CacheError
from sinkchat.models.sampling import Sampling
from tests.engine.listening import GREEDY, SINKS, WINDOW, Listener, close, engine, own, prompt, tokenizer
from tests.reference import paper


def reference(ids: list[int], **settings: object) -> list[paper.Step]:
    return paper.run(own(), ids, SINKS, WINDOW, **settings)


def mean_share(step: paper.Step) -> float:
    return float(step.share(step.sinks or SINKS).mean())


@pytest.fixture(params=["sinks", "window", "full"])
def conversation(request: pytest.FixtureRequest) -> Listener:
    """Two prompts with a reply to each, well past a full cache."""
    listener = Listener(engine(policy=request.param))
    listener.hear(listener.engine.prefill(prompt(17)))
    listener.hear(listener.engine.generate(20))
    listener.hear(listener.engine.prefill(prompt(33, seed=1)))
    listener.hear(listener.engine.generate(9))
    return listener


def test_every_loss_is_that_of_the_raw_logits_over_turns_too(conversation) -> None:
    steps = reference(conversation.ids, policy=conversation.engine.state().policy)
    assert len(steps) == 17 + 20 + 33 + 9
    assert close(conversation.losses, paper.losses_of(steps))
    assert conversation.losses[0] is None
    assert None not in conversation.losses[1:]


def test_a_tokens_share_is_that_of_the_query_that_predicted_it(conversation) -> None:
    steps = reference(conversation.ids, policy=conversation.engine.state().policy)
    assert close(conversation.shares, [None, *map(mean_share, steps[:-1])])
    latest = steps[-1]
    heads = torch.tensor(conversation.engine.share_heads())
    assert (heads - latest.share(latest.sinks or SINKS)).abs().max() < 1e-4


def test_evictions_are_told_in_order_with_their_text(conversation) -> None:
    policy, position = conversation.engine.state().policy, conversation.engine.state().position
    first = SINKS if policy == "sinks" else 0
    gone = 0 if policy == "full" else position - WINDOW
    assert conversation.evicted == list(range(first, first + gone))


def test_the_text_of_an_eviction_is_that_of_its_tokens() -> None:
    listener = Listener(engine())
    events = listener.hear(listener.engine.prefill(prompt(60))) + listener.hear(listener.engine.generate(5))
    evictions = [event for event in events if isinstance(event, Evicted)]
    assert len(evictions) > 5
    for event in evictions:
        assert event.cause == "token"
        assert event.text == tokenizer().decode(
            listener.ids[event.first : event.last + 1], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )


def test_a_prompt_is_told_in_chunks_and_then_once() -> None:
    listener = Listener(engine())
    ids = prompt(45)
    *chunks, done = [e for e in listener.hear(listener.engine.prefill(ids)) if not isinstance(e, Evicted)]
    assert all(isinstance(chunk, ChunkRead) for chunk in chunks)
    assert [len(chunk.ids) for chunk in chunks] == [4, 7, 7, 7, 7, 7, 6]  # a step holds sinks or recents, never both
    assert [chunk.done for chunk in chunks] == [4, 11, 18, 25, 32, 39, 45]
    assert {chunk.total for chunk in chunks} == {45}
    assert listener.ids == ids
    assert "".join(listener.texts) == tokenizer().decode(
        ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )

    steps = reference(ids)
    assert isinstance(done, Prefilled)
    assert done.tokens == 45
    assert done.loss == pytest.approx(sum(paper.losses_of(steps)[1:]) / 44, abs=1e-4)
    assert done.sink_share == pytest.approx(sum(map(mean_share, steps[:-1])) / 44, abs=1e-4)
    heads = torch.stack([step.sink_share for step in steps[:-1]]).mean(0)
    assert (torch.tensor(done.share_heads) - heads).abs().max() < 1e-4
    assert done.seconds > 0


def test_a_token_speaks_of_the_moment_before_it_is_fed() -> None:
    listener = Listener(engine())
    listener.hear(listener.engine.prefill(prompt(30)))
    events = listener.hear(listener.engine.generate(12))
    tokens = [event for event in events if isinstance(event, Token)]
    steps = reference(listener.ids)
    assert [token.cache.position for token in tokens] == list(range(30, 42))
    assert listener.engine.state().position == 42
    for token in tokens:
        predicted_by = steps[token.cache.position - 1]
        assert token.cache.kv_entries == predicted_by.entries
        head = predicted_by.sink_share.flatten().argmax()
        assert (token.strong_head.layer, token.strong_head.head) == divmod(int(head), 4)
        assert token.strong_head.share == pytest.approx(float(predicted_by.sink_share.max()), abs=1e-4)
    for token in tokens[1:]:  # the first was predicted by a chunk, of which it is not known
        predicted_by = steps[token.cache.position - 1]
        mean = predicted_by.attention.mean((0, 1))
        mean[:SINKS] = 0
        position = predicted_by.visible[int(mean.argmax())]
        assert token.strong_entry.position == position
        assert token.strong_entry.share == pytest.approx(float(mean.max()), abs=1e-4)
        assert token.strong_entry.text == tokenizer().decode(listener.ids[position : position + 1])
    assert tokens[0].strong_entry is None


def test_the_end_of_a_reply_sums_it_up() -> None:
    listener = Listener(engine())
    listener.hear(listener.engine.prefill(prompt(30)))
    done = listener.last(listener.engine.generate(12))
    steps = reference(listener.ids)[29:41]
    assert (done.reason, done.tokens, done.stop_id, done.error) == ("length", 12, None, None)
    assert done.sink_share == pytest.approx(sum(map(mean_share, steps)) / 12, abs=1e-4)
    heads = torch.stack([step.sink_share for step in steps]).mean(0)
    assert (torch.tensor(done.share_heads) - heads).abs().max() < 1e-4
    assert done.tokens_per_second > 0
    assert done.seconds_to_first_token > 0
    assert listener.last(listener.engine.generate(1)).tokens_per_second is None


def test_without_sinks_to_watch_there_is_no_share_rather_than_a_zero() -> None:
    listener = Listener(engine(sinks=0))
    done = listener.last(listener.engine.prefill(prompt(30)))
    assert (done.sink_share, done.share_heads) == (None, None)
    events = listener.hear(listener.engine.generate(3))
    assert listener.shares == [None] * 33
    assert all(event.strong_head is None for event in events if isinstance(event, Token))
    assert listener.engine.share_heads() is None
    # the latest query was asked nothing about sinks that it did not have
    listener.hear(listener.engine.change(sinks=2))
    assert listener.engine.share_heads() is None
    token = listener.hear(listener.engine.generate(1))[0]
    assert (token.sink_share, token.strong_head) == (None, None)
    assert listener.engine.share_heads() is not None
    # and the other way about
    listener.hear(listener.engine.change(sinks=0))
    assert listener.engine.share_heads() is None


def test_a_stop_token_ends_the_reply_and_is_never_fed() -> None:
    listener = Listener(engine())
    listener.hear(listener.engine.prefill(prompt(20)))
    listener.hear(listener.engine.generate(12))
    stop = listener.ids[26]
    assert stop not in listener.ids[20:26]

    listener = Listener(engine(stops={stop}))
    listener.hear(listener.engine.prefill(prompt(20)))
    done = listener.last(listener.engine.generate(12))
    assert (done.reason, done.stop_id, done.tokens) == ("stop", stop, 6)
    assert stop not in listener.ids[20:]
    assert done.cache.position == len(listener.ids) == 26
    # what was predicted then is still what comes next
    listener.hear(listener.engine.prefill(prompt(10, seed=1)))
    assert close(listener.losses, paper.losses_of(reference(listener.ids)))


def test_a_reply_can_go_past_its_stop_tokens_and_keeps_its_raw_losses() -> None:
    stops = set(range(0, len(tokenizer()), 3))
    listener = Listener(engine(stops=stops))
    listener.hear(listener.engine.prefill(prompt(10)))
    done = listener.last(listener.engine.generate(60, ignore_stops=True))
    assert (done.reason, done.tokens, done.stop_id) == ("length", 60, None)
    assert not stops & set(listener.ids[10:])
    assert close(listener.losses, paper.losses_of(reference(listener.ids)))


def test_a_reply_without_a_cap_goes_on_until_it_is_cancelled() -> None:
    listener = Listener(engine())
    listener.hear(listener.engine.prefill(prompt(10)))
    heard = 0
    for event in listener.engine.generate(0):
        listener._check(event)
        heard += isinstance(event, Token)
        if heard == 70:
            listener.engine.cancel()
    assert isinstance(event, Finished)
    assert (event.reason, event.tokens) == ("cancelled", 70)
    assert event.cache.position == 80


def test_nothing_to_go_on_from_is_said_at_once() -> None:
    with pytest.raises(CacheError, match="nothing to go on from"):
        next(engine().generate(5))


def test_greedy_is_the_most_likely_token_each_time() -> None:
    listener = Listener(engine(sampling=GREEDY))
    listener.hear(listener.engine.prefill(prompt(20)))
    listener.hear(listener.engine.generate(15))
    steps = reference(listener.ids)
    assert listener.ids[20:] == [int(step.logits.argmax()) for step in steps[19:-1]]


def test_the_same_seed_says_the_same_and_another_does_not() -> None:
    def said(seed: int | None, chunk: int = 7) -> list[int]:
        listener = Listener(engine(sampling=Sampling(seed=seed), chunk=chunk))
        listener.hear(listener.engine.prefill(prompt(30)))
        listener.hear(listener.engine.generate(30))
        return listener.ids[30:]

    assert said(5) == said(5) == said(5, chunk=30)
    assert said(5) != said(6)
    unseeded = engine(sampling=Sampling(seed=None))
    assert unseeded.sampling.seed is not None


def test_new_sampling_holds_from_the_next_token_on() -> None:
    listener = Listener(engine())
    listener.hear(listener.engine.prefill(prompt(20)))
    listener.engine.resample(GREEDY)
    assert listener.engine.sampling.temperature == 0
    listener.hear(listener.engine.generate(1))
    assert listener.ids[-1] == int(reference(listener.ids)[-2].logits.argmax())


def test_a_reply_in_circles_is_told_once() -> None:
    listener = Listener(engine(sampling=GREEDY, sinks=1, window=4))
    listener.hear(listener.engine.prefill(prompt(10)))
    events = listener.hear(listener.engine.generate(400))
    loops = [event for event in events if isinstance(event, Looping)]
    assert len(loops) == 1
    at = sum(isinstance(event, Token) for event in events[: events.index(loops[0])])
    said = listener.ids[10 : 10 + at]
    period, repeats = loops[0].period, loops[0].repeats
    assert said[-period * repeats :] == said[-period:] * repeats


def test_a_window_is_the_trained_length_at_most() -> None:
    with pytest.raises(CacheError, match="64 positions"):
        engine(trained=64, window=65)
    assert engine(trained=64, window=None).state().window == 64
    assert engine(trained=8192, window=None).state().window == 4096


def test_memory_is_that_of_this_process() -> None:
    memory = engine().device_memory()
    assert memory is not None
    assert 10**7 < memory.used < memory.total
    assert 0 < memory.free <= memory.total


def test_memory_does_not_grow_over_three_thousand_tokens() -> None:
    small = engine(layers=1, sinks=2, window=16, trained=4096)
    listener = Listener(small)
    listener.hear(small.prefill(prompt(20)))

    def buffers() -> list[int]:
        rings = small._sequence.cache.rings.values()
        return [pointer for ring in rings for pointer in (ring.keys.data_ptr(), ring.values.data_ptr())]

    before, size = buffers(), small.state().kv_bytes
    assert size == 2 * 2 * 16 * 16 * 4  # keys and values, heads, rows, D, bytes
    for event in small.generate(3000):
        if isinstance(event, Token):
            assert event.cache.kv_entries == 16
            assert event.cache.kv_bytes == size
    assert event.cache.position == 3020
    assert event.cache.evicted_total == 3004
    assert buffers() == before


def test_losses_are_nats() -> None:
    listener = Listener(engine())
    listener.hear(listener.engine.prefill(prompt(10)))
    token = listener.hear(listener.engine.generate(1))[0]
    logits = reference(prompt(10))[-1].logits.double()
    assert token.loss == pytest.approx(-math.log(float(torch.softmax(logits, -1)[token.id])), abs=1e-4)


def test_what_is_said_anew_does_not_begin_with_half_a_character() -> None:
    half = tokenizer().convert_tokens_to_ids("â")  # the byte 0xE2, with which a character of three bytes begins
    said = []
    for more in ([], [half]):
        again = engine(sampling=GREEDY)
        listener = Listener(again)
        listener.hear(again.prefill([*prompt(10), *more]))
        again.truncate(10)
        said.append([event.text for event in again.generate(8) if isinstance(event, Token)])
    assert said[0] == said[1]
