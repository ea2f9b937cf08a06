"""What a person, a model or a file wrote, made safe to look at: nothing in it moves, hides or reorders anything.

Controls, escapes, bidi controls, invisible characters and half characters become visible symbols. Newlines and tabs
stay. What joins the parts of an emoji, or shapes the letters of a script that needs it, stays exactly there.

Meant for text as a whole: a pair that two calls tear apart (CR LF, the parts of an emoji) is not recognised.
"""

from __future__ import annotations

import re

_JOINERS = "\u200c\u200d"

# Letters and marks of scripts in which a joiner between two of them changes how they are written: Arabic and its
# supplements, Syriac to Thaana and NKo, the scripts of India and Sri Lanka, Tibetan, Myanmar, Khmer, Mongolian.
_SHAPED = (
    "\u0620-\u0669\u066e-\u06d3\u06d5-\u06dc\u06df-\u06ff\u0710-\u085b\u0860-\u0887\u0889-\u08e1\u08e3-\u0dff"
    "\u0f00-\u109f\u1780-\u17b3\u17b6-\u17d3\u1820-\u18aa\ufb50-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc"
)

# Pictographs: what an emoji sequence is made of. Wide ranges are enough, since joining them hides no letter.
_PICTURE = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u231a-\u23ff\u24c2\u25aa-\u25fe\u2600-\u27bf"
    "\u2934\u2935\u2b05-\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_SKIN = "\U0001f3fb-\U0001f3ff"
_ONE_EMOJI = f"[{_PICTURE}](?:[\ufe0e\ufe0f]|[{_SKIN}])?"

# The flags of England, Scotland and Wales: the only ones written with tags.
_TAGGED_FLAG = "\U0001f3f4(?:{})\U000e007f".format(
    "|".join("".join(chr(0xE0000 + ord(letter)) for letter in code) for code in ("gbeng", "gbsct", "gbwls"))
)

_KEPT = "|".join(
    (
        _TAGGED_FLAG,
        f"{_ONE_EMOJI}(?:\u200d{_ONE_EMOJI})*",
        "[0-9#*]\ufe0f\u20e3",  # keycaps
        "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd][\U000e0100-\U000e01ef]",  # kanji forms
        f"(?<=[{_SHAPED}])[{_JOINERS}](?=[{_SHAPED}])",
        "[\u1820-\u18aa][\u180b-\u180d\u180f]",  # Mongolian forms
    )
)

# Everything that is to be seen: C0 but tab and newline, DEL, C1; soft hyphen, combining grapheme joiner, Arabic
# letter mark, the Hangul fillers, Khmer's invisible vowels, Mongolian selectors; zero-width, bidi, line and paragraph
# separators, invisible operators; surrogates; variation selectors, byte order mark, interlinear and noncharacters;
# musical and shorthand format characters, tags, and all that Unicode sets apart to be ignored.
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000))
)

_SUSPECT = re.compile(f"[{_HIDDEN}]")
_PARTS = re.compile(f"(\r\n)|({_KEPT})|([{_HIDDEN}])")


def visible(text: str) -> str:
    """The text as it may reach a terminal, Markdown, plain text or HTML. `visible(visible(x)) == visible(x)`."""
    return _PARTS.sub(_shown, text) if _SUSPECT.search(text) else text


def _shown(part: re.Match[str]) -> str:
    line_end, kept, hidden = part.groups()
    if hidden is None:
        return "\n" if line_end else str(kept)
    point = ord(hidden)
    if point < 0x20:
        return chr(0x2400 + point)  # the pictures of the C0 controls stand in their order
    return "\u2421" if point == 0x7F else f"⟨U+{point:04X}⟩"
