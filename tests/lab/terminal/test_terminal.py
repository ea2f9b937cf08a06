"""What a terminal shows of an evaluation: every line fits, no figure is cut, and no colour is needed to read it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from sinkchat.lab.results import Evaluation, Generation, Rule
from sinkchat.lab.terminal import tables
from sinkchat.lab.terminal.columns import Column, folded, laid_out
from sinkchat.lab.terminal.curves import curves
from sinkchat.lab.terminal.heads import head_map
from tests.lab import sample

WIDTHS = (40, 80, 120, 200)
EVERYTHING = sample.everything()


def told(evaluation: Evaluation) -> dict[str, Callable[..., str]]:
    heads = next((run.sink_share_heads for run in evaluation.runs if run.sink_share_heads), ())
    return {
        "curves": lambda width, ascii: curves(evaluation, width, ascii=ascii),
        "table": lambda width, ascii: tables.runs(evaluation, width, ascii=ascii),
        "recall": lambda width, ascii: tables.recall(evaluation, width, ascii=ascii),
        "generation": lambda width, ascii: tables.generation(evaluation, width, ascii=ascii),
        "heads": lambda width, ascii: head_map(heads, width, "4 sinks, window 512", ascii=ascii),
    }


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("what", ["curves", "table", "recall", "generation", "heads"])
def test_every_line_fits_and_nothing_is_an_escape(what: str, width: int, ascii: bool) -> None:
    text = told(EVERYTHING)[what](width, ascii)
    assert max(map(len, text.split("\n"))) <= width
    assert "\x1b" not in text
    assert not ascii or text.isascii()
    assert all(line == line.rstrip() for line in text.split("\n"))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_perplexity_of_every_run_is_there_at_every_width(width: int) -> None:
    text = tables.runs(EVERYTHING, width)
    for run in EVERYTHING.runs:
        if run.loss_after is not None and math.exp(run.loss_after) < 99:
            assert f" {math.exp(run.loss_after):.1f}" in text


def test_a_wider_table_keeps_all_columns_of_a_narrower_one() -> None:
    shown = []
    for width in (40, 80, 120, 200):
        heads = tables.runs(EVERYTHING, width).split("\n─")[0].split()
        shown.append({head for head in heads if head != "rule"})
    assert shown[0] < shown[1] < shown[2] < shown[3]


def test_what_recompute_ran_again_is_told_at_80_columns_beside_what_says_whether_a_cache_is_stable() -> None:
    rules = [Rule("full"), Rule("sinks", sinks=4, window=512), Rule("recompute", window=512)]
    evaluation = sample.evaluation(rules)
    text = tables.runs(evaluation, 80)
    (again,) = [run.recomputed for run in evaluation.runs if run.rule.policy == "recompute"]
    assert f" {again:,} " in next(line for line in text.split("\n") if line.startswith("recompute"))
    heads = text.split("\n─")[0]
    assert all(word in heads for word in ("computed", "after", "full", "slope vs full", "collapse", "MB"))
    assert "computed" not in tables.runs(sample.evaluation(rules[:2]), 80)


def test_tokens_that_are_the_same_in_all_rows_are_the_last_to_be_told() -> None:
    alike = sample.evaluation([Rule("full"), Rule("window", window=512)])
    unlike = replace(alike, runs=[replace(run, tokens=6000 + at) for at, run in enumerate(alike.runs)])
    assert " read" not in tables.runs(alike, 150)
    assert " read" in tables.runs(unlike, 150)
    assert " read" in tables.runs(alike, 250)


def test_what_full_makes_of_the_same_tokens_is_told_where_there_is_room() -> None:
    evaluation = sample.evaluation([Rule("full"), Rule("window", window=512)])
    loss = evaluation.runs[1].loss_full_same_positions
    assert loss is not None
    assert f" {math.exp(loss):.1f} " in tables.runs(evaluation, 100).split("\n")[-1]


def test_no_figure_is_cut_even_where_the_terminal_is_too_narrow_for_any() -> None:
    text = laid_out("rule", ["4 sinks, window 512"], [Column(("", "loss"), ["123,456,789.123"], 0)], 10)
    assert "123,456,789.123" in text


def test_a_name_is_folded_not_cut() -> None:
    assert "".join(folded("4 sinks, window 512, absolute", 10)).replace(" ", "") == "4sinks,window512,absolute"
    assert all(len(line) <= 10 for line in folded("a" * 35 + " b", 10))


def test_the_plot_shows_the_eviction_and_names_every_line() -> None:
    evaluation = sample.evaluation([Rule("full"), Rule("window", window=512), Rule("sinks", sinks=4, window=512)])
    lines = curves(evaluation, 80).split("\n")
    plot = [line[7:] for line in lines if line[6:7] in "│┤"]
    eviction = 512 / 6144 * 72
    columns = {row.index("┊") for row in plot if "┊" in row}
    assert len(columns) == 1
    assert abs(columns.pop() - eviction) <= 1
    assert "f: full cache   w: no sinks   4: 4 sinks" in lines
    for letter in "fw4":
        assert sum(row.count(letter) for row in plot) >= 3
    pointer = next(line for line in lines if "first eviction, 512" in line)
    assert abs(pointer.index("↑") - 7 - eviction) <= 1


def test_the_line_without_sinks_ends_above_the_one_with_sinks() -> None:
    evaluation = sample.evaluation([Rule("full"), Rule("window", window=512), Rule("sinks", sinks=4, window=512)])
    lines = curves(evaluation, 80, ascii=True).split("\n")
    right = ["".join(line[60:]) for line in lines if line[6:7] in "|+"][:14]
    heights = {letter: min(at for at, row in enumerate(right) if letter in row) for letter in "w4"}
    assert heights["w"] < heights["4"]


def test_what_is_above_the_full_cache_is_drawn_below_without_the_texts_ups_and_downs() -> None:
    rules = [Rule("full"), Rule("window", window=512), Rule("sinks", sinks=4, window=512)]
    both = curves(sample.evaluation(rules), 80)
    title = "\n\nLoss above the full cache's\nnats\n"
    assert both.count(title) == 1
    rows = [line for line in both.split(title)[1].split("\n") if line[6:7] in "│┤"]
    assert len(rows) == 8
    (zero,) = [row for row in rows if row[:6].strip() in ("0.0", "0.00")]
    assert zero.count("─") > 20
    assert {sign for row in rows for sign in row[7:] if sign.isalnum()} == {"w", "4"}
    assert max(at for at, row in enumerate(rows) if "w" in row[20:]) < rows.index(zero)
    assert "w: no sinks" not in both.split(title)[1]


def test_nothing_is_drawn_above_the_full_cache_where_it_is_no_control() -> None:
    rules = [Rule("window", window=512), Rule("sinks", sinks=4, window=512)]
    assert "above the full" not in curves(sample.evaluation(rules), 80)
    untrained = sample.evaluation([Rule("full"), *rules])
    untrained = replace(untrained, subject=replace(untrained.subject, trained_length=500))
    assert "above the full" not in curves(untrained, 80)


def test_colour_is_an_addition_alone() -> None:
    plain = curves(EVERYTHING, 80)
    colored = curves(EVERYTHING, 80, color=True)
    assert colored != plain
    assert re.sub(r"\x1b\[\d*m", "", colored) == plain


def test_a_head_map_tells_shares_layers_and_what_has_no_sinks() -> None:
    text = head_map([[0.0, 0.5, 1.0], [None, None, None], [math.nan, 0.19, 0.2]], 40, "map")
    rows = text.split("\n")
    assert rows[0] == "map"
    assert rows[1] == "       head"
    assert rows[2] == "layer  0"
    assert rows[3] == "    0 ▏  ▒▒██"
    assert rows[4] == "    1 ▏------"
    assert rows[5] == "    2 ▏--  ░░"
    digits = head_map([[0.0, 0.55, 1.0]], 40, "", ascii=True).split("\n")
    assert digits[2] == "    0 |005599"


def test_more_heads_than_there_is_room_for_share_cells_and_it_is_said() -> None:
    heads = [[head / 63 for head in range(64)] for _ in range(80)]
    text = head_map(heads, 40, "80 layers of 64 heads", ascii=True)
    assert text.count("\n") >= 80
    assert "mean of 2 heads" in " ".join(text.split())
    row = next(line for line in text.split("\n") if line.startswith("    0 |"))
    assert row[7:] == "".join(str(int(10 * (2 * at + 0.5) / 63)) for at in range(32))


def test_a_title_that_moves_the_cursor_does_not() -> None:
    assert "\x1b" not in head_map([[0.5]], 40, "a\x1b[2J")


def test_nothing_is_said_in_a_sentence() -> None:
    empty = replace(EVERYTHING, runs=(), recall=(), generation=())
    assert curves(empty, 80) == "No text was read, so there is no curve."
    assert tables.runs(empty, 80) == "No text was read under any rule."
    assert tables.recall(empty, 80) == "No facts were asked for."
    assert tables.generation(empty, 80) == "Nothing was generated."
    assert "no layer with sinks" in head_map([], 80, "")


def test_what_is_missing_or_no_number_is_told_as_such() -> None:
    runs = [
        replace(
            run, complete=False, loss_after=math.nan, loss_before=None, slope_error=math.inf, sink_share_mean=None
        )
        for run in EVERYTHING.runs
    ]
    runs[1] = replace(runs[1], loss_after=math.inf, curve=(), head_maps=(), sink_share_heads=None)
    runs[2] = replace(runs[2], curve=[replace(point, loss=math.nan) for point in runs[2].curve])
    runs[3] = replace(runs[3], curve=runs[3].curve[:1], loss_after=1e6)
    ruined = replace(EVERYTHING, runs=runs)
    for width in WIDTHS:
        text = tables.runs(ruined, width)
        assert "nan" in text
        assert "∞" in text
        assert "e^1,000,000" in text
        assert "* ended early" in text
        assert curves(ruined, width)


def test_only_the_full_cache_has_a_curve_too() -> None:
    assert "Loss over position: full cache" in curves(sample.evaluation([Rule("full")]), 60)


def test_a_continuation_without_n_grams_has_none() -> None:
    one = Generation(Rule("full"), 1, 5, 0, 0.0, None, (None,) * 4, None, None, (), "")
    assert "–" in tables.generation(replace(EVERYTHING, generation=[one]), 200)
