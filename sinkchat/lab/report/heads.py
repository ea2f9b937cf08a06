"""Head maps as inline SVG: layers downwards, heads to the right, a shade for the attention that each gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from sinkchat.engine.events import Heads
from sinkchat.lab.report import lettering
from sinkchat.lab.report.palette import LEVELS
from sinkchat.lab.report.svg import SIZE, text
from sinkchat.lab.results import HeadMap, Run
from sinkchat.lab.telling import numerals

MOST = 6
"""Maps of a row; of more, as many are shown as lie evenly between the first and the last."""

HATCH = (
    '<svg width="0" height="0" class="defs" aria-hidden="true"><defs><pattern id="hatch" width="4" height="4" '
    'patternUnits="userSpaceOnUse"><path class="hatch" d="M-1 1L1 -1M0 4L4 0M3 5L5 3"/></pattern></defs></svg>'
)
"""Once in a document: the pattern of a layer that has no sinks."""


def head_map(heads: Heads, title: str, *, described: str) -> str:
    """One map, `[layers][heads]` of shares 0..1; None and nan are hatched."""
    rows, columns = len(heads), max((len(row) for row in heads), default=0)
    if not rows or not columns:
        return ""
    wide, high = max(2.0, min(13.0, 118 / columns)), max(2.0, min(9.0, 170 / rows))
    left = lettering.width(str(rows - 1), 10) + 6
    width = max(left + wide * columns + 1, lettering.width(title, 10) + left)
    top, bottom = 16.0, 16.0
    height = top + high * rows + bottom
    parts = [
        f'<svg class="map" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.1f} {height:.1f}" '
        f'role="img" aria-label="{escape(described)}"><g class="small">',
        text(left, 10, title),
        text(left - 4, top + min(9.0, high + 1), "0", "end"),
    ]
    if rows * high > 24:
        parts.append(text(left - 4, top + rows * high, str(rows - 1), "end"))
    parts.append(text(left, height - 3, "0"))
    if columns * wide > 40:
        parts.append(text(left + columns * wide, height - 3, str(columns - 1), "end"))
    parts.append(
        f'</g><rect class="h0" x="{left:.1f}" y="{top:g}" width="{wide * columns:.1f}" height="{high * rows:.1f}"/>'
    )
    for kind, drawn in _cells(heads, columns, left, top, wide, high).items():
        parts.append(f'<path class="{kind}" d="{drawn}"/>')
    parts.append("</svg>")
    return "".join(parts)


def _cells(heads: Heads, columns: int, left: float, top: float, wide: float, high: float) -> dict[str, str]:
    """One path for each shade: neighbours of the same shade are one rectangle."""
    paths: dict[str, list[str]] = {}
    for layer, row in enumerate(heads):
        kinds = [_kind(share) for share in row] + ["none"] * (columns - len(row))
        start = 0
        for head in range(1, columns + 1):
            if head < columns and kinds[head] == kinds[start]:
                continue
            if kinds[start] != "h0":
                x, y, long = left + start * wide, top + layer * high, (head - start) * wide
                paths.setdefault(kinds[start], []).append(f"M{x:.2f} {y:.2f}h{long:.2f}v{high:.2f}h{-long:.2f}z")
            start = head
    return {kind: "".join(parts) for kind, parts in sorted(paths.items())}


def _kind(share: float | None) -> str:
    if share is None or math.isnan(share):
        return "none"
    return f"h{round(min(1.0, max(0.0, share)) * LEVELS)}"


def legend() -> str:
    """The scale of all maps."""
    wide, height, left = 9.0, 34.0, 14.0
    end = left + wide * (LEVELS + 1)
    none = "layer without sinks"
    width = end + 40 + 16 + lettering.width(none, SIZE)
    parts = [
        f'<svg class="chart legend" width="{width:.0f}" viewBox="0 0 {width:.1f} {height:g}" role="img" '
        'aria-label="Scale: from 0 % to 100 % of a head\'s attention; hatched: a layer without sinks">',
        *(
            f'<rect class="h{at}" x="{left + wide * at:g}" y="2" width="{wide:g}" height="12"/>'
            for at in range(LEVELS + 1)
        ),
        *(text(left + wide * (LEVELS * part + 0.5), 29, f"{100 * part:.0f} %", "middle") for part in (0.0, 0.5, 1.0)),
        f'<rect class="none" x="{end + 40:g}" y="2" width="16" height="12"/>',
        text(end + 62, 12, none),
        "</svg>",
    ]
    return "".join(parts)


def picked(maps: Sequence[HeadMap]) -> list[HeadMap]:
    """At most MOST of them, the first and the last always."""
    if len(maps) <= MOST:
        return list(maps)
    return [maps[round(at * (len(maps) - 1) / (MOST - 1))] for at in range(MOST)]


def row_of_maps(run: Run) -> str:
    """The maps of a run over time; where none were kept over time, the one mean over all of it."""
    if run.head_maps:
        shown = [(part.shares, f"{part.first:,} to {part.last:,}") for part in picked(run.head_maps)]
    elif run.sink_share_heads is not None:
        shown = [(run.sink_share_heads, "past the first eviction" if run.evictions else "whole text")]
    else:
        return ""
    maps = (
        head_map(heads, title, described=f"{run.rule.name}: shares by layer and head, {title}; {_summary(heads)}")
        for heads, title in shown
    )
    return f'<div class="maps">{"".join(maps)}</div>'


def _summary(heads: Heads) -> str:
    """What a reader who sees no picture is told of it."""
    known = [
        (share, layer, head)
        for layer, row in enumerate(heads)
        for head, share in enumerate(row)
        if share is not None and not math.isnan(share)
    ]
    if not known:
        return "no layer has sinks"
    share, layer, head = max(known)
    average = numerals.percent(sum(one for one, _, _ in known) / len(known))
    return f"mean {average}, most {numerals.percent(share)} in layer {layer}, head {head}"
