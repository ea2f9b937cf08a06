"""Token ids to text, one at a time, at a cost that does not grow with the text.

Calling the tokenizer's `decode` on everything so far costs more with every token, and on a lone token it breaks
characters that are spread over several. So each token is turned into the bytes that it stands for, once, and the
bytes run through an incremental UTF-8 decoder. The result equals
`tokenizer.decode(ids, skip_special_tokens=not specials, clean_up_tokenization_spaces=False)`, with one exception:
where a tokenizer spells bytes as `<0xE2>`, its own `decode` looks at the whole run of them, and one invalid byte
spoils the valid characters before it, which are on the screen by then. Here they stay.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Sequence
from typing import Any, Protocol

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")

_WORDS_OF_CONTEXT = 8
"""Tokens that a decoder of unknown kind is shown before, and at most held back, for the sake of one token."""


class TextStream:
    """The text of a sequence of tokens that arrive one by one.

    Special tokens add nothing, unless `specials` is set; `text_of` names them in any case.
    """

    def __init__(self, tokenizer: Any, *, specials: bool = False) -> None:
        self._tokenizer = tokenizer
        self._hidden = frozenset() if specials else frozenset(_special_ids(tokenizer))
        self._spelling = _spelling(tokenizer)
        self._state = self._spelling.start()

    def push(self, token_id: int) -> str:
        """What this token adds to the text; empty while a character is incomplete."""
        return "" if token_id in self._hidden else self._state.push(token_id)

    def flush(self) -> str:
        """What an incomplete character leaves at the end, as U+FFFD; the stream then starts anew."""
        rest = self._state.flush()
        self._state = self._spelling.start()
        return rest

    def texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """What each token adds to the text of `ids`; joined, they are `decode(ids)`. The stream is not moved."""
        state = self._spelling.start()
        texts = ["" if token_id in self._hidden else state.push(token_id) for token_id in ids]
        if texts:
            texts[-1] += state.flush()
        return tuple(texts)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, from their first. The stream is not moved."""
        return "".join(self.texts(ids))

    def text_of(self, token_id: int) -> str:
        """A lone token in writing, special tokens by their name, bytes that are no character as U+FFFD."""
        return self._spelling.lone(token_id)


class _State(Protocol):
    def push(self, token_id: int) -> str: ...

    def flush(self) -> str: ...


class _Spelling(Protocol):
    """How one tokenizer writes its tokens."""

    def start(self) -> _State: ...

    def lone(self, token_id: int) -> str: ...


class _ByteSpelling:
    """Every token stands for a fixed string of bytes; `strip` leading spaces of the whole text are dropped."""

    def __init__(self, tokenizer: Any, to_bytes: _ToBytes, strip: int) -> None:
        self._tokenizer = tokenizer
        self._to_bytes = to_bytes
        self._known: dict[int, bytes] = {}
        self.strip = strip

    def bytes_of(self, token_id: int) -> bytes:
        known = self._known.get(token_id)
        if known is None:
            # A model's vocabulary may be padded past the tokenizer's: such an id has no text.
            piece = self._tokenizer.convert_ids_to_tokens(token_id)
            known = self._known[token_id] = self._to_bytes(piece) if piece is not None else b""
        return known

    def start(self) -> _ByteState:
        return _ByteState(self)

    def lone(self, token_id: int) -> str:
        return self.bytes_of(token_id).decode("utf-8", "replace")


class _ByteState:
    def __init__(self, spelling: _ByteSpelling) -> None:
        self._bytes_of = spelling.bytes_of
        self._strip = spelling.strip
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        return self._stripped(self._utf8.decode(self._bytes_of(token_id)))

    def flush(self) -> str:
        return self._stripped(self._utf8.decode(b"", final=True))

    def _stripped(self, text: str) -> str:
        while self._strip and text:
            if text[0] != " ":
                self._strip = 0
                break
            text, self._strip = text[1:], self._strip - 1
        return text


class _WindowSpelling:
    """A decoder of unknown kind: the tokenizer's own `decode` on the last few tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    def start(self) -> _WindowState:
        return _WindowState(self)

    def lone(self, token_id: int) -> str:
        return self.decode([token_id])


class _WindowState:
    def __init__(self, spelling: _WindowSpelling) -> None:
        self._decode = spelling.decode
        self._context: list[int] = []
        self._held: list[int] = []

    def push(self, token_id: int) -> str:
        self._held.append(token_id)
        text = self._decode(self._context + self._held)
        if text.endswith("\ufffd") and len(self._held) < _WORDS_OF_CONTEXT:
            return ""
        return self._release(text)

    def flush(self) -> str:
        return self._release(self._decode(self._context + self._held)) if self._held else ""

    def _release(self, text: str) -> str:
        added = text[len(self._decode(self._context)) :]
        self._context, self._held = (self._context + self._held)[-_WORDS_OF_CONTEXT:], []
        return added


class _ToBytes(Protocol):
    def __call__(self, piece: str, /) -> bytes: ...


def _special_ids(tokenizer: Any) -> set[int]:
    return set(tokenizer.all_special_ids) | {
        token_id for token_id, token in tokenizer.added_tokens_decoder.items() if token.special
    }


def _spelling(tokenizer: Any) -> _Spelling:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = getattr(backend, "decoder", None)
    if decoder is None:
        return _WindowSpelling(tokenizer)
    steps = json.loads(decoder.__getstate__())
    steps = steps["decoders"] if steps["type"] == "Sequence" else [steps]
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"]:
        return _ByteSpelling(tokenizer, _byte_level, strip=0)
    if kinds in (["Replace", "ByteFallback", "Fuse"], ["Replace", "ByteFallback", "Fuse", "Strip"]):
        old, new = steps[0]["pattern"].get("String"), steps[0]["content"]
        strip: dict[str, Any] = steps[3] if len(steps) == 4 else {"content": " ", "start": 0, "stop": 0}
        if old and strip["content"] == " " and strip["stop"] == 0:
            return _ByteSpelling(tokenizer, _sentence_piece(old, new), strip=strip["start"])
    return _WindowSpelling(tokenizer)


def _sentence_piece(old: str, new: str) -> _ToBytes:
    def to_bytes(piece: str, /) -> bytes:
        byte = _BYTE_TOKEN.fullmatch(piece)
        return bytes([int(byte[1], 16)]) if byte else piece.replace(old, new).encode()

    return to_bytes


def _byte_alphabet() -> dict[str, int]:
    """The characters that byte-level vocabularies write bytes with: a visible one for itself, and for the others
    those from U+0100 on, in order."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in set(visible)]
    return {chr(byte): byte for byte in visible} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


_BYTE_OF = _byte_alphabet()


def _byte_level(piece: str, /) -> bytes:
    try:
        return bytes([_BYTE_OF[character] for character in piece])
    except KeyError:  # an added token, which is written as it is
        return piece.encode()
