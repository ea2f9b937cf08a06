"""A reply's text as visible symbols, piece by piece, the same as if it had been made visible as a whole."""

from __future__ import annotations

import re

from sinkchat.chat.printable import visible

_JOINERS = "\u200c\u200d"

# What changes how the character before it is written, and so must not be torn from it: joiners, variation selectors,
# skin tones, the keycap, tags.
_ATTACHED = f"{_JOINERS}\u180b-\u180d\u180f\u20e3\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0000-\U000e01ef"

# Before this character the text may be cut.
_CUT = re.compile(f"(?<![{_JOINERS}])(?![{_ATTACHED}])(?<!\r)(?=.)", re.DOTALL)

# Nothing attaches to these, except to the few that begin a keycap or a line end.
_COMPLETE = re.compile(r"[\n\t -~](?<![0-9#*])\Z")


class VisibleStream:
    """Holds back the last character, or an unfinished sequence, for as long as more of it may come."""

    def __init__(self) -> None:
        self._held = ""

    def push(self, text: str) -> str:
        """What can be shown now, with this piece added."""
        text = self._held + text
        end = len(text) if _COMPLETE.search(text) else max((cut.start() for cut in _CUT.finditer(text)), default=0)
        self._held = text[end:]
        return visible(text[:end])

    def flush(self) -> str:
        """What was held back: nothing more comes."""
        rest, self._held = visible(self._held), ""
        return rest
