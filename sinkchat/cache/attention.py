"""Attention over a bounded cache, in the two shapes that occur: one query, and a chunk of them.

Keys lie in the cache as the model rotated them. A query meets recent keys as it is and sink keys turned back, so that
the sinks stand right before the recents (Xiao et al. 2023, "Efficient Streaming Language Models with Attention
Sinks", section 3.2, whose procedure rotates the keys instead). Both groups share one softmax, in float32.

G is the number of query heads per KV head; query head h belongs to KV head h // G.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sinkchat.cache.policy import Step

NAME = "sinkchat"
"""The `attn_implementation` under which a model calls the bounded cache."""

BLOCK = 512
"""Keys whose logits are held in float32 at a time: G x H_kv x T x BLOCK numbers, whatever the window."""


@dataclass(frozen=True, slots=True)
class Attended:
    """What one layer's attention gave."""

    output: Tensor
    """`[H_q, T, D]`, in the dtype of the values."""
    share: Tensor
    """`[T, H_q]` float32: the part of each query's attention that the watched entries take."""
    weights: Tensor | None = None
    """`[n]` float32, one query only: attention of each visible slot, mean over the heads."""


def attend_one(
    query: Tensor,
    turned: Tensor | None,
    keys: Tensor,
    values: Tensor,
    *,
    watched: Tensor,
    hidden: Tensor | None,
    scaling: float,
) -> Attended:
    """One query over the cache, its own entry written already.

    query, turned: `[H_q, 1, D]`; `turned` meets the watched keys, None: as they are.
    keys, values: `[H_kv, n, D]`, slots 0..n-1. watched: `[s]` slots. hidden: `[n]` bool, the slots without an entry.
    """
    heads, _, width = query.shape
    groups = keys.shape[0]
    logits = (query.reshape(groups, -1, width) @ keys.transpose(1, 2)).float()  # [H_kv, G, n]
    if turned is not None:
        sinks = keys.index_select(1, watched)  # [H_kv, s, D]
        logits[..., watched] = (turned.reshape(groups, -1, width) @ sinks.transpose(1, 2)).float()
    logits.mul_(scaling)
    if hidden is not None:
        logits.masked_fill_(hidden, float("-inf"))
    weights = torch.softmax(logits, dim=-1)
    output = weights.to(values.dtype) @ values  # [H_kv, G, D]
    share = weights[..., watched].sum(-1)
    return Attended(output.reshape(heads, 1, width), share.reshape(1, heads), weights.mean((0, 1)))


def attend_chunk(
    query: Tensor,
    turned: Tensor | None,
    key: Tensor,
    value: Tensor,
    cached: Callable[[int, int], tuple[Tensor, Tensor]],
    *,
    step: Step,
    watch: int | None,
    scaling: float,
) -> Attended:
    """A chunk of T queries over [sinks | recents | the chunk itself], as if fed one by one; nothing written yet.

    The softmax runs over blocks of keys with a running maximum (Milakov and Gimelshein 2018), so that logits of no
    more than BLOCK keys exist at a time.

    query, turned: `[H_q, T, D]`; key, value: `[H_kv, T, D]` of the chunk. `cached(a, b)` gives keys and values
    `[H_kv, b - a, D]` of the entries a..b-1 in order of position, sinks first. watch: how many of the oldest entries
    that each query sees are watched, None: the sinks.
    """
    heads, length, width = query.shape
    groups = key.shape[0]
    band = _Band(step, watch, query.device)
    rows = query.reshape(groups, -1, width)  # [H_kv, G * T, D], query t of group g in row g * T + t
    rows_turned = rows if turned is None else turned.reshape(groups, -1, width)
    softmax = _RunningSoftmax(groups, heads // groups, length, value)

    # The chunk's own keys first: every query sees itself, so that its maximum is finite from the start.
    for a in range(0, length, BLOCK):
        b = min(a + BLOCK, length)
        block = rows @ key[:, a:b].transpose(1, 2)
        softmax.add(block, value[:, a:b], scaling, *band.of_chunk(a, b))
    for a in range(0, step.sinks, BLOCK):
        b = min(a + BLOCK, step.sinks)
        keys, values = cached(a, b)
        softmax.add(rows_turned @ keys.transpose(1, 2), values, scaling, *band.of_sinks())
    for a in range(band.first_visible_recent, step.recents, BLOCK):
        b = min(a + BLOCK, step.recents)
        keys, values = cached(step.sinks + a, step.sinks + b)
        softmax.add(rows @ keys.transpose(1, 2), values, scaling, *band.of_recents(a, b))
    return softmax.result(heads, value.dtype)


class _Band:
    """Which keys the queries of a step see, and which of those are watched.

    Masks are `[T, keys]` bool; None stands for "all of them" (seen) and for "none or all" (watched, with a flag).
    """

    def __init__(self, step: Step, watch: int | None, device: torch.device) -> None:
        self.step = step
        self.watch = watch
        self.queries = torch.arange(step.count, device=device)[:, None]
        self.dropped = (self.queries + 1 - step.room).clamp_min(0)  # [T, 1]
        self.first_visible_recent = min(step.dropped(0), step.recents)

    def of_sinks(self) -> tuple[Tensor | None, Tensor | bool]:
        return None, self.watch is None

    def of_recents(self, a: int, b: int) -> tuple[Tensor | None, Tensor | bool]:
        place = torch.arange(a, b, device=self.queries.device)
        seen = None if self.step.dropped(self.step.count - 1) <= a else place >= self.dropped
        return seen, self._watched(place, a)

    def of_chunk(self, a: int, b: int) -> tuple[Tensor | None, Tensor | bool]:
        own = torch.arange(a, b, device=self.queries.device)
        place = self.step.recents + own
        seen = (own <= self.queries) & (place >= self.dropped)
        if self.watch is None:
            return seen, self.step.as_sinks
        return seen, self._watched(place, self.step.recents + a)

    def _watched(self, place: Tensor, first: int) -> Tensor | bool:
        if self.watch is None:
            return False
        if first >= self.step.dropped(self.step.count - 1) + self.watch:
            return False
        return place < self.dropped + self.watch


class _RunningSoftmax:
    """Softmax and weighted sum over blocks of keys that come one after another."""

    def __init__(self, groups: int, per_group: int, length: int, value: Tensor) -> None:
        self.shape = (groups, per_group, length)
        self.top = torch.full((*self.shape, 1), float("-inf"), device=value.device)
        self.total = torch.zeros_like(self.top)
        self.watched = torch.zeros_like(self.top)
        self.output = torch.zeros((*self.shape, value.shape[2]), device=value.device)

    def add(
        self, logits: Tensor, values: Tensor, scaling: float, seen: Tensor | None, watched: Tensor | bool
    ) -> None:
        """logits: `[H_kv, G * T, n]`; values: `[H_kv, n, D]`; masks `[T, n]`."""
        groups, per_group, length = self.shape
        block = logits.float().mul_(scaling).view(groups, per_group, length, -1)
        if seen is not None:
            block = block.masked_fill(~seen, float("-inf"))
        top = torch.maximum(self.top, block.amax(-1, keepdim=True))
        fade = torch.exp(self.top - top)
        block = torch.exp(block - top)
        self.top = top
        self.total = self.total * fade + block.sum(-1, keepdim=True)
        self.watched = self.watched * fade
        if watched is True:
            self.watched += block.sum(-1, keepdim=True)
        elif watched is not False:
            self.watched += (block * watched).sum(-1, keepdim=True)
        part = block.to(values.dtype).flatten(1, 2) @ values  # [H_kv, G * T, D]
        self.output = self.output * fade + part.float().view_as(self.output)

    def result(self, heads: int, dtype: torch.dtype) -> Attended:
        output = (self.output / self.total).to(dtype).flatten(0, 1)  # [H_q, T, D]
        share = (self.watched / self.total).squeeze(-1).flatten(0, 1)  # [H_q, T]
        return Attended(output, share.view(heads, -1).transpose(0, 1))
