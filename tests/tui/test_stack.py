"""However long the chat, only its newest lines are laid out, and all others can be had."""

from __future__ import annotations

from sinkchat.tui.text.passage import STANZA, Passage
from sinkchat.tui.text.stack import KEPT_LINES, LOADED_LINES, Stack


def _stack(lines: int) -> Stack:
    stack = Stack()
    stack.resize(40)
    for number in range(lines // 2):
        stack.add(Passage("person", f"line {number}"))
        stack.trim()
    return stack


def test_the_lines_that_are_laid_out_stay_bounded() -> None:
    stack = _stack(20_000)
    assert stack.height <= 2 * KEPT_LINES
    assert not stack.whole


def test_older_lines_come_back_until_the_first() -> None:
    stack = _stack(10_000)
    while stack.load_older():
        pass
    assert stack.whole
    texts = [found[0].text for y in range(stack.height) if (found := stack.line(y)) and found[0].text]
    assert texts == [f"line {number}" for number in range(5000)]


def test_a_line_keeps_its_name_while_others_come_and_go_above_it() -> None:
    stack = _stack(5000)
    y = next(y for y in range(stack.height) if (found := stack.line(y)) and found[0].text == "line 2400")
    name = stack.name(y)
    added = stack.load_older()
    assert added >= LOADED_LINES
    assert stack.name(y + added) == name


def test_one_endless_message_is_bounded_too() -> None:
    stack = Stack()
    stack.resize(40)
    reply = Passage("reply")
    stack.add(reply)
    for number in range(200):
        reply.add("".join(f"point {20 * number + index}\n\n" for index in range(20)))
        stack.changed(reply)
        stack.trim()
    assert stack.height <= 2 * KEPT_LINES
    assert len(reply.stanzas) > 4000 // STANZA
    assert "point 3999" in stack.line(stack.height - 1)[0].text  # type: ignore[index]


def test_another_width_lays_out_the_newest_lines_only() -> None:
    stack = _stack(10_000)
    stack.resize(20)
    assert stack.height <= KEPT_LINES + STANZA
    assert stack.line(stack.height - 1)[0].text == "line 4999"  # type: ignore[index]
