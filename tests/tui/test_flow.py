"""A text that comes in pieces looks, at its end, as if it had come at once."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkchat.tui.text.flow import OPEN_CODE, OPEN_END, Flow, MarkdownFlow, PlainFlow
from sinkchat.tui.text.row import lay_out
from tests.tui.demo import REPLY

CUTS = st.lists(st.integers(0, len(REPLY)), max_size=40).map(sorted)


@pytest.mark.parametrize("make", [MarkdownFlow, PlainFlow])
@settings(deadline=None)
@given(cuts=CUTS)
def test_pieces_come_to_the_same_as_the_whole(make: type[Flow], cuts: list[int]) -> None:
    pieces, whole = make(), make()
    for start, end in zip([0, *cuts], [*cuts, len(REPLY)], strict=True):
        pieces.add(REPLY[start:end])
    whole.add(REPLY)
    for flow in (pieces, whole):
        flow.finish()
    assert _shown(pieces) == _shown(whole)


def test_a_reply_that_goes_on_after_its_end_is_not_broken_into_paragraphs() -> None:
    flow = MarkdownFlow()
    flow.add("The sea answered in")
    flow.finish()
    flow.add(" long grey lines.")
    assert _shown(flow) == ["The sea answered in long grey lines."]


@pytest.mark.parametrize("start", ["", "```python\n", "> ", "| a | b |\n|---|---|\n"])
@pytest.mark.parametrize("piece", ["salad " * 50, "| line of | it |\n" * 20])
def test_a_block_that_never_ends_is_settled_piece_by_piece_and_loses_nothing(start: str, piece: str) -> None:
    flow = MarkdownFlow()
    flow.add(start)
    most = OPEN_CODE if "```" in start else OPEN_END
    count = 6 * OPEN_CODE // len(piece)
    for _ in range(count):
        flow.add(piece)
        assert sum(len(row.cell.text) for row in flow.open_rows) <= most + len(piece)
    flow.finish()
    wanted = Counter(re.findall(r"\w+", start.replace("python", "") + piece * count))
    assert Counter(re.findall(r"\w+", " ".join(_shown(flow)))) == wanted


def test_a_long_table_stays_a_table() -> None:
    flow = MarkdownFlow()
    for _ in range(40):
        flow.add(("" if flow.source else "| a | b |\n|---|---|\n") + "| one | two |\n" * 20)
    assert len({row.kind for row in flow.final if row.cell.text or row.columns}) <= 2
    assert not any("|" in line for line in _shown(flow))


@pytest.mark.parametrize(
    ("text", "fence"),
    [
        ("Prose.\n", ""),
        ("Prose:\n```python\nx = 1\n", "```python\n"),
        ("```python", "```python"),
        ("~~~~\n```\n~~~\n", "~~~~\n"),
        ("```\nx\n```\n", ""),
        ("```\nx\n```\n\n```c\ny", "```c\n"),
        ("```\nx\n```\nProse.", ""),
        ("```\n" + "x = 1\n" * OPEN_CODE, "```\n"),
    ],
)
def test_a_text_that_ends_in_code_says_what_opened_it(text: str, fence: str) -> None:
    flow = MarkdownFlow()
    flow.add(text)
    flow.finish()
    assert flow.open_fence == fence


def test_code_that_another_passage_opened_goes_on_as_code_until_it_is_closed() -> None:
    flow = MarkdownFlow("```python\n")
    for piece in ("1 * x *", " y\n", "z\n```\nand *pro", "se*"):
        flow.add(piece)
    flow.finish()
    assert [line.rstrip() for line in _shown(flow) if line.strip()] == ["1 * x * y", "z", "and prose"]
    kinds = {row.kind for row in [*flow.final, *flow.open_rows] if row.cell.text.startswith(("1", "z"))}
    assert kinds == {"code"}
    assert flow.open_fence == ""


def test_only_the_open_end_is_read_again() -> None:
    flow = MarkdownFlow()
    flow.add(REPLY)
    settled = list(flow.final)
    flow.add(" And more.")
    assert all(one is other for one, other in zip(settled, flow.final, strict=False))


def _shown(flow: Flow) -> list[str]:
    return [line.lead + line.text for row in [*flow.final, *flow.open_rows] for line in lay_out(row, 60)]
