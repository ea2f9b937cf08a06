"""The CSV file holds the curves as they are: read with the standard module, each number is the record's."""

from __future__ import annotations

import csv
import io
import math
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sinkchat.errors import SinkchatError
from sinkchat.lab.files.csv_file import COLUMNS, to_csv, write
from sinkchat.lab.results import Evaluation, Point, Rule
from tests.lab.sample import everything

DOCUMENTED = Path(__file__).parents[3] / "docs" / "evaluation.md"


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return everything()


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_each_point_of_each_run_is_a_row_in_order(evaluation: Evaluation) -> None:
    found = rows(to_csv(evaluation))
    points = [(run.rule, point) for run in evaluation.runs for point in run.curve]
    assert len(found) == len(points)
    for row, (rule, point) in zip(found, points, strict=True):
        window = int(row["window"]) if row["window"] else None
        named = (
            row["policy"],
            row["positions"],
            int(row["sinks"]),
            window,
            int(row["start_position"]),
            row["sink_tokens"],
        )
        assert Rule(*named) == rule  # type: ignore[arg-type]
        share = float(row["sink_share"]) if row["sink_share"] else None
        numbers = int(row["position"]), float(row["loss"]), int(row["kv_entries"]), int(row["evicted"]), share
        assert Point(*numbers) == point


def test_the_columns_are_the_documented_ones(evaluation: Evaluation) -> None:
    assert to_csv(replace(evaluation, runs=())) == ",".join(COLUMNS) + "\n"
    section = re.split("^## ", DOCUMENTED.read_text("utf-8"), flags=re.MULTILINE)
    (described,) = [part for part in section if part.startswith("The CSV file")]
    assert set(COLUMNS) <= set(re.findall(r"`([a-z_]+)`", described))


def test_what_is_not_known_is_empty_and_what_is_not_finite_is_a_word(evaluation: Evaluation) -> None:
    curve = (Point(0, math.nan, 1, 0, None), Point(16, math.inf, 1, 0, 0.25))
    text = to_csv(replace(evaluation, runs=(replace(evaluation.runs[0], curve=curve),)))
    assert text.splitlines()[1:] == ["full,cache,0,,0,text,0,nan,1,0,", "full,cache,0,,0,text,16,inf,1,0,0.25"]


def test_each_token_is_a_row_where_each_was_asked_for(evaluation: Evaluation) -> None:
    run = replace(
        evaluation.runs[1],
        tokens=5,
        losses=(None, 1.5, 2.5, 3.5, 4.5),
        shares=(None, 0.5, 0.25, None, 1.0),
        curve=(Point(0, 1.5, 2, 0, 0.5), Point(2, 3.0, 3, 1, 0.25), Point(4, 4.5, 3, 2, 1.0)),
    )
    text = to_csv(replace(evaluation, bin=2, runs=(run,)))
    assert [line.removeprefix("window,cache,0,256,0,text,") for line in text.splitlines()[1:]] == [
        "0,,,,",
        "1,1.5,2,0,0.5",
        "2,2.5,,,0.25",
        "3,3.5,3,1,",
        "4,4.5,3,2,1.0",
    ]
    unshared = rows(to_csv(replace(evaluation, bin=2, runs=(replace(run, shares=None),))))
    assert [row["sink_share"] for row in unshared] == [""] * 5


def test_a_million_tokens_are_written_in_seconds(tmp_path: Path, evaluation: Evaluation) -> None:
    losses = (None, *(at / 1e6 for at in range(1, 1_000_000)))
    begun = time.process_time()
    write(replace(evaluation, runs=(replace(evaluation.runs[1], losses=losses),)), tmp_path / "out.csv")
    assert time.process_time() - begun < 12
    with (tmp_path / "out.csv").open() as file:
        assert sum(1 for _ in file) == 1_000_001


def test_it_is_written_over_what_was_there_or_not_at_all(tmp_path: Path, evaluation: Evaluation) -> None:
    (tmp_path / "out.csv").write_text("before")
    write(evaluation, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == to_csv(evaluation).encode("ascii")
    broken = replace(evaluation, runs=(replace(evaluation.runs[1], losses=(None, 1.0), shares=(None,)),))
    with pytest.raises(ValueError, match="argument"):
        write(broken, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == to_csv(evaluation).encode("ascii")
    with pytest.raises(SinkchatError, match="is a folder"):
        write(evaluation, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
