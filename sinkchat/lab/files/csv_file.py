"""The curves of an evaluation as one CSV file, a row a point. Its columns are docs/evaluation.md."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from itertools import islice, repeat
from pathlib import Path
from typing import Any

from sinkchat.lab.files.saving import save
from sinkchat.lab.results import Evaluation, Run

COLUMNS = (
    *("policy", "positions", "sinks", "window", "start_position", "sink_tokens"),
    *("position", "loss", "kv_entries", "evicted", "sink_share"),
)

_ROWS = 10_000
"""Written at a time: an evaluation with the loss of each token has millions."""


def to_csv(evaluation: Evaluation) -> str:
    return "".join(_pieces(evaluation))


def write(evaluation: Evaluation, path: Path | str) -> None:
    """Over what was there, whole or not at all. Raises `SinkchatError`."""
    save(path, _pieces(evaluation))


def _pieces(evaluation: Evaluation) -> Iterator[str]:
    rows = _rows(evaluation)
    yield _written([COLUMNS])
    while some := list(islice(rows, _ROWS)):
        yield _written(some)


def _written(rows: list[Any]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _rows(evaluation: Evaluation) -> Iterator[tuple[object, ...]]:
    for run in evaluation.runs:
        rule = run.rule
        named = (rule.policy, rule.positions, rule.sinks, rule.window, rule.start_position, rule.sink_tokens)
        for row in _points(run) if run.losses is None else _tokens(run, evaluation.bin):
            yield (*named, *row)


def _points(run: Run) -> Iterator[tuple[object, ...]]:
    for point in run.curve:
        yield point.position, point.loss, point.kv_entries, point.evicted, point.sink_share


def _tokens(run: Run, bin: int) -> Iterator[tuple[object, ...]]:
    # What the cache held was counted after each bin; between, nothing is made up.
    counted = {min(point.position + bin, run.tokens) - 1: (point.kv_entries, point.evicted) for point in run.curve}
    losses = run.losses or ()
    shares = repeat(None) if run.shares is None else run.shares
    for position, (loss, share) in enumerate(zip(losses, shares, strict=run.shares is not None)):
        entries, evicted = counted.get(position, (None, None))
        yield position, loss, entries, evicted, share
