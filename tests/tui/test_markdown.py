"""Markdown is styled, and what was written stays."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sinkchat.tui.text.markdown import Section, parse
from sinkchat.tui.text.row import Line, lay_out

PIECES = st.sampled_from(
    ["word", " ", "\n", "\n\n", "*", "**", "`", "```", "```py\n", "- ", "1. ", "> ", "# ", "[", "](", ")", "|", "\\",
     "<b>", "&amp;", "---\n", "| a | b |\n|---|---|\n", "\t", "漢字", "👩\u200d👧", "~~", "![x](y)", "http://a.b/c"]
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(st.lists(PIECES, max_size=30).map("".join))
@example("| a |\n|---|\n")
@example("- ```\n  x\n")
@example("word```py\nword ```")
@example("👩\u200d👧\tword")
@example("1.  \tword")
@example("> a `b\n> c` d")
@example("> | a | b |\n> |---|---|\n> | 1 |")
def test_every_shown_character_stands_at_its_offset_in_the_source_and_offsets_never_go_back(source: str) -> None:
    last = -1
    for line in _lines(parse(source), 24):
        for shown, at in zip(line.text, line.source, strict=True):
            assert shown in (" ", "─") or source[at] == shown, (shown, at)
            if line.kind != "table":
                assert at >= last
                last = at


@settings(deadline=None)
@given(st.text(st.sampled_from("abc .,\n"), max_size=60))
def test_plain_words_are_all_shown(source: str) -> None:
    assert "".join(_text(source).split()) == "".join(source.split())


@settings(deadline=None, max_examples=300)
@given(st.lists(PIECES, max_size=30).map("".join), st.integers(0, 500))
def test_an_offset_into_a_longer_text_moves_everything_alike(source: str, offset: int) -> None:
    here = [list(line.source) for line in _lines(parse(source), 24)]
    there = [[at - offset for at in line.source] for line in _lines(parse(source, offset), 24)]
    assert here == there


@pytest.mark.parametrize(
    "source",
    [
        "an [unknown] thing and [a] [b]",
        "[note]: http://looks.like/a-definition",
        "<div>raw</div> &amp; &#65;",
        r"\( x^2 \) and \[ y \]",
        "a_b_c and 2 * 3 * 4",
    ],
)
def test_what_looks_like_markup_and_is_none_stays_as_it_was_written(source: str) -> None:
    assert _text(source) == source


def test_emphasis_and_code_become_styles() -> None:
    line = _lines(parse("a **b _c_** `d`"), 40)[0]
    assert line.text == "a b c d"
    styles = {line.text[a:b]: style for a, b, style in line.spans}
    assert styles == {"b c": "strong", "c": "em", "d": "code"}


def test_a_link_shows_where_it_leads() -> None:
    assert _text("see [this](http://a.b/c) page") == "see this (http://a.b/c) page"


def test_lists_hang_and_nest() -> None:
    lines = _lines(parse("- one two three\n  1. deep\n- four"), 10)
    assert [line.lead + line.text for line in lines] == ["• one two ", "  three", "  1. deep", "• four"]


def test_a_line_break_is_a_line_break() -> None:
    assert _text("roses are red\nviolets are blue") == "roses are red\nviolets are blue"


def test_code_is_coloured_when_its_fence_is_closed_and_not_before() -> None:
    open_, closed = "```python\ndef f(): pass\n", "```python\ndef f(): pass\n```\n"
    assert not _spans(parse(open_, finished=False))
    assert "code-keyword" in _spans(parse(closed, finished=False))
    assert "code-keyword" in _spans(parse(open_, finished=True))


def test_code_keeps_its_blanks() -> None:
    assert _text("```\n  a\n\n    b\n```") == "  a\n\n    b"


def _lines(sections: list[Section], width: int) -> list[Line]:
    return [line for section in sections for row in section.rows for line in lay_out(row, width)]


def _text(source: str) -> str:
    return "\n".join(line.text for line in _lines(parse(source), 500))


def _spans(sections: list[Section]) -> set[str]:
    return {style for line in _lines(sections, 80) for _a, _b, style in line.spans}
