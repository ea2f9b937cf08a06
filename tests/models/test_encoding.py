"""Texts that a tokenizer was not made for."""

from __future__ import annotations

import pytest

from sinkchat.models.encoding import TextEncoder
from tests.lab.tiny import sentence_piece


@pytest.mark.parametrize("text", ["snow ☃", "☃", "☃☃", "☃ snow", "a ☃ b", "<s>☃", "<unk>", "☃<s>"])
def test_characters_that_a_tokenizer_does_not_have_are_its_unknown_token(text: str) -> None:
    tokenizer = sentence_piece()
    ids = TextEncoder(tokenizer).text(text)
    assert ids
    assert tokenizer.bos_token_id not in ids
    assert (tokenizer.unk_token_id in ids) == ("☃" in text)
