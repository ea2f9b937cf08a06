"""Text that comes in pieces is made visible as if it had come whole, and nearly at once."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from sinkchat.chat.printable import visible
from sinkchat.cli.stream import VisibleStream

SPECIAL = "\r\n\t\x1b\u200d\u200c\u202e\ufe0f\u20e3\U0001f468\U0001f469\U0001f3fd\U0001f3f4\U000e0067\U000e007f"
TEXT = st.text(alphabet=st.one_of(st.sampled_from(SPECIAL + "a1# \u0645\u0915\u6c49\U000e0100"), st.characters()))


@given(st.lists(TEXT))
@example(["\U0001f468", "\u200d", "\U0001f469\U0001f3fd"])
@example(["1", "\ufe0f", "\u20e3"])
@example(["line\r", "\nnext"])
@example(["\u0645", "\u200c", "\u0645"])
@example(["\U0001f3f4", *"\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"])
def test_pieces_are_shown_as_the_whole_is(pieces: list[str]) -> None:
    stream = VisibleStream()
    assert "".join([*map(stream.push, pieces), stream.flush()]) == visible("".join(pieces))


def test_a_word_is_shown_at_once() -> None:
    assert VisibleStream().push("Once upon") == "Once upon"


def test_text_without_spaces_waits_for_one_character_at_most() -> None:
    stream = VisibleStream()
    shown = ""
    for count, character in enumerate("汉字没有空格", 1):
        shown += stream.push(character)
        assert len(shown) >= count - 1
