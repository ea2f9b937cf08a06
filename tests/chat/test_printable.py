"""Nothing that was written can move, hide or reorder what is on the screen."""

from __future__ import annotations

import sys
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkchat.chat.printable import visible

TROUBLE = st.text(
    st.one_of(
        st.characters(categories=("Cc", "Cf", "Cs", "Zl", "Zp", "Mn")),
        st.sampled_from("\r\n\t\u200d\u200c\ufe0f\ufe0e😀❤👩🏽1#\u20e3🏴سक葛a ⟨⟩"),
        st.characters(),
    )
)

EMOJI = ["👨‍👩‍👧‍👦", "❤️‍🔥", "👩🏽‍🚀", "🏳️‍🌈", "🧑‍⚕️", "1️⃣", "#️⃣", "🇩🇪", "☎︎", "🏴󠁧󠁢󠁳󠁣󠁴󠁿"]


def test_an_escape_sequence_reaches_nothing_as_one() -> None:
    assert visible("\x1b]0;gone\x07 \x1b[2J\x9b31m") == "␛]0;gone␇ ␛[2J⟨U+009B⟩31m"


@pytest.mark.parametrize(
    "point",
    [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C],
    ids=lambda point: f"{point:04X}",
)
def test_bidi_controls_are_seen(point: int) -> None:
    assert visible(f"invoice{chr(point)}fdp.exe") == f"invoice⟨U+{point:04X}⟩fdp.exe"


def test_line_ends_stay_and_a_lone_carriage_return_is_seen() -> None:
    assert visible("one\r\ntwo\tx\nthree\rfour\r\r\n") == "one\ntwo\tx\nthree␍four␍\n"


def test_line_and_paragraph_separators_and_half_characters_are_seen() -> None:
    assert visible("a\u2028b\u2029c\ud800d\x7f\x85") == "a⟨U+2028⟩b⟨U+2029⟩c⟨U+D800⟩d␡⟨U+0085⟩"


@pytest.mark.parametrize("emoji", EMOJI)
def test_emoji_survive_whole(emoji: str) -> None:
    assert visible(f"so {emoji}!\x00") == f"so {emoji}!␀"


@pytest.mark.parametrize("word", ["می\u200cروم", "क्\u200dष", "葛\U000e0100城", "ශ්\u200dරී"])
def test_joiners_stay_between_letters_that_they_shape(word: str) -> None:
    assert visible(word) == word


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("pay\u200dpal", "pay⟨U+200D⟩pal"),
        ("pay\u200bpal", "pay⟨U+200B⟩pal"),
        ("a\ufe0fb", "a⟨U+FE0F⟩b"),
        ("😀\u200dx", "😀⟨U+200D⟩x"),
        ("😀\ufe0f\ufe0f", "😀\ufe0f⟨U+FE0F⟩"),
        ("\U0001f3f4\U000e0068\U000e0069\U000e007f", "🏴⟨U+E0068⟩⟨U+E0069⟩⟨U+E007F⟩"),
        ("x\U000e0041", "x⟨U+E0041⟩"),
        ("\ufeffx\u00ady", "⟨U+FEFF⟩x⟨U+00AD⟩y"),
    ],
)
def test_what_joins_nothing_is_seen(text: str, seen: str) -> None:
    assert visible(text) == seen


@given(TROUBLE)
def test_twice_is_once(text: str) -> None:
    once = visible(text)
    assert visible(once) == once


@given(TROUBLE)
def test_no_control_is_left(text: str) -> None:
    for character in visible(text):
        category = unicodedata.category(character)
        assert category not in ("Cs", "Zl", "Zp")
        assert category != "Cc" or character in "\n\t"
        assert unicodedata.bidirectional(character) not in (
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        )


def test_every_format_character_alone_is_seen_unless_it_has_a_shape_of_its_own() -> None:
    left = {
        point
        for point in range(sys.maxunicode + 1)
        if unicodedata.category(chr(point)) == "Cf" and visible(chr(point)) == chr(point)
    }
    # Signs that are written around numbers and verses: format characters by name, and drawn.
    assert left <= {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs"), exclude_characters="\u115f\u1160\u3164\uffa0")))
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert visible(text) == text


def test_a_megabyte_takes_no_time_to_speak_of() -> None:
    text = "a word, 日本語, an emoji 👩🏽‍🚀 and an escape \x1b\n" * 25_000
    start = time.perf_counter()
    visible(text)
    assert time.perf_counter() - start < 2
