"""The HTML document holds what the records hold, for records of every kind, and is well formed."""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from sinkchat.lab import order
from sinkchat.lab.report import palette, svg, sweeps
from sinkchat.lab.report.page import html
from sinkchat.lab.report.recall import interval
from sinkchat.lab.results import FULL, Evaluation, Generation, HeadMap, Point, Recall, Rule
from sinkchat.lab.telling import apart, numerals, scale, smooth
from tests.lab import sample

EVERYTHING = sample.everything()
FOUR = Rule("sinks", sinks=4, window=512)


class Reader(HTMLParser):
    """Checks that what is opened is closed, and keeps the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Closed as it is opened."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(document: str) -> str:
    """The text of a well-formed document."""
    reader = Reader()
    reader.feed(document)
    assert reader.open == []
    assert len(set(reader.ids)) == len(reader.ids)
    numbers = re.findall(r' (?:d|x|y|cx|cy|width|height|viewBox)="([^"]*)"', document)
    assert not any("nan" in value or "inf" in value for value in numbers)
    return " ".join("".join(reader.words).split())


def test_all_figures_of_a_run_are_in_the_tables() -> None:
    text = read(html(EVERYTHING))
    for run in EVERYTHING.runs:
        assert numerals.perplexity(run.loss_after) in text
        assert numerals.slope(run.slope_after, run.slope_error) in text
        assert numerals.megabytes(run.kv_bytes) in text
    for heading in ("Runs", "Loss over position", "Sweeps", "Head maps over time", "Free generation", "Recall"):
        assert heading in text
    assert "'my report.html'" in text
    assert EVERYTHING.subject.text_sha256 in text


def test_what_says_most_of_a_run_stands_beside_its_name() -> None:
    table = html(EVERYTHING).split("<h2>Runs</h2>")[1].split("</table>")[0]
    assert re.findall('<th scope="col">([^<]*)', table)[:2] == ["rule", "× full"]
    run = order.ordered(EVERYTHING.runs)[1]
    cells = re.findall(r"<td>(.*?)</td>", table.split("<tr")[3])
    assert cells[1] == numerals.ratio(run.loss_same_positions, run.loss_full_same_positions)
    assert numerals.perplexity(run.loss_full_same_positions) in cells


def test_what_a_model_or_a_person_wrote_is_shown_not_obeyed() -> None:
    evil = "</pre><script>alert(1)</script>\x1b[31m\u202e"
    one = replace(sample.drawn(FOUR, 1), text=evil)
    subject = replace(EVERYTHING.subject, model=evil, text_name=evil, revision=evil, device=evil)
    document = html(replace(EVERYTHING, subject=subject, generation=[one], command=("sinkchat", "eval", evil)))
    assert "<script" not in document
    assert "\x1b" not in document
    assert "\u202e" not in document
    assert "␛[31m⟨U+202E⟩" in read(document)


def odd_ones() -> dict[str, Evaluation]:
    base = sample.evaluation()
    nothing = replace(base, runs=(), command=())
    run = base.runs[2]
    unsure = replace(
        run,
        complete=False,
        tokens=1,
        loss_mean=None,
        loss_before=None,
        loss_after=None,
        slope_after=None,
        slope_error=None,
        loss_same_positions=None,
        loss_full_same_positions=None,
        slope_over_full=None,
        slope_over_full_error=None,
        first_eviction=None,
        evictions=0,
        sink_share_mean=None,
        sink_share_heads=None,
        curve=(),
        head_maps=(),
    )
    ruin = [math.nan, math.inf, -math.inf, 1e308, 0.0]
    points = [replace(point, loss=ruin[at % 5], sink_share=None) for at, point in enumerate(run.curve)]
    none = HeadMap(0, 10, [[None] * 9] * 3 + [[math.nan, 0.5]])
    return {
        "no runs": nothing,
        "one run": sample.evaluation([FOUR]),
        "only full": sample.evaluation([Rule("full")]),
        "only full, past its training": sample.evaluation([Rule("full")], tokens=20_000),
        "an interrupted run that read nothing": replace(base, runs=[unsure], complete=False),
        "the same beside others": replace(base, runs=[base.runs[0], unsure, *base.runs[3:]], complete=False),
        "losses that are no numbers": replace(
            base, runs=[base.runs[0], replace(run, curve=points, loss_after=1e308)]
        ),
        "infinite": replace(base, runs=[replace(one, loss_after=math.inf, loss_mean=math.nan) for one in base.runs]),
        "one point": replace(base, runs=[replace(one, curve=one.curve[:1]) for one in base.runs]),
        "one token": sample.evaluation([Rule("full"), FOUR], tokens=1),
        "layers without sinks": replace(base, runs=[replace(run, head_maps=[none], sink_share_heads=[[None]])]),
        "no heads": replace(base, runs=[replace(run, head_maps=[HeadMap(0, 1, [])], sink_share_heads=[])]),
        "no trained length": replace(base, subject=replace(base.subject, trained_length=0)),
        "full beside recall alone": replace(nothing, recall=[Recall(Rule("full"), 1, True, 0, 0, 0.25, math.nan)]),
        "generated nothing": replace(
            nothing, generation=[Generation(FOUR, 1, 5, 0, 0.0, None, (None,) * 4, None, None, (), "")]
        ),
        "no distance": replace(nothing, recall=[Recall(FOUR, 0, True, 3, 3, 0.25, 0.1)]),
        "dense curve": replace(
            base, runs=[replace(run, tokens=90_000, curve=[Point(at, 2.0, 512, at, 0.3) for at in range(90_000)])]
        ),
        "windows without end": sample.evaluation([Rule("window", window=2**power) for power in range(1, 13)], maps=1),
    }


@pytest.mark.parametrize("case", odd_ones())
def test_whatever_the_records_hold_there_is_a_document(case: str) -> None:
    text = read(html(odd_ones()[case]))
    assert "How to read this" in text
    assert "None" not in text


def test_an_interrupted_run_is_marked() -> None:
    text = read(html(odd_ones()["the same beside others"]))
    assert "1 sink (ended early)" in text
    assert "This evaluation did not come to its end; 1 of" in text


def test_a_million_tokens_and_many_heads_stay_a_small_file() -> None:
    rules = [Rule("full"), Rule("window", window=1024), Rule("sinks", sinks=4, window=1024)]
    assert len(html(sample.evaluation(rules, tokens=1_000_000, heads=(80, 64)))) < 4_000_000


def test_the_same_records_are_the_same_document() -> None:
    assert html(sample.everything()) == html(sample.everything())


def test_a_policy_has_one_colour_and_more_sinks_are_further_from_the_paper() -> None:
    colours = palette.Colours(EVERYTHING)
    assert colours.of(Rule("window", window=256)) == colours.of(Rule("window", window=512)) == "k-window"
    steps = [int(colours.of(Rule("sinks", sinks=sinks, window=512))[-1]) for sinks in (1, 2, 4, 8)]
    assert steps == sorted(set(steps))
    for theme in (palette.LIGHT, palette.DARK):
        contrast = [_contrast(theme[f"s{step}"], theme["paper"]) for step in range(palette.STEPS)]
        assert contrast == sorted(contrast)
        # WCAG 2: 3 for what is drawn, 4.5 for what is written.
        assert all(_contrast(theme[name], theme["paper"]) >= 3 for name in ("window", "recompute", "full", "axis"))
        assert all(_contrast(theme[name], theme["paper"]) >= 4.5 for name in ("ink", "muted"))
        assert contrast[0] >= 3


def _contrast(one: str, other: str) -> float:
    lights = []
    for colour in (one, other):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        lights.append(0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)
    return max(lights) / min(lights)


def test_the_smoothed_line_does_not_mix_what_was_before_with_what_came_after() -> None:
    before = [(position + 24.5, 2.0) for position in range(0, 500, 50)]
    after = [(position + 24.5, 8.0) for position in range(500, 1000, 50)]
    line = smooth.line([*before, *after], 499, 7)
    assert {value for _, value in line} == {2.0, 8.0}


def test_a_run_is_above_the_full_cache_where_both_are_means_of_the_same_tokens() -> None:
    full, run = sample.evaluation([FULL, FOUR], tokens=640).runs
    points = [Point(at, 1.0 + at / 100, at, 0, None) for at in range(0, 96, 16)]
    full = replace(full, tokens=90, curve=tuple(points))
    run = replace(run, tokens=96, curve=tuple(replace(point, loss=point.loss + 2.0) for point in points))
    assert [at for at, _ in apart.above(run, full, 16, 90)] == [7.5, 23.5, 39.5, 55.5, 71.5], "the last is cut"
    assert {round(value, 9) for _, value in apart.above(run, full, 16, 90)} == {2.0}
    assert len(apart.above(replace(run, tokens=90), full, 16, 90)) == 6
    assert len(apart.above(replace(run, tokens=90), full, 16, 89)) == 5, "past the trained length"
    other = replace(run.rule, sink_tokens="newlines")
    assert len(apart.above(replace(run, rule=other), full, 16, 90)) == 4, "replaced tokens have no loss"


def test_a_sweep_shows_no_run_that_ended_early_and_no_control_of_other_tokens() -> None:
    evaluation = sample.evaluation([FULL, *(Rule("sinks", sinks=n, window=512) for n in (1, 2, 4))])
    colours = palette.Colours(evaluation)
    (whole,) = sweeps.sinks_chart(evaluation, colours)
    assert "full cache, same tokens" in whole.body
    beyond = [replace(run, loss_after=run.loss_after and run.loss_after + 1) for run in evaluation.runs]
    (without,) = sweeps.sinks_chart(replace(evaluation, runs=beyond), colours)
    assert "full cache" not in without.body
    early = [replace(run, complete=run.rule.sinks != 4) for run in evaluation.runs]
    (left,) = sweeps.sinks_chart(replace(evaluation, runs=early), colours)
    assert "against 1, 2 sinks" in left.body
    lone = [replace(run, complete=run.rule.sinks == 4) for run in evaluation.runs]
    assert sweeps.sinks_chart(replace(evaluation, runs=lone), colours) == []


def test_a_gap_stays_a_gap_and_spoils_no_neighbour() -> None:
    assert smooth.running_mean([1.0, math.nan, 3.0], 3)[0::2] == [1.0, 3.0]
    assert math.isnan(smooth.running_mean([1.0, math.nan, 3.0], 3)[1])
    assert svg.path([(0, 0), (1, 1), (2, math.nan), (3, 3)]) == "M0.0 0.0L1.0 1.0M3.0 3.0"


def test_labels_keep_their_distance_and_move_no_more_than_they_must() -> None:
    assert svg.spread([10, 100], 15, 0, 200) == [10, 100]
    places = svg.spread([50, 51, 52, 53], 15, 0, 200)
    assert [round(b - a, 6) for a, b in itertools.pairwise(places)] == [15, 15, 15]
    assert sum(places) / 4 == pytest.approx(51.5)
    crowded = svg.spread([198, 199, 200], 15, 0, 200)
    assert crowded == [170, 185, 200]


def test_axes_have_round_ticks_inside_their_ends() -> None:
    for axis in (
        scale.linear([2.31, 8.4], ""),
        scale.linear([20.0, 20.0], ""),
        scale.tokens(6144),
        scale.tokens(1_000_000),
        scale.perplexities([2.3, 2.31], ""),
        scale.perplexities([2.3, 20.0, 600.0], ""),
        scale.linear([], ""),
        scale.tokens(1),
    ):
        assert axis.ticks
        assert all(-1e-9 <= axis.share(value) <= 1 + 1e-9 for value, _ in axis.ticks)
        assert len({label for _, label in axis.ticks}) == len(axis.ticks)


def test_a_share_of_few_answers_has_a_wide_interval() -> None:
    low, high = interval(10, 10)
    assert high == pytest.approx(1.0)
    assert low == pytest.approx(0.7225, abs=1e-4)  # 1 / (1 + z²/n), z = 1.96
    assert interval(0, 0) == (0.0, 1.0)


def test_numbers_are_written_to_three_figures_and_never_rounded_to_nothing() -> None:
    assert [numerals.number(value) for value in (1.1, 9.996, 11.54, 99.96, 3431.2, 4.85e8)] == [
        "1.10",
        "10.0",
        "11.5",
        "100",
        "3,431",
        "4.85e8",
    ]
    assert numerals.perplexity(20.0) == "4.85e8"
    assert numerals.perplexity(1e6) == "e^1,000,000"
    assert numerals.slope(-0.00123, 0.0005) == "−0.00123 ± 0.00050"
    assert numerals.plain("−1 ± ∞ –") == "-1 +/- inf -"


def test_the_runs_that_are_picked_are_the_extremes_of_each_policy() -> None:
    picked = order.telling(EVERYTHING.runs, 6)
    assert {run.rule.policy for run in picked} == {"full", "window", "sinks", "recompute"}
    worst = max((run for run in EVERYTHING.runs if run.rule.policy == "window"), key=order.after)
    assert len(picked) == 6
    assert worst in order.telling(EVERYTHING.runs, 9)


def test_no_torch_is_needed_to_draw() -> None:
    code = "import sys, sinkchat.lab.report.page, sinkchat.lab.terminal.tables; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
