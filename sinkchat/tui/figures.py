"""How figures are written on the screen. What means nothing is a dash, never a zero."""

from __future__ import annotations

NOTHING = "–"


def plural(value: int, noun: str, nouns: str = "") -> str:
    """`1 token`, `2,048 tokens`."""
    return f"{value:,} {noun if value == 1 else nouns or noun + 's'}"


def percent(value: float | None) -> str:
    """A share from 0 to 1, as `32.1 %`."""
    return NOTHING if value is None else f"{100 * value:.1f} %"


def nats(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def perplexity(value: float | None) -> str:
    """Three digits or more: `7.83`, `48.2`, `4,210`."""
    if value is None:
        return NOTHING
    if value >= 1e7:
        return f"{value:.1e}"
    return f"{value:,.2f}" if value < 10 else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def size(value: float | None) -> str:
    """Bytes, as `5.63 MiB`."""
    if value is None:
        return NOTHING
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.2f} {unit}"


def size_of(part: float, whole: float) -> str:
    """`1.20 of 7.76 GiB`."""
    amount, unit = size(whole).split(" ")
    scale = {"B": 0, "KiB": 1, "MiB": 2, "GiB": 3}[unit]
    return f"{part / 1024**scale:,.2f} of {amount} {unit}"


def rate(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f} s" if value < 10 else f"{value:,.1f} s"
