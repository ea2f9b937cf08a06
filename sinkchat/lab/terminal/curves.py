"""Loss over position in a terminal, and how far above the full cache's it lies: each line carries letters, and the
legend says whose they are, so that colour may be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sinkchat.lab import order
from sinkchat.lab.results import Evaluation, Rule, Run
from sinkchat.lab.telling import apart, numerals, scale, smooth
from sinkchat.lab.terminal.braille import Cell, Trace, plot, row_of
from sinkchat.lab.terminal.columns import folded

AXIS = 7
"""Cells left of a plot."""
HEIGHT, LOW = 14, 8
"""Rows of a plot of losses, and of what they are above the full cache's."""
DRAWN = 6
"""Lines of a plot; of more runs the most telling are drawn."""

_COLOURS = {"full": "1", "window": "33", "recompute": "32", "sinks": "36"}
_SPARE = "abcdeghijklmnopqstuvxyzABCDEGHIJKLMNOPQSTUVXYZ"


def curves(evaluation: Evaluation, width: int, *, color: bool = False, ascii: bool = False) -> str:
    """Loss over position, a plot for each window, and below it what is above the full cache's, in lines of at most
    `width` cells (20 or more)."""
    width = max(20, width)
    parts = []
    for window in order.windows([run.rule for run in evaluation.runs]):
        runs = [run for run in order.of_window(evaluation, window) if run.curve]
        for title, shown in order.panels(runs, window):
            parts.append(_panel(evaluation, shown, f"Loss over position: {title}", width, color, ascii))
    if not parts:
        full = [run for run in evaluation.runs if run.curve]
        if not full:
            return "No text was read, so there is no curve."
        parts.append(_panel(evaluation, full, "Loss over position: full cache", width, color, ascii))
    return "\n\n".join(parts)


def _panel(evaluation: Evaluation, runs: Sequence[Run], title: str, width: int, color: bool, ascii: bool) -> str:
    chosen = order.telling(runs, DRAWN)
    span = smooth.span_of(max(len(run.curve) for run in chosen))
    letters = _letters([run.rule for run in chosen])
    traces = [
        Trace(letter, smooth.smoothed(run, span), _COLOURS[run.rule.policy])
        for letter, run in zip(letters, chosen, strict=True)
    ]
    last = max(run.tokens for run in chosen)
    up = scale.linear([value for trace in traces for _, value in trace.points], "", room=4)
    across = scale.tokens(last, room=_places(width))
    first = min((run.first_eviction for run in chosen if run.first_eviction is not None), default=None)
    height = HEIGHT if width >= 60 else 10
    lines = [*folded(title, width), *_framed(traces, across, up, width, height, first, color, ascii)]
    if first is not None:
        column = round(across.share(first) * (width - AXIS - 1))
        lines.append(_pointed(f"first eviction, {first:,}", AXIS + column, width, ascii))
    lines += _legend(letters, chosen, width, color)
    told = f"Means over about {span * evaluation.bin:,} tokens, before and after the first eviction apart."
    if len(chosen) < len(runs):
        more = len(runs) - len(chosen)
        told += f" {more} more {'run is' if more == 1 else 'runs are'} not drawn; the table has all."
    lines += folded(told, width)
    lines += _above(evaluation, runs, dict(zip(letters, chosen, strict=True)), span, width, color, ascii)
    return "\n".join(numerals.plain(line) if ascii else line for line in lines)


def _above(
    evaluation: Evaluation,
    runs: Sequence[Run],
    lettered: Mapping[str, Run],
    span: int,
    width: int,
    color: bool,
    ascii: bool,
) -> list[str]:
    """The same lines, less the full cache's; nothing where it is no control."""
    curves = {run.rule: curve for run, curve in apart.compared(evaluation, runs)}
    shown = {letter: run for letter, run in lettered.items() if run.rule in curves}
    if not shown:
        return []
    traces = [
        Trace(letter, smooth.line(curves[run.rule], run.first_eviction, span), _COLOURS[run.rule.policy])
        for letter, run in shown.items()
    ]
    up = scale.linear([0.0, *(value for trace in traces for _, value in trace.points)], "", room=3)
    last = apart.last_compared(evaluation, runs, list(shown.values()))
    across = scale.tokens(last, room=_places(width))
    first = min(run.first_eviction for run in shown.values() if run.first_eviction is not None)
    plotted = _framed(traces, across, up, width, LOW, first, color, ascii, level=0.0)
    return ["", *folded("Loss above the full cache's", width), *plotted]


def _places(width: int) -> int:
    """How many labels the x axis has room for."""
    return max(2, min(6, (width - AXIS) // 14))


def _framed(
    traces: Sequence[Trace],
    across: scale.Axis,
    up: scale.Axis,
    width: int,
    height: int,
    mark: int | None,
    color: bool,
    ascii: bool,
    level: float | None = None,
) -> list[str]:
    """A plot between its axes, its unit above it."""
    columns = width - AXIS
    cells = plot(traces, across, up, columns, height, [] if mark is None else [float(mark)], ascii, level)
    labels = _ticks(up, height)
    lines = ["nats"]
    for number, row in enumerate(cells):
        label = labels.get(number, "")
        edge = ("+" if label else "|") if ascii else ("┤" if label else "│")
        lines.append(f"{label:>{AXIS - 1}}{edge}{_painted(row, color)}".rstrip())
    lines.append(" " * (AXIS - 1) + ("+" + "-" * columns if ascii else "└" + "─" * columns))
    return [*lines, _below(across, columns)]


def _letters(rules: Sequence[Rule]) -> list[str]:
    """A letter for each rule: `f`ull, `w`indow, `r`ecompute, the number of sinks; what is taken gets another one."""
    spare = iter(_SPARE)
    given: list[str] = []
    for rule in rules:
        own = str(rule.sinks) if rule.policy == "sinks" else rule.policy[0]
        given.append(own if len(own) == 1 and own not in given else next(spare))
    return given


def _ticks(up: scale.Axis, height: int) -> dict[int, str]:
    """Row to label; where two fall into one row, the lower value is told."""
    return {row_of(value, up, height): label for value, label in reversed(up.ticks)}


def _below(across: scale.Axis, columns: int) -> str:
    """The labels of the x axis, none on another and none beyond the end."""
    line = ""
    for value, label in across.ticks:
        start = AXIS + round(across.share(value) * (columns - 1)) - (len(label) // 2 if value else 0)
        if (not line or start > len(line)) and start + len(label) <= AXIS + columns:
            line = line.ljust(start) + label
    return line


def _pointed(words: str, column: int, width: int, ascii: bool) -> str:
    """Words below a place, beside a mark that points at it."""
    mark = "^" if ascii else "↑"
    if column + 2 + len(words) <= width:
        return " " * column + f"{mark} {words}"
    return f"{words} {mark}".rjust(column + 1)


def _legend(letters: Sequence[str], runs: Sequence[Run], width: int, color: bool) -> list[str]:
    lines: list[str] = []
    used = width
    for letter, run in zip(letters, runs, strict=True):
        first, *more = folded(order.short_name(run.rule), width - 3)
        entry = f"{_paint(letter, _COLOURS[run.rule.policy], color)}: {first}"
        size = 3 + len(first)
        if used + 3 + size <= width:
            lines[-1] += f"   {entry}"
            used += 3 + size
        else:
            lines.append(entry)
            used = size
        if more:
            lines += [f"   {line}" for line in more]
            used = width
    return lines


def _painted(row: Sequence[Cell], color: bool) -> str:
    return "".join(_paint(sign, colour, color) for sign, colour in row)


def _paint(sign: str, colour: str, color: bool) -> str:
    return f"\x1b[{colour}m{sign}\x1b[0m" if color and colour else sign
