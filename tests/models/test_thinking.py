"""A reply is parted into thinking and answer as its tokens come, and nothing of either is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkchat.models.thinking import PAIRS, ThinkingMarks, find_marks

Tokens = list[tuple[int, str]]

TOKEN_MARKS = {100: "<think>", 101: "</think>"}
CHANNELS = {200: "<|start|>", 201: "<|channel|>", 202: "<|message|>", 203: "<|end|>", 204: "<|return|>"}


def marks(added: dict[int, str] | None = None, ask: str = "<|im_start|>assistant\n") -> ThinkingMarks:
    return ThinkingMarks(find_marks(added or {}, ask), (1, 2), ask)


def harmony(ask: str = "<|end|><|start|>assistant") -> ThinkingMarks:
    return marks(CHANNELS, ask)


def spelled(*pieces: str) -> Tokens:
    """Ordinary tokens, one a piece."""
    return [(0, piece) for piece in pieces]


def parted(how: ThinkingMarks, tokens: Tokens) -> tuple[str, str]:
    """Thinking and answer."""
    splitter = how.splitter()
    said = {"thinking": "", "answer": ""}
    for token_id, text in tokens:
        part, added = splitter.push(token_id, text)
        said[part] += added
    return said["thinking"], said["answer"]


def test_marks_that_are_tokens_part_a_reply() -> None:
    tokens = [
        (100, "<think>"),
        *spelled("\n", "Let me", " see.", "\n"),
        (101, "</think>"),
        *spelled("\n\n", "Yes", "."),
    ]
    assert parted(marks(TOKEN_MARKS), tokens) == ("Let me see.\n", "Yes.")


def test_a_name_behind_the_mark_is_no_thinking() -> None:
    how = marks({7: "<|channel>", 8: "<channel|>"})
    assert parted(how, [(7, ""), *spelled("thought", "\n", "Hm"), (8, ""), *spelled("Yes")]) == ("Hm", "Yes")
    assert parted(how, [(7, ""), *spelled("though", "t\nHm"), (8, ""), *spelled("Yes")]) == ("Hm", "Yes")
    assert parted(how, [(7, ""), *spelled("thought", "\n"), (8, ""), *spelled("Yes")]) == ("", "Yes")
    assert parted(how, [(7, ""), *spelled("Th", "is"), (8, ""), *spelled("Yes")]) == ("This", "Yes")


def test_marks_that_are_hidden_tokens_part_a_reply_too() -> None:
    how = marks({7: "[THINK]", 8: "[/THINK]"})
    assert parted(how, [(7, ""), *spelled("Hm"), (8, ""), *spelled("Yes")]) == ("Hm", "Yes")


@pytest.mark.parametrize("opens", PAIRS)
def test_marks_that_are_spelled_in_several_tokens_part_a_reply(opens: str) -> None:
    for size in range(1, len(opens) + 4):
        text = f"{opens}\nLet me < see.\n{PAIRS[opens]}\n\nYes, 1 < 2."
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        thinking, answer = parted(marks(), [*spelled(*pieces), *spelled(" ", "End.")])
        assert thinking.strip() == "Let me < see."
        assert answer.strip() == "Yes, 1 < 2. End."


def test_thinking_that_the_template_opened_needs_no_mark_and_may_have_one() -> None:
    how = marks(TOKEN_MARKS, "<|im_start|>assistant\n<think>\n")
    reply = [*spelled("Hm", "."), (101, "</think>"), *spelled("\n", "Yes")]
    assert parted(how, reply) == ("Hm.", "Yes")
    assert parted(how, [(100, "<think>"), *reply]) == ("Hm.", "Yes")
    assert parted(marks({}, "<think>\n"), spelled("<", "think", ">\n", "Hm.", "\n</", "think", ">\n", "Yes")) == (
        "Hm.\n",
        "Yes",
    )


def test_a_reply_of_thinking_alone_has_no_answer() -> None:
    assert parted(marks(TOKEN_MARKS), [(100, "<think>"), *spelled("Hm", "...")]) == ("Hm...", "")


def test_thinking_that_was_left_out_leaves_the_answer() -> None:
    tokens = [(100, "<think>"), *spelled("\n\n"), (101, "</think>"), *spelled("\n\n", "Yes")]
    assert parted(marks(TOKEN_MARKS), tokens) == ("", "Yes")


@pytest.mark.parametrize("text", ["<table>", "<thing>", "  <p", "a <think> b </think> c", "</p>", "1 <"])
def test_what_only_begins_like_a_mark_or_stands_later_is_said(text: str) -> None:
    assert parted(marks(), [*spelled(*text), *spelled("!")]) == ("", text + "!")


def test_a_mark_in_the_middle_of_an_answer_is_said_also_when_it_is_a_token() -> None:
    tokens = [*spelled("Write "), (100, "<think>"), *spelled(" and "), (101, "</think>")]
    assert parted(marks(TOKEN_MARKS), tokens) == ("", "Write <think> and </think>")


def test_channels_part_a_reply() -> None:
    tokens = [
        *((201, ""), (0, "analysis"), (202, ""), (0, "We"), (0, " greet."), (203, "")),
        *(
            (200, ""),
            (0, "assistant"),
            (201, ""),
            (0, "commentary"),
            (0, " to=x"),
            (202, ""),
            (0, " Look."),
            (203, ""),
        ),
        *((200, ""), (0, "assistant"), (201, ""), (0, "final"), (202, ""), (0, "Hello"), (0, "!")),
    ]
    assert parted(harmony(), tokens) == ("We greet. Look.", "Hello!")


def test_a_channel_that_the_template_opened_is_the_replys() -> None:
    assert parted(harmony("<|start|>assistant<|channel|>analysis<|message|>"), spelled("Hm")) == ("Hm", "")
    assert parted(harmony("<|start|>assistant<|channel|>final<|message|>"), spelled("Yes")) == ("", "Yes")


def test_a_model_with_channels_that_writes_none_is_still_heard() -> None:
    text = "There is no header here, only an answer that goes on for longer than any header would."
    assert parted(harmony(), spelled(*text))[1] == text


def test_an_end_token_of_another_family_is_no_channel() -> None:
    assert find_marks({5: "<|end|>", 6: "<|user|>"}, "<|end|>\n<|assistant|>\n") == {}


def test_a_reply_begins_behind_the_last_frame_that_opens_one() -> None:
    how = marks()
    assert how.reply_start([1, 2, 9, 9, 1, 2, 7]) == 6
    assert how.reply_start([9, 1, 2]) == 3
    assert how.reply_start([1, 9, 9]) == 3


PIECES = st.lists(
    st.sampled_from(["<", "think", ">", "</", "<think>", "</think>", "\n", " ", "a", "<t", "hink>", "Hm", "."])
    | st.text(max_size=3)
)


@given(PIECES, st.booleans())
def test_nothing_but_marks_and_the_blanks_around_them_is_ever_lost(pieces: list[str], opened: bool) -> None:
    how = marks({}, "<think>\n" if opened else "")
    thinking, answer = parted(how, [*spelled(*pieces), *spelled("END OF IT")])

    def bare(text: str) -> str:
        for mark in ("<think>", "</think>", "<thinking>"):
            text = text.replace(mark, "")
        return "".join(text.split())

    # Marks that stand in no place of theirs are said; they are left out on both sides.
    assert bare(f"{thinking} {answer}") == bare("".join(pieces) + "END OF IT")


@given(PIECES, st.integers(0, 20))
def test_going_on_parts_as_if_there_had_been_no_pause(pieces: list[str], pause: int) -> None:
    whole, before = marks().splitter(), marks().splitter()
    tokens = spelled(*pieces)
    told = [whole.push(*token) for token in tokens]
    before.push_all(tokens[:pause])
    assert [before.push(*token) for token in tokens[pause:]] == told[pause:]
