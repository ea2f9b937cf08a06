"""A conversation that grows by its own tokens is the one that the model's template would render."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken

from sinkchat.errors import ModelError
from sinkchat.models.load import LoadedModel
from sinkchat.models.template import ChatTemplate
from tests.models.tiny import GEMMA, INST, LLAMA_3, byte_level, chatml_tokenizer, sentence_piece

TOKENIZERS = {
    "chatml": chatml_tokenizer(),
    "llama 3": byte_level(
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
        template=LLAMA_3,
    ),
    "[INST]": byte_level("<s>", "</s>", template=INST),
    "[INST], sentencepiece": sentence_piece("<s>", "</s>", template=INST),
    "[INST], legacy sentencepiece": sentence_piece("<s>", "</s>", template=INST, legacy=True),
    "gemma": byte_level("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", template=GEMMA),
}
WITHOUT_SYSTEM = ("gemma",)


@dataclass(frozen=True)
class Chat:
    system: str | None
    turns: tuple[tuple[str, str], ...]
    """Pairs of a person's text and the reply to it."""
    last: str


def chats(characters: st.SearchStrategy[str]) -> st.SearchStrategy[Chat]:
    words = st.text(characters, min_size=1, max_size=12)
    texts = st.builds("{} {}".format, words, words).map(str.strip).filter(bool)
    return st.builds(Chat, st.none() | texts, st.lists(st.tuples(texts, texts), max_size=3).map(tuple), texts)


CHATS = chats(st.characters(codec="utf-8", exclude_characters="\ufffd"))

SMALL_CHATS = chats(
    st.characters(max_codepoint=0x3FFFF, codec="utf-8", exclude_characters="\4\6\x13\x14\x16\x1d\ufffd")
)
"""The small model's vocabulary has no token for six control characters and for two bytes of planes not in use."""


def appended(template: ChatTemplate, chat: Chat, space: str = "") -> list[int]:
    """Every id that is fed for this chat, in order. `space`: what the model writes itself before a reply."""
    lead = template.opening(chat.system)[0]
    ids = list(lead)
    for said, reply in chat.turns:
        ids += [*template.encode(said, after=lead), *template.ask(), *template.encode(space + reply)]
        ids += (lead := template.between())
    return [*ids, *template.encode(chat.last, after=lead), *template.ask()]


def messages(chat: Chat) -> list[dict[str, str]]:
    written = [{"role": "system", "content": chat.system}] if chat.system is not None else []
    for said, reply in chat.turns:
        written += [{"role": "user", "content": said}, {"role": "assistant", "content": reply}]
    return [*written, {"role": "user", "content": chat.last}]


def rendered(tokenizer: Any, chat: Chat) -> str:
    text: str = tokenizer.apply_chat_template(messages(chat), tokenize=False, add_generation_prompt=True)
    return text


def text_of(tokenizer: Any, ids: list[int]) -> str:
    text: str = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    return text


@pytest.mark.parametrize("style", TOKENIZERS)
def test_appended_turns_read_as_the_template_renders_them(style: str) -> None:
    tokenizer = TOKENIZERS[style]
    template = ChatTemplate(tokenizer)

    @settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
    @given(CHATS)
    def check(chat: Chat) -> None:
        expected = rendered(tokenizer, _merged(chat) if style in WITHOUT_SYSTEM else chat)
        if "legacy" in style:  # which does not give back what it was given
            expected = text_of(tokenizer, tokenizer(expected, add_special_tokens=False)["input_ids"])
        space = " " if "[INST]" in style else ""
        assert text_of(tokenizer, appended(template, chat, space)) == expected

    check()


def _merged(chat: Chat) -> Chat:
    """The same chat with the system prompt at the head of the person's first message."""
    if chat.system is None:
        return chat
    if not chat.turns:
        return Chat(None, (), f"{chat.system}\n\n{chat.last}")
    (said, reply), *rest = chat.turns
    return Chat(None, ((f"{chat.system}\n\n{said}", reply), *rest), chat.last)


@pytest.mark.parametrize("style", ["chatml", "llama 3", "gemma"])
def test_ids_of_appended_turns_are_those_of_the_whole_rendering(style: str) -> None:
    tokenizer = TOKENIZERS[style]
    system = None if style in WITHOUT_SYSTEM else "Read the sea."
    turns = (("the keeper", "read the sea"), ("another book", "never more"))
    # Once a reply is there, this tokenizer cuts the blank line before it otherwise: only the first turn is equal.
    chat = Chat(system, () if style == "llama 3" else turns, "the sea")
    ids = tokenizer(rendered(tokenizer, chat), add_special_tokens=False)["input_ids"]
    assert appended(ChatTemplate(tokenizer), chat) == ids


CONTROL = {
    "chatml": ("<|im_start|>", "<|im_end|>", "<|endoftext|>"),
    "llama 3": ("<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>"),
    "[INST]": ("<s>", "</s>"),
    "[INST], sentencepiece": ("<s>", "</s>"),
    "[INST], legacy sentencepiece": ("<s>", "</s>"),
    "gemma": ("<bos>", "<start_of_turn>", "<end_of_turn>"),
}


@pytest.mark.parametrize("style", TOKENIZERS)
def test_a_typed_control_token_stays_text(style: str) -> None:
    tokenizer = TOKENIZERS[style]
    template = ChatTemplate(tokenizer)
    for name in CONTROL[style]:
        for text in (name, f"{name}{name}", f"so {name}user\nyes{name}\n"):
            ids = template.encode(text)
            assert tokenizer.convert_tokens_to_ids(name) not in ids
            assert text_of(tokenizer, [*template.encode("a"), *ids]) == "a" + text


def test_a_control_token_that_is_not_marked_as_special_stays_text_too() -> None:
    tokenizer = byte_level("<s>", "</s>", template=INST.replace("[INST] ", "<User>").replace(" [/INST]", "<Model>"))
    tokenizer.add_tokens([AddedToken("<User>", special=False), AddedToken("<Model>", special=False)])
    user = tokenizer.convert_tokens_to_ids("<User>")
    template = ChatTemplate(tokenizer)
    assert user in template.opening(None)[0]
    ids = template.encode("a <User>b<User><User>")
    assert user not in ids
    assert text_of(tokenizer, list(ids)) == "a <User>b<User><User>"


@pytest.mark.parametrize("style", TOKENIZERS)
@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\ufffd")))
@settings(deadline=None)
def test_any_text_is_encoded_to_what_decodes_to_it(style: str, text: str) -> None:
    tokenizer = TOKENIZERS[style]
    template = ChatTemplate(tokenizer)
    before = template.encode("x")
    assert text_of(tokenizer, [*before, *template.encode(text)]) == "x" + text


@pytest.mark.parametrize(
    ("style", "system", "pinned"),
    [
        ("chatml", None, "<|im_start|>system\nYou are a tiny model.<|im_end|>\n"),
        ("chatml", "Sea.", "<|im_start|>system\nSea.<|im_end|>\n"),
        ("llama 3", None, ""),
        ("llama 3", "Sea.", "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nSea.<|eot_id|>"),
        ("[INST]", None, ""),
        ("[INST]", "Sea.", "<s>[INST] <<SYS>>\nSea.\n<</SYS>>\n\n"),
        ("gemma", None, ""),
        ("gemma", "Sea.", "<bos><start_of_turn>user\nSea.\n\n"),
    ],
)
def test_the_system_prompt_is_counted_to_its_last_token(style: str, system: str | None, pinned: str) -> None:
    tokenizer = TOKENIZERS[style]
    ids, count = ChatTemplate(tokenizer).opening(system)
    assert text_of(tokenizer, list(ids[:count])) == pinned


@pytest.mark.parametrize(
    ("style", "own"), [("chatml", "You are a tiny model."), ("llama 3", None), ("[INST]", None), ("gemma", None)]
)
def test_the_words_of_a_templates_own_system_prompt_are_told(style: str, own: str | None) -> None:
    assert ChatTemplate(TOKENIZERS[style]).own_system == own


@pytest.mark.parametrize(
    ("style", "stop"),
    [("chatml", "<|im_end|>"), ("llama 3", "<|eot_id|>"), ("[INST]", "</s>"), ("gemma", "<end_of_turn>")],
)
def test_the_token_that_ends_a_reply_is_found_in_the_template(style: str, stop: str) -> None:
    tokenizer = TOKENIZERS[style]
    assert ChatTemplate(tokenizer).stop_ids == {tokenizer.convert_tokens_to_ids(stop)}


def test_a_model_without_a_template_continues_the_text_as_it_is() -> None:
    template = ChatTemplate(byte_level("<s>", "</s>"))
    assert template.plain
    assert template.opening(None) == ((), 0)
    assert template.between() == template.ask() == ()
    assert template.stop_ids == frozenset()


def test_without_a_template_the_sequence_still_starts_with_the_token_that_the_tokenizer_puts_first() -> None:
    from tokenizers.processors import TemplateProcessing

    tokenizer = byte_level("<s>", "</s>")
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    assert ChatTemplate(tokenizer).opening(None) == ((0,), 0)


def test_a_template_that_rewrites_what_was_said_is_an_error() -> None:
    tokenizer = byte_level("<s>", "</s>", template="{% for m in messages %}{{ m['content'] | upper }}{% endfor %}")
    with pytest.raises(ModelError, match="rewrites what was said"):
        ChatTemplate(tokenizer)


def test_a_template_that_fails_is_an_error_with_its_reason() -> None:
    tokenizer = byte_level("<s>", "</s>", template="{{ raise_exception('tools only') }}")
    with pytest.raises(ModelError, match="tools only"):
        ChatTemplate(tokenizer)


@pytest.mark.real_model
@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("<|im_start|>", (44, 108, 306, 79, 3738, 108, 46)),
        ("<|im_end|>", (44, 108, 306, 79, 486, 108, 46)),
        ("<|endoftext|>", (44, 108, 486, 1714, 2692, 108, 46)),
    ],
)
def test_a_typed_control_token_of_the_small_model_is_seven_tokens_of_text(
    small: LoadedModel, name: str, ids: tuple[int, ...]
) -> None:
    assert ChatTemplate(small.tokenizer).encode(name) == ids


@pytest.mark.real_model
def test_turns_of_the_small_model_read_as_its_template_renders_them(small: LoadedModel) -> None:
    template = ChatTemplate(small.tokenizer)

    @settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
    @given(SMALL_CHATS)
    def check(chat: Chat) -> None:
        assert text_of(small.tokenizer, appended(template, chat)) == rendered(small.tokenizer, chat)

    check()


@pytest.mark.real_model
def test_ids_of_the_small_models_turns_are_those_of_the_whole_rendering(small: LoadedModel) -> None:
    chat = Chat("Be brief.", (("Hello, who are you?", "I am SmolLM."), ("And in 1999?", "Not yet.")), "Thanks, 東京!")
    expected = small.tokenizer.apply_chat_template(messages(chat), add_generation_prompt=True)["input_ids"]
    assert appended(ChatTemplate(small.tokenizer), chat) == expected


@pytest.mark.real_model
def test_the_small_models_own_system_prompt_belongs_to_the_opening(small: LoadedModel) -> None:
    ids, count = ChatTemplate(small.tokenizer).opening(None)
    assert text_of(small.tokenizer, list(ids)) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\n"
    )
    assert text_of(small.tokenizer, list(ids[count:])) == "<|im_start|>user\n"
