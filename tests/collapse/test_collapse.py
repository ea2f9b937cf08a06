"""What the program is for, on the real model: a text of several windows."""

from __future__ import annotations

import pytest

from tests.collapse.reading import Reading, read, tokens_of

WINDOW = 256
TOKENS = 6 * WINDOW

pytestmark = pytest.mark.real_model


@pytest.fixture(scope="module")
def runs(small_float32) -> dict[str, Reading]:
    ids = tokens_of(small_float32, TOKENS)
    return {
        "full": read(small_float32, ids, policy="full", window=WINDOW),
        "sinks": read(small_float32, ids, policy="sinks", sinks=4, window=WINDOW),
        "window": read(small_float32, ids, policy="window", sinks=4, window=WINDOW),
    }


def test_before_the_first_eviction_the_policies_are_one(runs) -> None:
    losses = [run.losses[: WINDOW - 1] for run in runs.values()]
    assert losses[1] == pytest.approx(losses[0], abs=1e-3)
    assert losses[2] == pytest.approx(losses[0], abs=1e-3)


def test_with_sinks_the_loss_stays_flat(runs) -> None:
    assert runs["sinks"].perplexity(WINDOW) < 1.4 * runs["full"].perplexity(WINDOW)
    half = (WINDOW + TOKENS) // 2
    early = runs["sinks"].perplexity(WINDOW, half) / runs["full"].perplexity(WINDOW, half)
    late = runs["sinks"].perplexity(half) / runs["full"].perplexity(half)
    assert late < 1.3 * early


def test_without_them_it_rises(runs) -> None:
    assert runs["window"].perplexity(WINDOW) > 1.5 * runs["sinks"].perplexity(WINDOW)


def test_the_sinks_take_far_more_than_their_part_of_the_entries(runs) -> None:
    shares = [share for share in runs["sinks"].shares[WINDOW:] if share is not None]
    assert len(shares) == TOKENS - WINDOW
    assert sum(shares) / len(shares) > 10 * 4 / WINDOW
    oldest = [share for share in runs["window"].shares[WINDOW:] if share is not None]
    assert sum(oldest) < sum(shares)


def test_the_cache_holds_the_window_and_no_more(runs) -> None:
    for policy in ("sinks", "window"):
        after = runs[policy].after
        assert after.kv_entries == WINDOW
        assert after.evicted_total == TOKENS - WINDOW
    assert runs["sinks"].after.kv_bytes == runs["window"].after.kv_bytes < runs["full"].after.kv_bytes


def test_past_a_million_positions_nothing_changes(runs, small_float32) -> None:
    far = read(small_float32, tokens_of(small_float32, 2 * WINDOW), sinks=4, window=WINDOW, distance=1_000_000)
    assert far.losses == pytest.approx(runs["sinks"].losses[: 2 * WINDOW - 1], abs=1e-3)
