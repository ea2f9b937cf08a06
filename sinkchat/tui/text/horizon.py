"""Where the horizon falls among the passages of a chat, at the very token, and the words for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sinkchat.tui.text.passage import Passage, Sight


@dataclass(frozen=True, slots=True)
class Horizon:
    """Nothing before the character at `offset` of the passage's source is seen, sinks aside. `offset` 0 is above the
    passage, one beyond its length is below it."""

    passage: Passage
    offset: int
    words: str


def find_horizon(passages: Iterable[Passage], sight: Sight) -> Horizon | None:
    """None while everything is seen."""
    passed: Passage | None = None
    for passage in passages:
        if passage.withdrawn or (not passage.tokens and passage.sequence == sight.sequence):
            continue
        gone = passage.gone_tokens(sight)
        if gone >= max(1, passage.tokens):
            passed = passage
        elif passage.sequence == sight.sequence:
            if gone:
                return Horizon(passage, passage.cut(sight), _cut_words(passage, sight))
            return Horizon(passage, 0, _clean_words(sight)) if passed else None
    return Horizon(passed, len(passed.text) + 1, _clean_words(sight)) if passed else None


def _cut_words(passage: Passage, sight: Sight) -> str:
    out = sum(part.unseen_tokens(sight) for part in passage.parts)
    total = sum(part.tokens for part in passage.parts)
    return f"horizon · {out:,} of {total:,} tokens of this message are out of sight"


def _clean_words(sight: Sight) -> str:
    aside = f", {sight.kept:,} sink{'s' if sight.kept > 1 else ''} aside" if sight.kept else ""
    return f"horizon · nothing above is in sight{aside}"
