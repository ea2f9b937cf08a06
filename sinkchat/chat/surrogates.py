"""Half characters, which come from file names, broken pastes and JSON, and which no tokenizer takes."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def paired(text: str) -> str:
    """Two halves that belong together as the character that they are: what JSON would make of them."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def encodable(text: str) -> str:
    """Halves that belong to nothing as U+FFFD."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
