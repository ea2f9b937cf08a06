"""Every style of chat template: a conversation that grows is the one that the template would render.

What the template itself rewrites as a conversation grows is taken out on both sides, and docs/turns.md names it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sinkchat.errors import ModelError
from sinkchat.models.rendering import Limits
from sinkchat.models.template import ChatTemplate
from tests.models.templates import PARTS, STYLES, Style
from tests.models.test_template import Chat, _merged, chats, messages, text_of
from tests.models.tiny import CHATML, byte_level

TEXTS = chats(st.characters(codec="utf-8", exclude_characters="\ufffd"))


def appended(style: Style, template: ChatTemplate, chat: Chat) -> list[int]:
    """Every id that is fed for this chat, in order; the replies as the model writes them, with their thinking."""

    def written(text: str) -> list[int]:
        ids: list[int] = style.tokenizer(text, add_special_tokens=False)["input_ids"] if text else []
        return ids

    lead = template.opening(chat.system)[0]
    ids = list(lead)
    for said, reply in chat.turns:
        ids += [*template.encode(said, after=lead), *template.ask()]
        ids += [*written(style.thinking + style.opened.rstrip(" ")), *template.encode(_space(style) + reply)]
        ids += (lead := template.between())
    return [*ids, *template.encode(chat.last, after=lead), *template.ask()]


def _space(style: Style) -> str:
    return " " if style.opened.endswith(" ") else ""


def rendered(style: Style, chat: Chat) -> str:
    """By transformers, in its own environment."""
    turns: list[Any] = messages(chat if style.system else _merged(chat))
    if style.tokenizer.chat_template == PARTS:
        turns = [{**turn, "content": [{"type": "text", "text": turn["content"]}]} for turn in turns]
    text: str = style.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    return text


@pytest.mark.parametrize("name", STYLES)
def test_appended_turns_read_as_the_template_renders_them(name: str) -> None:
    style = STYLES[name]
    template = ChatTemplate(style.tokenizer)
    ask = text_of(style.tokenizer, list(template.ask()))

    @settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=25)
    @given(TEXTS)
    def check(chat: Chat) -> None:
        if not style.system_stays and chat.turns:
            chat = Chat(None, chat.turns, chat.last)
        text = text_of(style.tokenizer, appended(style, template, chat))
        expected = rendered(style, chat)
        # What the template drops later stands in what was appended, as the model wrote it.
        assert text.count(style.dropped + style.thinking) >= len(chat.turns)
        if style.thinking:
            text = text.replace(style.dropped + style.thinking, "")
        # A template without a generation prompt leaves the reply's header to the model; here it is there.
        assert text == expected or (text.startswith(expected) and ask.endswith(text[len(expected) :]))

    check()


@pytest.mark.parametrize("name", ["[INST]", "[INST], system with the latest", "spoken", "phi"])
def test_ids_are_those_of_the_whole_rendering_where_a_frame_ends_with_a_space(name: str) -> None:
    style = STYLES[name]
    template = ChatTemplate(style.tokenizer)
    for system in (None, "read the sea"):
        chat = Chat(system, (("the sea", "read another book"),) if system is None else (), "read the sea")
        ids = style.tokenizer(rendered(style, chat), add_special_tokens=False)["input_ids"]
        # A reply's header that the template has only behind the reply is fed before it.
        assert appended(style, template, chat)[: len(ids) - 1] == ids[:-1]


def test_a_reply_is_opened_though_the_template_knows_no_generation_prompt() -> None:
    for name, header in (("no generation prompt", "<|im_start|>assistant\n"), ("spoken", " ASSISTANT:")):
        tokenizer = STYLES[name].tokenizer
        assert text_of(tokenizer, list(ChatTemplate(tokenizer).ask())).endswith(header)


@pytest.mark.parametrize("name", STYLES)
def test_all_tokens_that_end_a_reply_are_found(name: str) -> None:
    style = STYLES[name]
    assert ChatTemplate(style.tokenizer).stop_ids == set(style.tokenizer.convert_tokens_to_ids(list(style.stops)))


@pytest.mark.parametrize("name", STYLES)
def test_a_typed_control_token_stays_text(name: str) -> None:
    tokenizer = STYLES[name].tokenizer
    template = ChatTemplate(tokenizer)
    for token_id, token in tokenizer.added_tokens_decoder.items():
        ids = template.encode(f"so {token.content}user")
        assert token_id not in ids
        assert text_of(tokenizer, list(ids)).strip() == f"so {token.content}user"


@pytest.mark.parametrize(
    ("name", "system", "pinned"),
    [
        ("headers with a date", "Sea.", "Sea.<|eot_id|>"),
        ("headers with a date", None, "You are a tiny model.<|eot_id|>"),
        ("[INST], system with the latest", "Sea.", "Sea.\n\n"),
        ("phi", "Sea.", "<|system|>\nSea.<|end|>\n"),
        ("phi", None, ""),
        ("harmony", "Sea.", "Sea.\n\n<|end|>"),
        ("harmony", None, "final.<|end|>"),
        ("drops thinking", "Sea.", "<|im_start|>system\nSea.<|im_end|>\n"),
        ("opens thinking", "Sea.", "<s>Sea."),
        ("opens thinking", None, ""),
        ("parts", "Sea.", "<|im_start|>system\nSea.<|im_end|>\n"),
        ("spoken", "Sea.", "Sea. "),
    ],
)
def test_the_system_prompt_is_counted_to_its_last_token(name: str, system: str | None, pinned: str) -> None:
    tokenizer = STYLES[name].tokenizer
    ids, count = ChatTemplate(tokenizer).opening(system)
    text = text_of(tokenizer, list(ids[:count]))
    assert text.endswith(pinned)
    assert bool(text) == bool(pinned)


@pytest.mark.parametrize("name", STYLES)
def test_the_words_of_a_templates_own_prompt_stand_in_the_opening_once(name: str) -> None:
    tokenizer = STYLES[name].tokenizer
    template = ChatTemplate(tokenizer)
    ids, count = template.opening(None)
    said = text_of(tokenizer, list(ids[:count]))
    if template.own_system is not None:
        assert said.count(template.own_system) == 1
        assert not any(token.content in template.own_system for token in tokenizer.added_tokens_decoder.values())
    if name == "headers with a date":
        assert template.own_system is not None
        assert template.own_system.endswith("You are a tiny model.")
        assert "header" not in template.own_system


@pytest.mark.parametrize("name", STYLES)
def test_the_thinking_of_a_reply_is_told_from_its_answer(name: str) -> None:
    style = STYLES[name]
    marks = ChatTemplate(style.tokenizer).thinking
    assert marks is not None
    splitter = marks.splitter()
    said = {"thinking": "", "answer": ""}
    for token_id in style.tokenizer(style.thinking + style.opened + "Yes.", add_special_tokens=False)["input_ids"]:
        part, text = splitter.push(token_id, style.tokenizer.decode([token_id], skip_special_tokens=True))
        said[part] += text
    assert said["thinking"].strip() == ("Let me see." if style.thinking else "")
    assert said["answer"].strip() == "Yes."


def test_of_named_templates_the_one_for_plain_turns_is_taken() -> None:
    only = byte_level("<|im_start|>", "<|im_end|>", template={"chat": CHATML})
    assert not ChatTemplate(only).plain
    with pytest.raises(ModelError, match="has chat templates for rag, tool_use and none is its default"):
        ChatTemplate(byte_level("<|im_start|>", "<|im_end|>", template={"tool_use": CHATML, "rag": CHATML}))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{% if %}", "does not work"),
        ("{% for message in messages %}", "does not work"),
        ("{{ raise_exception('tools only') }}", "tools only"),
        ("{{ messages[0].content.nothing.more }}", "does not work"),
        ("{{ messages[0].__class__.__mro__ }}", "does not work .*unsafe"),
        ("{{ messages.append(1) }}", "does not work .*unsafe"),
        ("{{ 'a' * 10**10 }}", "too much memory"),
        ("{% for n in range(99999) %}{{ messages[0].content }}{% endfor %}", "more than 200,000 characters"),
        ("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}", "calls itself without end"),
        ("nothing of what was said", "rewrites what was said"),
        ("{% for message in messages | reverse %}{{ message.content }}\n{% endfor %}", "rewrites what was said"),
        ("{{ messages[-1].content }}", "rewrites what was said"),
    ],
)
def test_a_template_that_cannot_be_used_is_an_error_with_its_reason(source: str, said: str) -> None:
    with pytest.raises(ModelError, match=said) as raised:
        ChatTemplate(byte_level("<s>", "</s>", template=source))
    assert "to go on without turns" in str(raised.value)


def test_a_template_that_comes_to_no_end_is_stopped() -> None:
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(ModelError, match="stopped after 1 seconds, since it came to no end"):
        ChatTemplate(byte_level("<s>", "</s>", template=endless), limits=Limits(seconds=1))
