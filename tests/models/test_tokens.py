"""The text of tokens that arrive one by one is the text of them all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinkchat.models.load import LoadedModel
from sinkchat.models.tokens import TextStream
from tests.models.tiny import chatml_tokenizer, sentence_piece

BYTES = chatml_tokenizer()
PIECES = sentence_piece("<s>", "</s>")


def whole(tokenizer: Any, ids: list[int], *, specials: bool = False) -> str:
    text: str = tokenizer.decode(ids, skip_special_tokens=not specials, clean_up_tokenization_spaces=False)
    return text


def pushed(stream: TextStream, ids: list[int]) -> str:
    return "".join(stream.push(token_id) for token_id in ids) + stream.flush()


@given(st.lists(st.integers(0, len(BYTES) - 1)), st.booleans())
def test_any_ids_of_a_byte_level_tokenizer_add_up_to_their_decoded_text(ids: list[int], specials: bool) -> None:
    assert pushed(TextStream(BYTES, specials=specials), ids) == whole(BYTES, ids, specials=specials)


@given(st.text())
def test_any_text_of_a_sentencepiece_tokenizer_comes_back_token_by_token(text: str) -> None:
    ids = PIECES.encode(text, add_special_tokens=False)
    assert pushed(TextStream(PIECES), ids) == whole(PIECES, ids)


WHOLE_PIECES = [i for i in range(len(PIECES)) if not PIECES.convert_ids_to_tokens(i).startswith("<0x")]


@given(st.lists(st.sampled_from(WHOLE_PIECES)), st.booleans())
def test_any_pieces_of_a_sentencepiece_tokenizer_add_up_to_their_decoded_text(ids: list[int], specials: bool) -> None:
    assert pushed(TextStream(PIECES, specials=specials), ids) == whole(PIECES, ids, specials=specials)


def test_an_invalid_byte_does_not_take_back_the_characters_before_it() -> None:
    euro, stray = PIECES.encode("€", add_special_tokens=False)[1:], PIECES.convert_tokens_to_ids("<0xE2>")
    stream = TextStream(PIECES)
    assert [stream.push(token_id) for token_id in [*euro, stray]] == ["", "", "€", ""]
    assert stream.flush() == "\ufffd"


@given(st.lists(st.integers(0, len(BYTES) - 1)))
def test_the_texts_of_a_prompt_are_what_pushing_it_adds(ids: list[int]) -> None:
    stream = TextStream(BYTES, specials=True)
    texts = stream.texts(ids)
    assert len(texts) == len(ids)
    assert "".join(texts) == whole(BYTES, ids, specials=True) == stream.decode(ids)
    assert pushed(stream, ids) == "".join(texts)


def test_asking_for_texts_does_not_move_the_stream() -> None:
    stream = TextStream(BYTES)
    first, *rest = BYTES.encode("東", add_special_tokens=False)
    stream.push(first)
    stream.texts(BYTES.encode("another text", add_special_tokens=False))
    assert "".join(stream.push(token_id) for token_id in rest) == "東"


def test_an_emoji_appears_with_its_last_token_and_not_before() -> None:
    ids = BYTES.encode("🦀", add_special_tokens=False)
    stream = TextStream(BYTES)
    texts = [stream.push(token_id) for token_id in ids]
    assert len(ids) > 1
    assert texts == [""] * (len(ids) - 1) + ["🦀"]


def test_special_tokens_add_nothing_to_a_reply_and_can_be_named() -> None:
    end = BYTES.convert_tokens_to_ids("<|im_end|>")
    stream = TextStream(BYTES)
    assert stream.push(end) == ""
    assert stream.text_of(end) == "<|im_end|>"
    assert TextStream(BYTES, specials=True).push(end) == "<|im_end|>"


def test_an_id_past_the_tokenizers_vocabulary_has_no_text() -> None:
    assert TextStream(BYTES).push(len(BYTES) + 5) == ""


class Unknown:
    """A tokenizer whose decoder is of no known kind."""

    all_special_ids = (0,)

    def __init__(self) -> None:
        self.added_tokens_decoder: dict[int, Any] = {}

    def decode(self, ids: list[int], **_options: object) -> str:
        return bytes(ids).decode("utf-8", "replace")


@given(st.text(st.characters(exclude_characters="\0\ufffd", exclude_categories=["Cs"])))
def test_a_decoder_of_unknown_kind_gives_the_same_text(text: str) -> None:
    assert pushed(TextStream(Unknown()), list(text.encode())) == text


@pytest.mark.parametrize("tokenizer", [Unknown(), BYTES, PIECES])
def test_the_cost_of_a_token_does_not_grow_with_the_text(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    decode = type(tokenizer).decode
    monkeypatch.setattr(
        type(tokenizer), "decode", lambda self, ids, **options: asked.append(len(ids)) or decode(self, ids, **options)
    )
    stream = TextStream(tokenizer)
    for n in range(500):
        stream.push(97 + n % 20)
    assert max(asked, default=0) <= 20


@pytest.mark.real_model
def test_any_ids_of_the_small_model_add_up_to_their_decoded_text(small: LoadedModel) -> None:
    @settings(deadline=None)
    @given(st.lists(st.integers(0, len(small.tokenizer) - 1)), st.booleans())
    def check(ids: list[int], specials: bool) -> None:
        stream = TextStream(small.tokenizer, specials=specials)
        assert pushed(stream, ids) == whole(small.tokenizer, ids, specials=specials)

    check()
