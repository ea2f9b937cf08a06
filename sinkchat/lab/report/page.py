"""An evaluation as one HTML document: no script, no network, light and dark, on a desk, on a phone and on paper."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from html import escape

from sinkchat.chat.printable import visible
from sinkchat.lab import order
from sinkchat.lab.report import tables
from sinkchat.lab.report.cache import memory_charts, share_charts
from sinkchat.lab.report.definitions import DEFINITIONS
from sinkchat.lab.report.frame import WINDOWS, Figure, figure
from sinkchat.lab.report.heads import HATCH, legend, row_of_maps
from sinkchat.lab.report.losses import loss_charts
from sinkchat.lab.report.palette import Colours
from sinkchat.lab.report.recall import recall_charts
from sinkchat.lab.report.stylesheet import stylesheet
from sinkchat.lab.report.sweeps import distance_chart, sinks_chart
from sinkchat.lab.results import Evaluation
from sinkchat.lab.telling import finding

MAPPED = 6
"""Runs whose head maps are shown."""


def html(evaluation: Evaluation) -> str:
    """The whole document. Every figure in it is in the records, or computed from them alone."""
    colours = Colours(evaluation)
    parts = [
        _top(evaluation),
        _runs(evaluation, colours),
        _section("Loss over position", loss_charts(evaluation, colours), _windows_shown(evaluation)),
        _section("Sweeps", [*sinks_chart(evaluation, colours), *distance_chart(evaluation, colours)]),
        _section(
            "What the cache holds, and what the sinks take",
            [*memory_charts(evaluation, colours), *share_charts(evaluation, colours)],
        ),
        _head_maps(evaluation),
        _generation(evaluation, colours),
        _recall(evaluation, colours),
        _reading(),
        _repeating(evaluation),
    ]
    title = escape(visible(f"sinkchat eval: {evaluation.subject.model}"))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{stylesheet()}</style>\n</head>\n<body>\n{HATCH}\n<main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _top(evaluation: Evaluation) -> str:
    subject = evaluation.subject
    model = subject.model + (f" at {subject.revision}" if subject.revision else "")
    quant = "not quantized" if subject.quant == "none" else f"quantized: {subject.quant}"
    facts = (
        ("Model", f"{model} ({subject.family}, {subject.layers:,} layers of {subject.heads:,} heads)"),
        ("Trained length", f"{subject.trained_length:,} tokens"),
        ("Weights", f"{subject.dtype}, {quant}"),
        ("Device", subject.device),
        (
            "Text",
            f"{subject.text_name}, {subject.text_tokens:,} tokens in all, up to {evaluation.tokens:,} of them read",
        ),
        ("SHA-256 of the text", subject.text_sha256),
        ("Programs", evaluation.program),
        ("Measured", evaluation.created),
    )
    listed = "".join(f"<dt>{escape(term)}</dt><dd>{escape(visible(told))}</dd>" for term, told in facts)
    words = [f'<p class="over">sinkchat eval · {escape(visible(subject.model))}</p>']
    words.append(f"<h1>{escape(visible(finding.headline(evaluation)))}</h1>")
    if missing := finding.incomplete(evaluation):
        words.append(f'<p class="warn">{escape(missing)}</p>')
    if compared := finding.control(evaluation):
        words.append(f'<p class="note">{escape(compared)}</p>')
    return (
        f"<header>{''.join(words)}</header>"
        f"<section><h2>What was evaluated</h2><dl class='facts'>{listed}</dl></section>"
    )


def _runs(evaluation: Evaluation, colours: Colours) -> str:
    if not evaluation.runs:
        return ""
    return (
        f"<section><h2>Runs</h2>{tables.quality(evaluation, colours)}{tables.cost(evaluation, colours)}"
        "<p class='note'>– stands where there is nothing to tell: nothing was evicted, or there is no control.</p>"
        "</section>"
    )


def _section(title: str, figures: Sequence[Figure], note: str = "") -> str:
    if not figures:
        return ""
    told = f"<p>{escape(note)}</p>" if note else ""
    return f"<section><h2>{escape(title)}</h2>{told}{''.join(map(figure, figures))}</section>"


def _windows_shown(evaluation: Evaluation) -> str:
    windows = order.windows([run.rule for run in evaluation.runs])
    if len(windows) <= WINDOWS:
        return ""
    return f"Of {len(windows)} windows {WINDOWS} have charts, evenly from the smallest to the largest."


def _head_maps(evaluation: Evaluation) -> str:
    mapped = [run for run in evaluation.runs if run.head_maps or run.sink_share_heads is not None]
    shown = order.telling(mapped, MAPPED)
    rows = []
    for run in shown:
        whose = "sinks" if run.rule.sinks else f"{run.watched:,} oldest entries"
        rows.append(f"<h3>{escape(run.rule.name)}: share of the {whose}</h3>{row_of_maps(run)}")
    if not rows:
        return ""
    rule = ""
    if len(shown) < len(mapped):
        rule = (
            f" Shown are {len(shown)} of {len(mapped)} runs: of each policy and kind of positions, the ones with the "
            "lowest and the highest perplexity after eviction, then those that come first in the table."
        )
    return (
        "<section><h2>Head maps over time</h2><p>Layers downwards, heads to the right; one map for the queries at "
        f"the positions above it.{rule}</p>{legend()}{''.join(rows)}</section>"
    )


def _generation(evaluation: Evaluation, colours: Colours) -> str:
    if not evaluation.generation:
        return ""
    return (
        "<section><h2>Free generation</h2><p>Each rule goes on from the same prompt, stops ignored; means over the "
        "seeds. In loops: tokens that continue a piece of at most 64 tokens, repeated at least four times. A model's "
        "loss on what it drew itself says little; the full cache's on the same tokens says how likely the text is to "
        f"a reader who has all of it.</p>{tables.generation(evaluation, colours)}</section>"
    )


def _recall(evaluation: Evaluation, colours: Colours) -> str:
    if not evaluation.recall:
        return ""
    figures = "".join(map(figure, recall_charts(evaluation, colours)))
    words = escape(finding.recall(evaluation)).replace(" %", "\u00a0%")
    return f"<section><h2>Recall</h2><p>{words}</p>{figures}{tables.recall(evaluation, colours)}</section>"


def _reading() -> str:
    terms = "".join(f"<dt>{escape(term)}</dt><dd>{escape(told)}</dd>" for term, told in DEFINITIONS)
    return f"<section><h2>How to read this</h2><dl class='terms'>{terms}</dl></section>"


def _repeating(evaluation: Evaluation) -> str:
    if not evaluation.command:
        return ""
    command = escape(visible(shlex.join(evaluation.command)))
    return f"<section><h2>How to repeat it</h2><pre>{command}</pre></section>"
