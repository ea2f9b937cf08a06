"""Text is laid out without losing a character, and every character knows where it came from."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len, split_graphemes

from sinkchat.chat.printable import visible
from sinkchat.tui.text.row import LONGEST, Cell, Line, Row, lay_out, plain_rows, steady, wrap

TEXTS = st.text(st.sampled_from("ab ., é漢字あ👩🏽\u0301\u200d\ufe0fأب"), max_size=80)


@settings(deadline=None)
@given(TEXTS, st.integers(1, 30))
def test_no_line_is_wider_than_the_screen_and_nothing_is_lost(written: str, width: int) -> None:
    text = steady(visible(written), 0).text
    parts = wrap(text, width)
    assert parts[0][0] == 0
    assert parts[-1][1] == len(text)
    assert all(former[1] == latter[0] for former, latter in pairwise(parts))
    widest = max((size for _start, _end, size in split_graphemes(text)[0]), default=0)
    for start, end in parts:
        assert cell_len(text[start:end].rstrip()) <= max(width, widest)


@settings(deadline=None)
@given(TEXTS, st.integers(0, 1000))
def test_a_shown_character_is_the_one_at_its_offset(text: str, offset: int) -> None:
    cell = steady(text, offset)
    assert len(cell.text) == len(cell.source)
    assert all(text[at - offset] == shown for shown, at in zip(cell.text, cell.source, strict=True))


def test_words_are_kept_whole_where_they_fit() -> None:
    assert _texts("the quick brown fox", 10) == ["the quick ", "brown fox"]
    assert _texts("incomprehensibilities", 8) == ["incompre", "hensibil", "ities"]


def test_wide_characters_count_as_two() -> None:
    assert _texts("漢字漢字", 5) == ["漢字", "漢字"]


def test_a_tab_is_drawn_as_blanks_that_stand_for_it() -> None:
    cell = steady("a\tb", 10)
    assert cell.text == "a   b"
    assert list(cell.source) == [10, 11, 11, 11, 12]


def test_joined_emoji_are_drawn_apart_because_terminals_disagree_about_their_width() -> None:
    assert steady("👩\u200d👧 ❤\ufe0f", 0).text == "👩👧 ❤"


def test_a_script_that_needs_a_joiner_keeps_it() -> None:
    assert steady("نمی\u200cخواهم", 0).text == "نمی\u200cخواهم"


def test_a_very_long_line_goes_on_in_rows_that_are_joined() -> None:
    text = "word " * LONGEST
    rows = plain_rows(text)
    assert "".join(row.cell.text for row in rows) == text
    assert all(len(row.cell.text) <= LONGEST for row in rows)
    assert [row.joined for row in rows] == [False] + [True] * (len(rows) - 1)


def test_a_table_wraps_inside_its_columns() -> None:
    cells = (Cell("a long text here", range(16)), Cell("x", range(20, 21)))
    lines = lay_out(Row(Cell("", ()), 0, "table", columns=cells, widths=(16, 1)), 12)
    assert [line.text for line in lines] == ["a long     x", "text here"]
    assert _exact(lines, "a long text here    x")


def _texts(text: str, width: int) -> list[str]:
    return [text[start:end] for start, end in wrap(text, width)]


def _exact(lines: list[Line], source: str) -> bool:
    return all(shown in (" ", source[at]) for line in lines for shown, at in zip(line.text, line.source, strict=True))
