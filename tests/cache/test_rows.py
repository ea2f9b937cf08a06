"""What lies in the tensors: as many rows as entries are reported, each key where its token stood, and nothing else is
ever looked at."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from sinkchat.cache.bounded import Fed
from sinkchat.cache.slots import GROWTH, Step
from sinkchat.engine.sequence import TokenSequence
from tests.cache import product
from tests.cache.product import Witnessed, difference, models, run
from tests.cache.test_exactness import LENGTH, SCHEDULES, TOLERANCE, reference
from tests.reference import paper, tiny


class Poisoned(Witnessed):
    """Fills every row without an entry before each step, and counts the rows that were not filled after it."""

    @torch.inference_mode()
    def feed(self, ids: Sequence[int], step: Step) -> Fed:
        self.relayout(self.slots.rows)
        free = [slot for slot, position in enumerate(self.slots.position_at) if position is None]
        rings = list(self.rings.values())
        for ring in rings:
            ring.keys[:, free] = float("nan")
            ring.values[:, free] = 1e30
        fed = super().feed(ids, step)
        for ring in rings:
            used = ~ring.keys.isnan().any(-1)  # [H_kv, rows]
            assert torch.equal(used, (ring.values < 1e30).all(-1))
            assert (used == used[0]).all()
            assert set(used[0].nonzero().flatten().tolist()) == set(self.slots.slot_of.values())
            assert int(used[0].sum()) == self.slots.entries
        return fed


@torch.inference_mode()
@pytest.mark.parametrize("chunk", [1, 7, 41])
@pytest.mark.parametrize("policy", ["sinks", "window", "full"])
def test_buffers_that_begin_as_nan_never_show(policy, chunk) -> None:
    _, ours, turns = models("grouped heads")
    cache = Witnessed(ours, turns, policy=policy, sinks=4, window=32)
    sequence = TokenSequence(cache)
    sequence.tokens = tiny.random_tokens(80)
    sequence.feed(1)
    for ring in cache.rings.values():
        for buffer in (ring.keys, ring.values):
            buffer[:, cache.slots.entries :] = float("nan")
    while sequence.pending:
        sequence.feed(chunk)
        assert sequence.logits.isfinite().all()
        assert len(cache.rings) == 2
        for ring in cache.rings.values():
            for buffer in (ring.keys, ring.values):
                rows = (~buffer.isnan().any(-1)).sum(-1)  # [H_kv]
                assert rows.tolist() == [sequence.state().kv_entries] * 2
    assert sequence.state().kv_entries == (80 if policy == "full" else 32)


@pytest.mark.parametrize("chunk", [1, 7])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_left_is_never_read_again(schedule, chunk, monkeypatch) -> None:
    monkeypatch.setattr(product, "Witnessed", Poisoned)
    _, ours, turns = models("grouped heads")
    done = run(ours, turns, tiny.random_tokens(LENGTH), 4, 32, chunk=chunk, schedule=SCHEDULES[schedule])
    assert isinstance(done.cache, Poisoned)
    assert difference(done.logits, paper.logits_of(reference("grouped heads", schedule=schedule))) < TOLERANCE


@pytest.mark.parametrize("start", [0, 1_000_000])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_rows_key_is_the_references_key_at_its_true_position(schedule, start) -> None:
    own, ours, turns = models("one key head, three layers, llama3")
    tokens = tiny.random_tokens(LENGTH)
    done = run(ours, turns, tokens, 4, 32, chunk=7, schedule=SCHEDULES[schedule], start_position=start)
    theirs = paper.Paper(own, 4, 32, start_position=start)
    theirs.feed(tokens, SCHEDULES[schedule])
    slots = done.cache.slots
    assert [start + position for position in sorted(slots.slot_of)] == theirs.held()
    for layer, entries in enumerate(theirs.cache):
        for position, key, value in entries:
            slot = slots.slot_of[position - start]
            rotated = theirs.rotate(key[None], *theirs.cos_sin(layer, [position]))[0]
            assert difference(done.cache.rings[layer].keys[:, slot], rotated) < TOLERANCE
            assert difference(done.cache.rings[layer].values[:, slot], value) < TOLERANCE


def test_the_full_cache_grows_by_whole_blocks_and_keeps_what_it_has() -> None:
    _, ours, turns = models("grouped heads")
    done = run(ours, turns, tiny.random_tokens(GROWTH + 40), 4, 32, policy="full", chunk=200)
    assert done.states[-1].kv_entries == GROWTH + 40
    assert [ring.rows for ring in done.cache.rings.values()] == [2 * GROWTH] * 2
    assert not (done.cache.rings[0].keys[:, : GROWTH + 40] == 0).all(-1).any()
    assert done.states[0].kv_bytes * 2 == done.states[-1].kv_bytes


@pytest.mark.parametrize("policy", ["sinks", "window"])
def test_a_bounded_cache_never_moves_or_grows(policy) -> None:
    _, ours, turns = models("grouped heads")
    cache = Witnessed(ours, turns, policy=policy, sinks=4, window=24)
    sequence = TokenSequence(cache)
    sequence.tokens = tiny.random_tokens(600)
    places = set()
    for chunk in (1, 50, 7, 1):
        for _ in range(60):
            if sequence.pending:
                sequence.feed(chunk)
                places.add(tuple((r.keys.data_ptr(), r.values.data_ptr()) for r in cache.rings.values()))
                assert sequence.state().kv_bytes == 2 * 2 * 2 * 24 * 16 * 4  # layers, K and V, heads, rows, D, bytes
    assert sequence.state().position == 600
    assert len(places) == 1
