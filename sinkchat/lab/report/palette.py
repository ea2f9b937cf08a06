"""The colours of a report: one for each kind of policy, everywhere the same, in a light and a dark theme.

The full cache is drawn in ink, sinks in blue (the more, the further from the paper, and never so far as to be taken
for ink), no sinks in a warning orange, recompute in green: hues that stay apart for people who see red and green
alike. What is varied beside the policy is told by dashes, never by colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from sinkchat.lab.results import Evaluation, Rule

STEPS = 6
"""Blues for different numbers of sinks."""
LEVELS = 20
"""Shades of a head map; each is 5 % of attention, the lowest is the paper of the map itself."""

LIGHT = {
    "paper": "#ffffff",
    "raised": "#f5f7f9",
    "ink": "#1a1f26",
    "muted": "#56606c",
    "grid": "#e1e6eb",
    "axis": "#808b97",
    "full": "#1a1f26",
    "window": "#cf4a0a",
    "recompute": "#00806a",
    "s0": "#3f97d6",
    "s1": "#2f84c8",
    "s2": "#2273bb",
    "s3": "#1763ad",
    "s4": "#0f529c",
    "s5": "#08418a",
}
DARK = {
    "paper": "#12161b",
    "raised": "#1a2027",
    "ink": "#e7ebf0",
    "muted": "#a0abb8",
    "grid": "#2a323b",
    "axis": "#6d7986",
    "full": "#e7ebf0",
    "window": "#ff8a4a",
    "recompute": "#3fc8a2",
    "s0": "#2f7fd0",
    "s1": "#3f8ddc",
    "s2": "#519be6",
    "s3": "#65a9ef",
    "s4": "#7ab7f6",
    "s5": "#91c5fb",
}
_HEAT = {"light": ("#edf1f5", "#4a9fdc", "#0b2a54"), "dark": ("#202832", "#2f7cc4", "#eaf5ff")}


def heat(theme: str) -> list[str]:
    """Colours of the levels 0..LEVELS of a head map, even steps of lightness as the eye sees it."""
    low, middle, high = _HEAT[theme]
    half = LEVELS / 2
    return [
        _mixed(low, middle, level / half) if level <= half else _mixed(middle, high, level / half - 1)
        for level in range(LEVELS + 1)
    ]


def variables(theme: str) -> str:
    """CSS custom properties of a theme."""
    colours = LIGHT if theme == "light" else DARK
    parts = [f"--{name}:{colour}" for name, colour in colours.items()]
    return ";".join([*parts, *(f"--h{level}:{colour}" for level, colour in enumerate(heat(theme)))])


def classes() -> str:
    """CSS rules that give a drawn thing the colour of its policy, as `--c`, and its dashes."""
    kinds = ["full", "window", "recompute", *(f"s{step}" for step in range(STEPS))]
    rules = [f".k-{kind}{{--c:var(--{kind})}}" for kind in kinds]
    rules += [f".h{level}{{fill:var(--h{level})}}" for level in range(LEVELS + 1)]
    rules += [
        ".k-join,.chance{--c:var(--axis)}",
        ".d-absolute{stroke-dasharray:6 3}",
        ".d-newlines{stroke-dasharray:1.5 3}",
        ".d-random{stroke-dasharray:8 3 1.5 3}",
    ]
    return "".join(rules)


class Colours:
    """The classes of each rule of one evaluation. The blues are dealt out over the numbers of sinks that occur."""

    def __init__(self, evaluation: Evaluation) -> None:
        rules: Sequence[Rule] = [
            *(run.rule for run in evaluation.runs),
            *(drawn.rule for drawn in evaluation.generation),
            *(asked.rule for asked in evaluation.recall),
        ]
        self._sinks = sorted({rule.sinks for rule in rules if rule.policy == "sinks"})

    def of(self, rule: Rule) -> str:
        """Class names: colour and dashes."""
        kind = f"k-s{self._step(rule.sinks)}" if rule.policy == "sinks" else f"k-{rule.policy}"
        if rule.positions == "absolute":
            return f"{kind} d-absolute"
        return kind if rule.sink_tokens == "text" else f"{kind} d-{rule.sink_tokens}"

    def _step(self, sinks: int) -> int:
        if sinks not in self._sinks or len(self._sinks) == 1:
            return 2
        return round(self._sinks.index(sinks) * (STEPS - 1) / (len(self._sinks) - 1))


def _mixed(start: str, end: str, part: float) -> str:
    """Between two colours in Oklab (Ottosson 2020), where equal steps look equal."""
    first, last = _oklab(start), _oklab(end)
    lightness, a, b = (x + (y - x) * part for x, y in zip(first, last, strict=True))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    return "#" + "".join(f"{_encoded(value):02x}" for value in linear)


def _oklab(colour: str) -> tuple[float, float, float]:
    red, green, blue = (_decoded(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    medium = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def _decoded(byte: int) -> float:
    value = byte / 255
    return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)


def _encoded(value: float) -> int:
    value = min(1.0, max(0.0, value))
    return round(255 * (12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055))
