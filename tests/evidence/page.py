"""docs/evidence.md, written from what `tests.evidence.runs` measured: the figures in its tables are not typed by hand."""

from __future__ import annotations

import argparse
import math
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

from sinkchat.lab.files import document
from sinkchat.lab.results import Evaluation, Generation, Run
from sinkchat.lab.telling import numerals
from sinkchat.lab.terminal.curves import curves
from tests.evidence.runs import RUNS, command

STRETCHES = ((513, 4096), (4096, 8192), (8192, 10_000), (10_000, 12_000), (12_000, 14_000))


def page(folder: Path) -> str:
    read = {name: document.read(folder / f"{name}.json") for name in RUNS}
    parts = [
        _head(read["sweep"]),
        _sweep(read["sweep"]),
        _curves(read["sweep"]),
        _absolute(read["absolute"]),
        _tokens(read["tokens"]),
        _past(read["past"]),
        _long(read["long"], folder / "long.rss"),
        _recall(read["recall"]),
        _writing(read["writing"]),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _head(evaluation: Evaluation) -> str:
    subject = evaluation.subject
    return f"""# Evidence

What a bounded cache does to the small model, measured with `sinkchat eval`; [evaluation.md](evaluation.md) says what each
figure means. Every table below was written by `python -m tests.evidence.page`, from files that
`python -m tests.evidence.runs FOLDER` made.

{subject.model} ({subject.layers} layers of {subject.heads} heads, trained to {subject.trained_length:,} positions), \
{subject.dtype}, not quantized, on two CPU cores; {_program(evaluation)}. The text is \
that of `{subject.text_name}`, {subject.text_tokens:,} tokens, SHA-256 `{subject.text_sha256[:16]}…`: it differs between \
versions of Python. Speeds are not given: they depend on the machine."""


def _program(evaluation: Evaluation) -> str:
    named = evaluation.program
    return named if "Python" in named else f"{named}, Python {platform.python_version()}"


def _sweep(evaluation: Evaluation) -> str:
    rows = [
        (
            run.rule.name,
            _ppl(run.loss_before),
            _ppl(run.loss_after),
            numerals.ratio(run.loss_same_positions, run.loss_full_same_positions),
            numerals.slope(run.slope_over_full, run.slope_over_full_error),
            numerals.count(run.collapse_at),
            numerals.count(run.kv_entries_max),
            numerals.megabytes(run.kv_bytes),
            numerals.count(run.evictions),
            numerals.count(run.recomputed or None),
            numerals.percent(run.sink_share_mean),
        )
        for run in evaluation.runs
    ]
    names = (
        *("rule", "ppl before", "ppl after", "× full", "slope against full, nats / 1,000", "collapse at"),
        *("entries at most", "MB", "evicted", "run again", "share"),
    )
    return f"""## How many sinks

    {command("sweep")}

Before and after the first eviction, {evaluation.tokens:,} tokens. "× full" is over the same tokens. The share is that of
the sinks; without sinks, of the four oldest entries that are held.

{_table(names, rows)}

One sink is enough for this model. What the window without sinks loses it loses at once, and does not get back: its losses
part from the full cache's with the first eviction. `recompute` keeps to the full cache's losses as far as its shrinking
sight lets it, and pays by running nearly every token twice."""


def _curves(evaluation: Evaluation) -> str:
    return f"```\n{curves(evaluation, 100)}\n```".replace("\n\n```", "\n```")


def _absolute(evaluation: Evaluation) -> str:
    rows = [
        (
            run.rule.positions if run.rule.policy != "full" else "full cache",
            numerals.count(run.rule.start_position) if run.rule.positions == "absolute" else "",
            _ppl(run.loss_after if run.loss_after is not None else run.loss_mean),
            numerals.ratio(run.loss_same_positions, run.loss_full_same_positions),
            numerals.percent(run.sink_share_mean),
        )
        for run in evaluation.runs
    ]
    return f"""## Absolute positions

    {command("absolute")}

Four sinks, window 512. With `absolute` a query is placed by its place in the whole sequence: the sinks move away as the
text goes on. Here they begin that far away, instead of after hours of reading. With `cache` there is no distance: the
query stands right behind the window's other entries.

{_table(("positions", "tokens between sinks and text", "ppl after", "× full", "share of the sinks"), rows)}"""


def _tokens(evaluation: Evaluation) -> str:
    rows = [
        (
            run.rule.name,
            _ppl(run.loss_after),
            numerals.ratio(run.loss_same_positions, run.loss_full_same_positions),
            numerals.percent(run.sink_share_mean),
        )
        for run in evaluation.runs
        if run.rule.policy != "full"
    ]
    return f"""## What the sinks say does not matter

    {command("tokens")}

The first tokens of the text are replaced by line breaks, or by tokens drawn at random, as Xiao et al. (2023) did.

{_table(("rule", "ppl after", "× full", "share of the sinks"), rows)}"""


def _past(evaluation: Evaluation) -> str:
    names = ("rule", *(f"{first:,} to {last - 1:,}" for first, last in STRETCHES))
    rows = [
        (run.rule.name, *(_ppl(_mean(run, evaluation.bin, first, last)) for first, last in STRETCHES))
        for run in evaluation.runs
    ]
    return f"""## Past the trained length

    {command("past")}

Perplexity by position; a point of the curve ({evaluation.bin} tokens) counts where it begins. The full cache is a control
up to {evaluation.subject.trained_length:,} tokens and no further. A bounded cache does not know how far it has come.

{_table(names, rows)}"""


def _long(evaluation: Evaluation, memory: Path) -> str:
    (run,) = evaluation.runs
    tenth = evaluation.tokens // 10
    rows = []
    for number in range(10):
        first, last = max(number * tenth, 513), (number + 1) * tenth
        held = [point.kv_entries for point in run.curve if first <= point.position < last]
        share = [point.sink_share or 0.0 for point in run.curve if first <= point.position < last]
        loss = _mean(run, evaluation.bin, first, last)
        rows.append((f"{first:,}", _ppl(loss), f"{max(held):,}", numerals.percent(sum(share) / len(share))))
    kilobytes = [int(line.split()[1]) for line in memory.read_text().splitlines()]
    reading = kilobytes[len(kilobytes) // 5 :]  # the model is loaded by then
    first, last = reading[: len(reading) // 10 + 1], reading[-(len(reading) // 10) - 1 :]
    return f"""## {evaluation.tokens:,} tokens

    {command("long")}

{_table(("from position", "perplexity", "entries", "share of the sinks"), rows)}

The text is easier or harder from stretch to stretch. A straight line through the losses of all {run.tokens - 513:,} tokens
past the first eviction has a slope of {numerals.slope(run.slope_after, run.slope_error)} nats per 1,000 tokens. Keys and
values took {numerals.megabytes(run.kv_bytes)} MB throughout, and the whole process {_megabytes(first)} MB in its first
tenth and {_megabytes(last)} MB in its last.

A million tokens take ten times as long, and some 70 bytes each to keep their losses and shares; the text has to be that
long:

    cat /usr/lib/python3*/*.py /usr/lib/python3*/*/*.py | \\
      sinkchat eval - --policies sinks --window 512 --tokens 1000000 --json million.json --html million.html"""


def _recall(evaluation: Evaluation) -> str:
    rules = list(dict.fromkeys(one.rule for one in evaluation.recall))
    distances = sorted({one.distance for one in evaluation.recall})
    rows = []
    for rule in rules:
        cells = []
        for distance in distances:
            ones = [one for one in evaluation.recall if (one.rule, one.distance) == (rule, distance)]
            cells.append("; ".join(f"{one.right} of {one.asked}{'' if one.visible else ' (gone)'}" for one in ones))
        rows.append((rule.name, *cells))
    losses = [
        (
            rule.name,
            *(
                numerals.nats(
                    _weighted(
                        [
                            (one.loss, one.asked)
                            for one in evaluation.recall
                            if one.rule == rule and one.visible == visible
                        ]
                    ),
                    2,
                )
                for visible in (True, False)
            ),
        )
        for rule in rules
    ]
    chance = max(one.chance for one in evaluation.recall)
    return f"""## Sinks are not memory

    {command("recall")}

Facts in the text, `name: word`, and asked for once, so many tokens later; right is who finds the word the likeliest of
{round(1 / chance)}. Window 512. "Gone": the fact had left the cache.

{_table(("rule", *(f"{distance:,} tokens" for distance in distances)), rows)}

The loss of the right word, in nats, while the fact was held and when it was gone:

{_table(("rule", "held", "gone"), losses)}"""


def _writing(evaluation: Evaluation) -> str:
    rules = list(dict.fromkeys(one.rule for one in evaluation.generation))
    rows = []
    for rule in rules:
        ones = [one for one in evaluation.generation if one.rule == rule]
        rows.append(
            (
                rule.name,
                f"{len(ones)} × {ones[0].tokens}",
                numerals.percent(_mean_of([one.loop_rate for one in ones])),
                *(f"{_mean_of([one.distinct[n] or 0.0 for one in ones]):.2f}" for n in (1, 3)),
                numerals.nats(_mean_of([one.loss for one in ones if one.loss is not None]), 2),
                numerals.nats(_mean_of([one.loss_full for one in ones if one.loss_full is not None]), 2),
            )
        )
    names = ("rule", "texts × tokens", "in a loop", "distinct 1-grams", "3-grams", "loss", "under the full cache")
    ends = "\n\n".join(
        f"**{one.rule.name}:** … {_end(one)}"
        for rule in rules
        for one in evaluation.generation
        if one.rule == rule and one.seed == 1
    )
    return f"""## Writing freely

    {command("writing")}

The model's own sampling, its stop tokens left out. The loss of a model's own text tells little by itself; what the full
cache says of the same tokens tells more: a text that fell apart is unlikely to whoever remembers its beginning.

{_table(names, rows)}

How the texts of seed 1 end:

{ends}"""


def _end(one: Generation) -> str:
    return " ".join(one.text[-240:].split()).replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")


def _mean(run: Run, size: int, first: int, last: int) -> float | None:
    """Over the points that begin at first..last-1, each with as many tokens as it has."""
    points = [point for point in run.curve if first <= point.position < last]
    return _weighted([(point.loss, min(size, run.tokens - point.position)) for point in points])


def _weighted(values: Sequence[tuple[float, int]]) -> float | None:
    count = sum(weight for _, weight in values)
    return math.fsum(value * weight for value, weight in values) / count if count else None


def _mean_of(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _ppl(loss: float | None) -> str:
    return numerals.perplexity(loss)


def _megabytes(kilobytes: Sequence[int]) -> str:
    return f"{_mean_of([value * 1024 / 1e6 for value in kilobytes]):,.0f}"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def lines() -> Iterator[str]:
        yield "| " + " | ".join(names) + " |"
        yield "|---|" + "--:|" * (len(names) - 1)
        for row in rows:
            yield "| " + " | ".join(row) + " |"

    return "\n".join(lines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    print(page(parser.parse_args().folder), end="")


if __name__ == "__main__":
    main()
