"""What a model thought is a part of its reply of its own: in the journal, in the conversation and in every export."""

from __future__ import annotations

import json
from pathlib import Path

from markdown_it import MarkdownIt

from sinkchat.chat.conversation import Conversation
from sinkchat.chat.export import render, saved_conversation
from sinkchat.chat.journal import Journal
from sinkchat.chat.plain import from_plain, to_plain
from sinkchat.chat.records import TokenSaid
from sinkchat.chat.session import ChatSession
from sinkchat.engine.events import Token
from tests.fakes import FakeEngine, FakeTemplate

THOUGHT = "The person asks <b>twice</b>, so it matters."
ANSWER = "Yes, it is so."


def conversation(folder: Path, *, cap: int = 0) -> tuple[Conversation, Conversation]:
    """One turn with a thoughtful model: as it was held, and as its journal says."""
    journal = Journal.create(folder)
    session = ChatSession(
        FakeEngine(thinking=THOUGHT, reply=" " + ANSWER), FakeTemplate(), journal, max_reply_tokens=cap
    )
    for _ in session.say("Is it so?"):
        pass
    session.close()
    return session.conversation, saved_conversation(journal.path)


def test_a_reply_is_its_answer_and_its_thinking_is_kept_apart(tmp_path: Path) -> None:
    for held in conversation(tmp_path):
        reply = held.messages[-1]
        assert reply.thinking == THOUGHT
        assert reply.text.strip() == ANSWER
        assert reply.thinking_tokens == len(THOUGHT.split())
        assert reply.tokens_read == len(THOUGHT.split()) + len(ANSWER.split())


def test_a_position_inside_the_thinking_is_where_the_answer_begins(tmp_path: Path) -> None:
    reply = conversation(tmp_path)[0].messages[-1]
    first = reply.first_position
    assert first is not None
    assert reply.offset(first + 2) == reply.offset(first + reply.thinking_tokens) == 0
    assert reply.offset(first + reply.thinking_tokens + 1) == len(" Yes,")


def test_a_reply_that_was_cut_while_the_model_thought_goes_on_as_one(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path)
    session = ChatSession(FakeEngine(thinking=THOUGHT, reply=ANSWER), FakeTemplate(), journal, max_reply_tokens=3)
    said = [event for event in session.say("Is it so?") if isinstance(event, Token)]
    assert {token.part for token in said} == {"thinking"}
    reply = session.conversation.messages[-1]
    assert (reply.text, reply.thinking) == ("", "The person asks")
    session.max_reply_tokens = 0
    for _ in session.go_on():
        pass
    assert (reply.text, reply.thinking) == (ANSWER, THOUGHT)
    session.close()


def test_every_export_has_the_thinking_before_the_answer(tmp_path: Path) -> None:
    held, _ = conversation(tmp_path)
    markdown, text = render(held, "md"), render(held, "txt")
    for document in (markdown, text):
        thinking, answer = document.index("Thinking, 7 tokens"), document.index("Answer")
        assert thinking < document.index("The person asks") < answer < document.index(ANSWER)
    kinds = [token.type for token in MarkdownIt("commonmark").parse(markdown)]
    assert "html_block" not in kinds
    assert kinds.count("blockquote_open") == 3  # the question, the thinking, the answer
    message = json.loads(render(held, "json"))["messages"][-1]
    assert (message["thinking"], message["thinking_tokens"]) == (THOUGHT, 7)
    assert message["text"].strip() == ANSWER
    assert [token["part"] for token in message["tokens"]] == ["thinking"] * 7 + ["answer"] * 4


def test_a_message_without_thinking_says_so(tmp_path: Path) -> None:
    held, _ = conversation(tmp_path)
    message = json.loads(render(held, "json"))["messages"][0]
    assert (message["thinking"], message["thinking_tokens"]) == (None, 0)


def test_a_journal_of_before_there_were_parts_is_read_as_answers() -> None:
    plain = to_plain(TokenSaid(1, 2, "x", 3, 0.5, None, 3, 0, "thinking"))
    assert from_plain("token", plain) == TokenSaid(1, 2, "x", 3, 0.5, None, 3, 0, "thinking")
    del plain["part"]
    assert from_plain("token", plain) == TokenSaid(1, 2, "x", 3, 0.5, None, 3, 0, "answer")
