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
    """Bytes, as `5.90 MB`: in millions, as models are measured everywhere else in the program."""
    if value is None:
        return NOTHING
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{value:,.0f} {unit}" if unit == "B" else f"{_three_digits(value)} {unit}"


def _three_digits(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.2f}" if value < 9.995 else f"{value:,.1f}" if value < 99.95 else f"{value:,.0f}"


def size_of(part: float, whole: float) -> str:
    """`1.20 of 8.33 GB`."""
    amount, unit = size(whole).split(" ")
    scale = {"B": 0, "kB": 1, "MB": 2, "GB": 3}[unit]
    return f"{_three_digits(part / 1000**scale)} of {amount} {unit}"


def held(quant: str, dtype: str, device: str) -> str:
    """How the weights are held: `nf4 · bfloat16 · cuda:0`; what is not quantized has a type and a place alone."""
    return " · ".join([*([] if quant == "none" else [quant]), dtype, device])


def rate(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f} s" if value < 10 else f"{value:,.1f} s"
