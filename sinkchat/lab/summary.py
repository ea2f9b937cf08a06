"""From what was measured at each position to a run's figures. Free of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sinkchat.engine.events import Heads
from sinkchat.lab.figures import binned, collapse_at, mean, slope, slope_of_difference
from sinkchat.lab.results import HeadMap, Point, Run

if TYPE_CHECKING:
    from sinkchat.lab.reading import Reading


def summarize(reading: Reading, control: Reading | None, trained: int, bin: int, *, per_token: bool = False) -> Run:
    """`control` is the full cache's reading of the same text, which counts below position `trained` alone."""
    losses, shares = reading.losses, reading.shares
    evicted = reading.first_eviction
    after = 0 if evicted is None else evicted + 1
    state = reading.state
    assert state is not None
    same = full = over = over_error = collapse = None
    if control is not None and evicted is not None:
        last = min(trained, len(control.losses)) - 1
        full = mean(control.losses[: len(losses)], after, last)
        same = None if full is None else mean(losses, after, last)
        over, over_error = slope_of_difference(losses, control.losses, after, last)
        collapse = collapse_at(losses, control.losses, evicted, last)
    rise, rise_error = (None, None) if evicted is None else slope(losses, after)
    # the query at the first eviction is the first whose sight is cut; it predicts the next token
    maps = [heads for heads in reading.head_maps if heads.last >= (evicted or 0)]
    return Run(
        rule=reading.rule,
        complete=reading.complete,
        tokens=len(losses),
        watched=reading.watched,
        loss_mean=mean(losses),
        loss_before=mean(losses, 0, evicted),
        loss_after=None if evicted is None else mean(losses, after),
        slope_after=rise,
        slope_error=rise_error,
        loss_same_positions=same,
        loss_full_same_positions=full,
        slope_over_full=over,
        slope_over_full_error=over_error,
        collapse_at=collapse,
        first_eviction=evicted,
        evictions=state.evicted_total,
        recomputed=state.recomputed_total,
        kv_entries_max=max(reading.entries, default=0),
        kv_bytes=state.kv_bytes,
        sink_share_mean=mean(shares, after),
        sink_share_heads=_mean_of(maps),
        tokens_per_second=len(losses) / reading.seconds if reading.seconds else 0.0,
        curve=_curve(reading, bin),
        head_maps=tuple(reading.head_maps),
        losses=tuple(losses) if per_token else None,
        shares=tuple(shares) if per_token else None,
    )


def _curve(reading: Reading, bin: int) -> tuple[Point, ...]:
    points = []
    means = zip(binned(reading.losses, bin), binned(reading.shares, bin), strict=True)
    for number, (loss, share) in enumerate(means):
        end = min((number + 1) * bin, len(reading.losses))
        if loss is not None:
            held = reading.entries[end - 1]
            # nothing comes back while a text is read, so what is not held has left
            points.append(Point(number * bin, loss, held, end - held, share))
    return tuple(points)


def _mean_of(maps: Sequence[HeadMap]) -> Heads | None:
    """Over all their queries; None where there is none."""
    if not maps:
        return None
    weights = [heads.last + 1 - heads.first for heads in maps]

    def mean_at(layer: int, head: int) -> float | None:
        shares = [heads.shares[layer][head] for heads in maps]
        known = [share * weight for share, weight in zip(shares, weights, strict=True) if share is not None]
        return sum(known) / sum(weights) if len(known) == len(weights) else None

    shape = maps[0].shares
    return tuple(tuple(mean_at(layer, head) for head in range(len(shape[layer]))) for layer in range(len(shape)))
