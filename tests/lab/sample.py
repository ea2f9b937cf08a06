"""A realistic evaluation out of seeded numbers: what the small model shows, without a model."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

from sinkchat.engine.events import Heads
from sinkchat.lab.results import FULL, Evaluation, Generation, HeadMap, Point, Recall, Rule, Run, Subject

LAYERS, HEADS, TRAINED = 30, 9, 8192
BYTES_PER_ENTRY = LAYERS * 3 * 64 * 2 * 4

SUBJECT = Subject(
    model="SmolLM2-135M-Instruct",
    revision="b179c9523d0e",
    family="llama",
    layers=LAYERS,
    heads=HEADS,
    trained_length=TRAINED,
    dtype="float32",
    quant="none",
    device="cpu",
    text_name="pydoc_data.topics",
    text_sha256="5d1f0c" * 10 + "abcd",
    text_tokens=181_342,
)


def evaluation(
    rules: Sequence[Rule] | None = None,
    *,
    tokens: int = 6144,
    heads: tuple[int, int] = (LAYERS, HEADS),
    maps: int = 5,
    generation: Sequence[Generation] = (),
    recall: Sequence[Recall] = (),
    seed: int = 7,
) -> Evaluation:
    """One run for each rule over the same made-up text."""
    rules = DEFAULT if rules is None else rules
    bin = max(16, -(-tokens // 240))
    subject = replace(SUBJECT, layers=heads[0], heads=heads[1], text_tokens=max(SUBJECT.text_tokens, tokens))
    made = [run(rule, tokens, bin, heads, maps, seed) for rule in rules]
    full = next((one for one in made if one.rule.policy == "full"), None)
    return Evaluation(
        subject=subject,
        tokens=tokens,
        bin=bin,
        created="2026-11-29T20:15:00Z",
        program="sinkchat 0.1.0, torch 2.13.0, transformers 5.24.0",
        command=("sinkchat", "eval", "--window", "256,512", "--sinks", "0,1,2,4,8", "--html", "my report.html"),
        complete=True,
        runs=tuple(compared(one, full) for one in made),
        generation=generation,
        recall=recall,
    )


DEFAULT: Sequence[Rule] = (
    FULL,
    *(
        rule
        for window in (256, 512)
        for rule in (
            Rule("window", window=window),
            *(Rule("sinks", sinks=sinks, window=window) for sinks in (1, 2, 4, 8)),
            Rule("recompute", window=window),
        )
    ),
)


def everything() -> Evaluation:
    """All that a report may have to show at once."""
    absolute = [
        Rule("sinks", "absolute", sinks=4, window=256, start_position=start) for start in (0, 8192, 40_000, 200_000)
    ]
    other = [Rule("sinks", sinks=4, window=512, sink_tokens=tokens) for tokens in ("newlines", "random")]
    near = [Rule("sinks", sinks=4, window=256, start_position=start) for start in (8192, 40_000, 200_000)]
    rules = [*DEFAULT, *absolute, *near, *other]
    shown = [FULL, Rule("window", window=512), Rule("sinks", sinks=4, window=512), Rule("recompute", window=512)]
    return evaluation(
        rules,
        generation=[drawn(rule, seed) for rule in shown for seed in (1, 2, 3)],
        recall=[asked(rule, distance) for rule in shown for distance in (128, 256, 384, 560, 1024, 2048)],
    )


def run(rule: Rule, tokens: int, bin: int, heads: tuple[int, int], maps: int, seed: int) -> Run:
    """What one rule would show. The text's own ups and downs are the same under every rule."""
    read = min(tokens, TRAINED) if rule.policy == "full" else tokens
    text, own = random.Random(seed), random.Random(f"{seed} {rule}")
    window = rule.window
    first = window if window is not None and window < read else None
    worse = harm(rule)
    curve, entries, evicted = [], 0, 0
    for start in range(0, read, bin):
        last = min(start + bin, read) - 1
        common = 2.36 + 0.28 * math.sin(start / 900) + text.gauss(0, 1.5 / math.sqrt(bin))
        if start < 200:
            common += 1.5 * (1 - start / 200)
        past = 0.0 if first is None else max(0.0, min(1.0, (start - first) / 120))
        loss = max(0.2, common + past * (worse + (own.gauss(0, 0.12) if worse else 0.0)))
        entries, evicted = last + 1, 0
        if window is not None and last + 1 > window:
            entries = (
                window if rule.policy != "recompute" else window // 2 + (last + 1 - window) % (window - window // 2)
            )
            evicted = last + 1 - entries
        curve.append(Point(start, loss, entries, evicted, share(rule, start, first) + own.gauss(0, 0.006)))
    before = [point.loss for point in curve if first is None or point.position < first]
    after = [point.loss for point in curve if first is not None and point.position >= first]
    slope, error = line(curve, first)
    watching = first if first is not None else 0
    return Run(
        rule=rule,
        complete=True,
        tokens=read,
        watched=rule.sinks or 4,
        loss_mean=mean([point.loss for point in curve]),
        loss_before=mean(before),
        loss_after=mean(after),
        slope_after=slope,
        slope_error=error,
        loss_same_positions=None,
        loss_full_same_positions=None,
        slope_over_full=None,
        slope_over_full_error=None,
        collapse_at=None,
        first_eviction=first,
        evictions=evicted,
        recomputed=evicted if rule.policy == "recompute" else 0,
        kv_entries_max=min(window or read, read),
        kv_bytes=min(window or read, read) * BYTES_PER_ENTRY,
        sink_share_mean=mean([point.sink_share or 0.0 for point in curve if point.position >= watching]),
        sink_share_heads=shares(rule, heads, 1.0, own),
        tokens_per_second=own.uniform(480, 540) * (0.4 if rule.policy == "recompute" else 1.0),
        curve=tuple(curve),
        head_maps=tuple(
            HeadMap(part * read // maps, (part + 1) * read // maps - 1, shares(rule, heads, part / maps, own))
            for part in range(maps)
        ),
    )


def harm(rule: Rule) -> float:
    """Nats that a rule adds once entries have left."""
    tight = 2.0 if (rule.window or 512) < 400 else 1.0
    far = 0.0
    if rule.positions == "absolute":
        far = 5.6 * min(1.0, rule.start_position / 60_000) ** 1.2
    worse = {"full": 0.0, "window": 0.68 * tight, "recompute": 0.16 * tight, "sinks": 0.1 * tight}[rule.policy]
    if rule.policy == "sinks" and rule.sinks == 1:
        worse += 0.03
    return worse + far


def share(rule: Rule, position: int, first: int | None) -> float:
    if rule.policy == "sinks" or first is None or position < first:
        return 0.33 + 0.04 * math.exp(-position / 300)
    return 0.05 + 0.2 * math.exp(-(position - first) / 60)


def shares(rule: Rule, heads: tuple[int, int], time: float, own: random.Random) -> Heads:
    """A map in which some heads look at nothing but sinks, and without sinks hardly any does."""
    pattern = random.Random(3)
    strong = 1.0 if rule.policy in ("sinks", "full") or time < 0.1 else 0.15
    rows = []
    for layer in range(heads[0]):
        depth = math.sin(math.pi * min(1.0, layer / max(1, heads[0] - 1) * 1.1))
        row: list[float | None] = []
        for _ in range(heads[1]):
            value = strong * min(1.0, max(0.0, depth * pattern.uniform(0.0, 1.25))) + own.gauss(0, 0.01)
            row.append(min(1.0, max(0.0, value)))
        rows.append(tuple(row))
    return tuple(rows)


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def line(points: Sequence[Point], first: int | None) -> tuple[float | None, float | None]:
    """Slope in nats per 1,000 tokens past the first eviction, and a plausible error."""
    kept = [(point.position / 1000, point.loss) for point in points if first is not None and point.position > first]
    if len(kept) < 3:
        return None, None
    across, up = sum(x for x, _ in kept) / len(kept), sum(y for _, y in kept) / len(kept)
    spread = sum((x - across) ** 2 for x, _ in kept)
    slope = sum((x - across) * (y - up) for x, y in kept) / spread
    rest = sum((y - up - slope * (x - across)) ** 2 for x, y in kept) / (len(kept) - 2)
    return slope, math.sqrt(rest / spread)


def compared(one: Run, full: Run | None) -> Run:
    """The run with what the full cache says of the same tokens."""
    if full is None or one.first_eviction is None:
        return one
    control = {point.position: point.loss for point in full.curve}
    both = [point for point in one.curve if point.position >= one.first_eviction and point.position in control]
    apart = [replace(point, loss=point.loss - control[point.position]) for point in both]
    slope, error = line(apart, one.first_eviction)
    collapse = next((point.position for point in apart if point.loss > 0.6), None)
    if (mean([point.loss for point in apart]) or 0.0) < 0.5:
        collapse = None
    return replace(
        one,
        loss_same_positions=mean([point.loss for point in both]),
        loss_full_same_positions=mean([control[point.position] for point in both]),
        slope_over_full=slope,
        slope_over_full_error=error,
        collapse_at=collapse,
    )


STORY = (
    "The keeper climbed the hundred steps and lit the lamp, and the sea below him answered with <silence> & foam. "
)


def drawn(rule: Rule, seed: int) -> Generation:
    own = random.Random(f"{rule} {seed}")
    loops = rule.policy == "window"
    rate = own.uniform(0.5, 0.9) if loops else own.uniform(0.0, 0.03)
    return Generation(
        rule=rule,
        seed=seed,
        prompt_tokens=40,
        tokens=1000,
        loop_rate=rate,
        loop_at=own.randrange(200, 500) if loops else None,
        distinct=tuple((0.2 + 0.12 * n) * (0.4 if loops else 1.0) for n in range(1, 5)),
        loss=own.uniform(1.9, 2.2),
        loss_full=own.uniform(5.0, 6.0) if loops else own.uniform(2.1, 2.4),
        curve=tuple((at, 2.0 + own.gauss(0, 0.1), 2.2 + own.gauss(0, 0.1)) for at in range(0, 1000, 50)),
        text=("Sea Sea Sea \x1b[31m" * 60) if loops else STORY * 12,
    )


def asked(rule: Rule, distance: int) -> Recall:
    own = random.Random(f"{rule} {distance}")
    seen = rule.policy == "full" or distance < (rule.window or 0)
    if rule.policy == "recompute" and distance > 256:
        seen = False
    right = sum(own.random() < (0.93 if seen else 0.13) for _ in range(20))
    loss = own.uniform(0.3, 0.7) if seen else own.uniform(5.5, 6.5)
    return Recall(rule, distance, seen, 20, right, 0.125, loss)
