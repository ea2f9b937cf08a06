"""How wide text is in a drawing, without a font at hand: no less than in the wide fonts browsers fall back on."""

from __future__ import annotations

# Widths in thousandths of the font size, of DejaVu Sans, which is about as wide as a fallback gets.
_WIDTHS = {
    **dict.fromkeys("ijl|'", 300),
    **dict.fromkeys(" .,:;!I-ft()[]/", 400),
    **dict.fromkeys('rsz"', 530),
    **dict.fromkeys("mwMW%@", 985),
    **dict.fromkeys("+=−±×<>~", 850),
    **dict.fromkeys("ABCDEGHKNOPQRUVXY&", 760),
}


def width(text: str, size: float) -> float:
    """In the units of `size`; an upper estimate for Latin text, and two thirds of a square more for wide scripts."""
    return size * sum(_WIDTHS.get(sign, 640 if ord(sign) < 0x2E80 else 1050) for sign in text) / 1000


def cut(text: str, size: float, room: float) -> str:
    """The text, or as much of it as fits, with an ellipsis."""
    if width(text, size) <= room:
        return text
    while text and width(text + "…", size) > room:
        text = text[:-1]
    return text.rstrip(" ,") + "…"
