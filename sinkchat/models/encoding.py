"""Text to token ids: what a person wrote stays text, whatever it spells.

A chat's frames are made of control tokens. `TextEncoder.frame` recognises them; `TextEncoder.text` never does, so
that a typed `<|im_start|>` is twelve characters and cannot open a turn.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

_ANCHORS = ("\n", ".", "a")
_WORD = "a"


class TextEncoder:
    """Encodes pieces of a sequence so that, side by side, they decode to the same text side by side.

    A sentencepiece tokenizer puts a space before whatever it is given. In mid-sequence that space would be one too
    many, so the piece is encoded behind an anchor, whose tokens are then taken away.
    """

    def __init__(self, tokenizer: Any, control: Collection[int] = ()) -> None:
        """`control`: ids of tokens that act as control tokens without being marked as special."""
        self._tokenizer = tokenizer
        self._control = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special} | set(control)
        # stands for characters that the tokenizer does not have, and is then nobody's name cut in two
        self._unknown = tokenizer.unk_token_id
        self._anchors = self._find_anchors()

    def frame(self, text: str, *, first: bool = False, leads: bool = False) -> tuple[int, ...]:
        """Ids of a template's own text, control tokens recognised.

        `first`: nothing stands before it. `leads`: somebody's text follows, which tells how blank lines at the end
        are cut. A space at the end stays a token of its own, though with the word after it, it might be one.
        """
        if leads and text:
            *ids, last = (token_id for token_id, _ in self._encode(text + _WORD, split=False, anchored=not first))
            # Its offset would not tell: some tokenizers do not count the space that a token begins with.
            if self._tokenizer.convert_ids_to_tokens(last) == _WORD:
                return tuple(ids)
        return tuple(token_id for token_id, _ in self._encode(text, split=False, anchored=not first))

    def text(self, text: str) -> tuple[int, ...]:
        """Ids of somebody's text; a control token spelled out in it stays text."""
        pairs = self._encode(text, split=True, anchored=True)
        # A token that is not marked as special is recognised in spite of `split`: its name is cut in two.
        cuts = [start + 1 for token_id, start in pairs if token_id in self._control and token_id != self._unknown]
        if not cuts or len(text) == 1:
            return tuple(token_id for token_id, _ in pairs)
        pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        return tuple(token_id for piece in pieces for token_id in self.text(piece))

    def is_special(self, token_id: int) -> bool:
        """Whether the token is a control token, which `text` never gives."""
        return token_id in self._control

    def _encode(self, text: str, *, split: bool, anchored: bool) -> list[tuple[int, int]]:
        """Pairs of a token's id and the index in `text` of its first character."""
        if not text:
            return []
        for anchor in self._anchors if anchored else ():
            pairs = self._pairs(anchor + text, split=split)
            head = self._pairs(anchor, split=split)
            if pairs[: len(head)] == head:
                return [(token_id, start - len(anchor)) for token_id, start in pairs[len(head) :]]
        return self._pairs(text, split=split)

    def _pairs(self, text: str, *, split: bool) -> list[tuple[int, int]]:
        encoded = self._tokenizer(
            text,
            add_special_tokens=False,
            split_special_tokens=split,
            return_offsets_mapping=True,
            return_attention_mask=False,
            verbose=False,
        )
        starts = (start for start, _ in encoded["offset_mapping"])
        return list(zip(encoded["input_ids"], starts, strict=True))

    def _find_anchors(self) -> tuple[str, ...]:
        """Empty where two pieces encoded apart already decode to what they are."""
        word = [token_id for token_id, _ in self._pairs("a", split=True)]
        return () if self._decode(word + word) == "aa" else _ANCHORS

    def _decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, clean_up_tokenization_spaces=False)
        return text
