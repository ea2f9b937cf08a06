"""The real small model answers what it sees, and guesses what it does not: sinks do not remember.

Measured with a window of 512 and 60 facts: inside, 29 of 30 with 4 sinks and 28 of 30 under the full cache; outside,
4 of 30 with 4 sinks, where guessing gives 3, and 29 of 30 under the full cache.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sinkchat.lab.recall.asking import recall
from sinkchat.lab.recall.stream import Stream, make_stream
from sinkchat.lab.results import Recall, Rule
from sinkchat.lab.source import read_text
from sinkchat.models.load import LoadedModel

pytestmark = pytest.mark.real_model

WINDOW = 128


@pytest.fixture(scope="module")
def stream(small_float32: LoadedModel) -> Stream:
    text = read_text(None).text
    return make_stream(small_float32, text, WINDOW, seed=0, probes=18, distances=(32, 64, 96, 136, 256, 512))


def right(records: Sequence[Recall]) -> float:
    return sum(record.right for record in records) / sum(record.asked for record in records)


def loss(records: Sequence[Recall]) -> float:
    return sum(record.loss * record.asked for record in records) / sum(record.asked for record in records)


def test_what_left_the_window_is_forgotten(small_float32, stream) -> None:
    records = recall(small_float32, Rule("sinks", sinks=4, window=WINDOW), stream, lambda _done: True)
    inside = [record for record in records if record.distance < WINDOW]
    outside = [record for record in records if record.distance > WINDOW]
    assert all(record.visible for record in inside)
    assert not any(record.visible for record in outside)
    assert right(inside) > 0.8
    assert right(outside) < 0.4, "nine guesses, of which one in ten is right"
    assert loss(outside) > loss(inside) + 3


def test_the_full_cache_remembers_all_of_it(small_float32, stream) -> None:
    records = recall(small_float32, Rule("full"), stream, lambda _done: True)
    assert all(record.visible for record in records)
    assert right(records) > 0.8
