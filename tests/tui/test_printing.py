"""Tokens become printable as if they had come as one text."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sinkchat.chat.printable import visible
from sinkchat.tui.text.printing import Printer

STRANGE = "ab \r\n\x1b\x07\u200d\u200c\ufe0f❤👩🏽👧🇩🇪\u202e\u00ad#\u20e3ن\U000e0067\U0001f3f4"


@settings(deadline=None)
@given(st.lists(st.text(st.sampled_from(STRANGE), max_size=4), max_size=20), st.data())
@example(["👩", "\u200d", "👧"], None)
@example(["ن", "\u200c", "ن"], None)
@example(["a\r", "\nb"], None)
def test_what_is_printed_piece_by_piece_is_what_the_whole_would_be(
    texts: list[str], data: st.DataObject | None
) -> None:
    printer = Printer()
    shown, lengths = "", []
    rest = list(texts)
    while rest:
        count = 1 if data is None else data.draw(st.integers(1, len(rest)))
        printed = printer.push(rest[:count])
        del rest[:count]
        assert sum(printed.lengths) == len(printed.text)
        shown += printed.text
        lengths += printed.lengths
    printed = printer.flush()
    assert sum(printed.lengths) == len(printed.text)
    assert shown + printed.text == visible("".join(texts))
    assert len(lengths) + len(printed.lengths) == len(texts)


def test_a_line_break_in_two_tokens_is_one_though_the_second_is_not_judged_yet() -> None:
    printer = Printer()
    printed = [printer.push(["a\r", "", "\n#"]), printer.push(["1"]), printer.flush()]
    assert "".join(part.text for part in printed) == "a\n#1"
    assert sum(len(part.lengths) for part in printed) == 4


def test_an_escape_sequence_never_reaches_the_screen() -> None:
    assert "\x1b" not in Printer().push(["\x1b", "[2J", "\x1b]0;x\x07"]).text
