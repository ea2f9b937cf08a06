"""What is done with is freed at once: a GPU has no room for what waits until garbage is collected,
and none for copies of what grows."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tests.engine.listening import engine, prompt


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("policy", ["sinks", "window", "full", "recompute"])
def test_an_engine_takes_its_cache_with_it(policy: str) -> None:
    one = engine(policy=policy)
    for events in (one.prefill(prompt(60)), one.generate(5), one.rebuild(), one.change(window=20)):
        for _event in events:
            pass
    held = [weakref.ref(part) for part in (one._sequence.cache, *one._sequence.cache.rings.values())]
    assert all(part() is not None for part in held)
    del one, events, _event
    assert [part() for part in held] == [None] * len(held)


def test_rings_that_were_laid_out_anew_are_let_go() -> None:
    one = engine()
    list(one.prefill(prompt(60)))
    held = [weakref.ref(ring) for ring in one._sequence.cache.rings.values()]
    list(one.change(window=40))
    list(one.prefill(prompt(5)))
    assert [ring() for ring in held] == [None] * len(held)


def test_the_full_cache_grows_once_for_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    one = engine(policy="full", trained=8192)
    rows: list[int] = []
    cache = one._sequence.cache
    relayout = cache.relayout
    monkeypatch.setattr(cache, "relayout", lambda n, *rest: (rows.append(n), relayout(n, *rest)))
    list(one.prefill(prompt(2500)))
    assert sorted(set(rows)) == [1024, 3072]
