"""How the figures of an evaluation are written, in HTML and in a terminal. What is not there is a dash."""

from __future__ import annotations

import math

MISSING = "–"


def count(value: int | None) -> str:
    """`6,144`"""
    return MISSING if value is None else f"{value:,}"


def nats(value: float | None, digits: int = 3) -> str:
    """A loss: `2.412`."""
    return odd(value) or f"{value:,.{digits}f}".replace("-", "−")


def perplexity(loss: float | None) -> str:
    """exp of a mean loss, to three figures or more: `1.10`, `11.5`, `3,431`, `4.85e8`."""
    if special := odd(loss):
        return special
    assert loss is not None
    return number(math.exp(loss)) if loss < 700 else f"e^{loss:,.0f}"


def ratio(over: float | None, under: float | None) -> str:
    """How many times the one perplexity is of the other, from their losses."""
    return MISSING if over is None or under is None else perplexity(over - under)


def number(value: float | None) -> str:
    """Three figures or more."""
    if special := odd(value):
        return special
    assert value is not None
    size = abs(value)
    if size >= 999_999.5:
        digits, exponent = f"{value:.2e}".split("e")
        return f"{digits}e{int(exponent)}".replace("-", "−")
    text = f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:,.0f}"
    return text.replace("-", "−")


def percent(share: float | None) -> str:
    """A share of 0..1: `32 %`, `3.4 %`."""
    if special := odd(share):
        return special
    assert share is not None
    value = 100 * share
    return f"{value:.1f} %" if 0 < abs(value) < 9.95 else f"{value:.0f} %"


def chance(share: float | None) -> str:
    """What guessing gives: `12.5 %`."""
    return odd(share) or f"{100 * (share or 0.0):.3g} %"


def megabytes(value: int | None) -> str:
    """`11.8`, of 1,000,000 bytes."""
    return MISSING if value is None else f"{value / 1e6:,.1f}" if value >= 1e6 else f"{value / 1e6:.3f}"


def rate(value: float | None) -> str:
    """Tokens a second: `512`, `3.4`."""
    return odd(value) or (f"{value:,.0f}" if (value or 0.0) >= 99.5 else f"{value:.1f}")


def slope(value: float | None, error: float | None) -> str:
    """`+0.012 ± 0.005`, nats per 1,000 tokens, as many decimals as the error needs, at most five."""
    if special := odd(value):
        return special
    assert value is not None
    digits = 3
    if error is not None and math.isfinite(error) and error > 0:
        digits = min(5, max(2, 1 - math.floor(math.log10(error))))
    text = f"{value:+.{digits}f}".replace("-", "−")
    if error is None:
        return text
    return f"{text} ± {odd(error) or f'{error:.{digits}f}'}"


def odd(value: float | None) -> str | None:
    """The word for what is no finite number."""
    if value is None:
        return MISSING
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return None


def plain(text: str) -> str:
    """The same in ASCII, for a terminal that can show no more."""
    for sign, stands in (("−", "-"), ("±", "+/-"), ("∞", "inf"), (MISSING, "-"), ("×", "x"), ("│", "|")):
        text = text.replace(sign, stands)
    return text.encode("ascii", "backslashreplace").decode("ascii")
