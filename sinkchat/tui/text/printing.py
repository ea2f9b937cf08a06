"""Tokens to printable text as they come: what cannot be judged before the next token is held back until then."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sinkchat.chat.printable import visible

# The end of a text that may go on as one character: parts of an emoji, joiners, a carriage return.
_OPEN_END = re.compile(
    "[\r#*\u00a9\u00ae\u200c\u200d\ufe0e\ufe0f\u2190-\u2bff\U0001f000-\U0001faff\U000e0000-\U000e0fff]+\\Z"
)


@dataclass(frozen=True, slots=True)
class Printed:
    """Text that may be shown, and how many of its characters each of the tokens that made it brought."""

    text: str
    lengths: tuple[int, ...]


class Printer:
    """One text's tokens, in order. All that was printed, joined, is `visible` of all texts joined."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._before = ""  # the character before what is held: it decides how a joiner is shown

    def push(self, texts: Sequence[str]) -> Printed:
        self._held += texts
        raw = "".join(self._held)
        open_end = _OPEN_END.search(raw)
        judged = open_end.start() if open_end else len(raw)
        whole, size = 0, 0
        while whole < len(self._held) and size + len(self._held[whole]) <= judged:
            size += len(self._held[whole])
            whole += 1
        while 0 < whole < len(self._held) and _OPEN_END.search("".join(self._held[:whole])):
            whole -= 1  # the token that is held back may begin with what its last character goes on in
        return self._print(whole)

    def flush(self) -> Printed:
        """Nothing follows: print what was held back."""
        return self._print(len(self._held))

    def _print(self, tokens: int) -> Printed:
        texts = self._held[:tokens]
        del self._held[:tokens]
        raw = "".join(texts)
        skip = len(visible(self._before))
        shown = visible(self._before + raw)[skip:]
        lengths = tuple(len(text) for text in texts)
        if len(shown) != len(raw):
            lengths = self._lengths(texts, shown, skip)
        self._before = raw[-1] if raw else self._before
        return Printed(shown, lengths)

    def _lengths(self, texts: Sequence[str], shown: str, skip: int) -> tuple[int, ...]:
        """Of tokens whose text is shown with other characters, one by one."""
        lengths: list[int] = []
        raw, done = self._before, 0
        for text in texts:
            raw += text
            end = min(max(done, len(visible(raw)) - skip), len(shown))
            lengths.append(end - done)
            done = end
        if lengths:
            lengths[-1] += len(shown) - done
        return tuple(lengths)
