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

from sinkchat.cache.slots import Step

NAME = "sinkchat"
"""The `attn_implementation` under which a model calls the bounded cache."""

BLOCK = 512
"""Keys whose logits are held in float32 at a time: G x H_kv x T x BLOCK numbers, whatever the window."""


@dataclass(frozen=True, slots=True)
class Attended:
    """What one layer's attention gave."""

    output: Tensor
    """`[H_q, T, D]`, in the dtype of the values."""
    share: Tensor | None
    """`[T, H_q]` float32: the part of each query's attention that the watched entries take; None: the layer keeps
    a window of its own, and has no sinks."""
    learned: Tensor | None = None
    """`[T, H_q]` float32: the part that a learned sink takes, which is no entry; None: the layer has none."""
    weights: Tensor | None = None
    """`[n]` float32, one query only: attention of each visible slot, mean over the heads."""


@dataclass(frozen=True, slots=True)
class Extras:
    """What a layer does to its logits."""

    scaling: float
    softcap: float | None = None
    """Logits are bent to stay within this bound (gemma2)."""
    learned: Tensor | None = None
    """`[H_q]`: a logit per head that takes attention and gives no value (gpt_oss)."""

    def on_logits(self, logits: Tensor) -> Tensor:
        """Scales, and bends, logits in float32; may overwrite them."""
        logits.mul_(self.scaling)
        if self.softcap is not None:
            logits.div_(self.softcap).tanh_().mul_(self.softcap)
        return logits

    def learned_by_group(self, groups: int) -> Tensor | None:
        """`[H_kv, G, 1]` float32."""
        return None if self.learned is None else self.learned.float().view(groups, -1, 1)


def attend_one(
    query: Tensor,
    turned: Tensor | None,
    keys: Tensor,
    values: Tensor,
    *,
    watched: Tensor | None,
    hidden: Tensor | None,
    extras: Extras,
) -> Attended:
    """One query over the cache, its own entry written already.

    query, turned: `[H_q, 1, D]`; `turned` meets the watched keys, None: as they are.
    keys, values: `[H_kv, n, D]`, slots 0..n-1. watched: `[s]` slots, None: no share is asked for. hidden: `[n]` bool,
    the slots that hold no entry or none that the layer sees.
    """
    heads, _, width = query.shape
    groups = keys.shape[0]
    logits = (query.reshape(groups, -1, width) @ keys.transpose(1, 2)).float()  # [H_kv, G, n]
    if turned is not None and watched is not None:
        sinks = keys.index_select(1, watched)  # [H_kv, s, D]
        logits[..., watched] = (turned.reshape(groups, -1, width) @ sinks.transpose(1, 2)).float()
    logits = extras.on_logits(logits)
    if hidden is not None:
        logits.masked_fill_(hidden, float("-inf"))
    learned = extras.learned_by_group(groups)  # [H_kv, G, 1]
    if learned is not None:
        logits = torch.cat((logits, learned), dim=-1)
    weights = torch.softmax(logits, dim=-1)
    taken = None
    if learned is not None:
        weights, taken = weights[..., :-1], weights[..., -1].reshape(1, heads)
    output = weights.to(values.dtype) @ values  # [H_kv, G, D]
    share = None if watched is None else weights[..., watched].sum(-1).reshape(1, heads)
    return Attended(output.reshape(heads, 1, -1), share, taken, weights.mean((0, 1)))


def attend_chunk(
    query: Tensor,
    turned: Tensor | None,
    key: Tensor,
    value: Tensor,
    cached: Callable[[int, int], tuple[Tensor, Tensor]],
    *,
    band: Band,
    extras: Extras,
) -> Attended:
    """A chunk of T queries over [sinks | recents | the chunk itself], as if fed one by one; nothing written yet.

    The softmax runs over blocks of keys with a running maximum (Milakov and Gimelshein 2018), so that logits of no
    more than BLOCK keys exist at a time.

    query, turned: `[H_q, T, D]`; key, value: `[H_kv, T, D]` of the chunk. `cached(a, b)` gives keys and values
    `[H_kv, b - a, D]` of the entries a..b-1 in order of position, sinks first. band: who sees whom.
    """
    heads, length, width = query.shape
    groups = key.shape[0]
    step = band.step
    rows = query.reshape(groups, -1, width)  # [H_kv, G * T, D], query t of group g in row g * T + t
    rows_turned = rows if turned is None else turned.reshape(groups, -1, width)
    softmax = _RunningSoftmax(groups, heads // groups, length, value, extras)

    for a in range(0, length, BLOCK):
        b = min(a + BLOCK, length)
        softmax.add(rows @ key[:, a:b].transpose(1, 2), value[:, a:b], *band.of_chunk(a, b))
    for a in range(0, step.sinks, BLOCK):
        b = min(a + BLOCK, step.sinks)
        keys, values = cached(a, b)
        softmax.add(rows_turned @ keys.transpose(1, 2), values, *band.of_sinks(a, b))
    for a in range(band.first_visible_recent, step.recents, BLOCK):
        b = min(a + BLOCK, step.recents)
        keys, values = cached(step.sinks + a, step.sinks + b)
        softmax.add(rows @ keys.transpose(1, 2), values, *band.of_recents(a, b))
    return softmax.result(value.dtype, shared=band.own is None)


class Band:
    """Which keys the queries of a step do not see, and which of the others are watched; shared by layers.

    Recents and the step's own tokens are counted in one row of places, by position. Masks are `[T, keys]` bool; None
    stands for "no key" (hidden), True and False for "all" and "none of them" (watched).
    """

    def __init__(self, step: Step, watch: int | None, own: int | None, device: torch.device) -> None:
        """watch: how many of the oldest entries that each query sees are watched, None: the sinks. own: the layer's
        own window, to whose newest entries a query's sight is cut, and which has no sinks; None: none."""
        self._masks: dict[tuple[str, int], tuple[Tensor | None, Tensor | bool]] = {}
        self.step = step
        self.watch = watch
        self.own = own
        self.queries = torch.arange(step.count, device=device)[:, None]  # [T, 1]
        self.oldest = (self.queries + 1 - step.room).clamp_min(0)  # [T, 1], the first place that is seen
        if own is not None:
            self.oldest = self.oldest.clamp_min(step.recents + 1 - own + self.queries)
        self.first_visible_recent = min(self._oldest(0), step.recents)

    def of_sinks(self, a: int, b: int) -> tuple[Tensor | None, Tensor | bool]:
        if self.own is None:
            return None, self.watch is None
        place = self.step.first + self.step.apart
        return torch.arange(a, b, device=self.queries.device) <= place + self.queries - self.own, False

    def of_recents(self, a: int, b: int) -> tuple[Tensor | None, Tensor | bool]:
        if ("recents", a) not in self._masks:
            place = torch.arange(a, b, device=self.queries.device)
            hidden = None if self._oldest(self.step.count - 1) <= a else place < self.oldest
            self._masks["recents", a] = hidden, self._watched(place, a)
        return self._masks["recents", a]

    def of_chunk(self, a: int, b: int) -> tuple[Tensor | None, Tensor | bool]:
        if ("chunk", a) not in self._masks:
            query = torch.arange(a, b, device=self.queries.device)
            place = self.step.recents + query
            hidden = (query > self.queries) | (place < self.oldest)
            watched = self.step.as_sinks if self.watch is None else self._watched(place, self.step.recents + a)
            self._masks["chunk", a] = hidden, watched
        return self._masks["chunk", a]

    def _oldest(self, query: int) -> int:
        dropped = self.step.dropped(query)
        return dropped if self.own is None else max(dropped, self.step.recents + 1 - self.own + query)

    def _watched(self, place: Tensor, first: int) -> Tensor | bool:
        if self.watch is None or first >= self._oldest(self.step.count - 1) + self.watch:
            return False
        return place < self.oldest + self.watch


class _RunningSoftmax:
    """Softmax and weighted sum over blocks of keys that come one after another."""

    def __init__(self, groups: int, per_group: int, length: int, value: Tensor, extras: Extras) -> None:
        self.shape = (groups, per_group, length)
        self.extras = extras
        learned = extras.learned_by_group(groups)
        self.learned = None if learned is None else learned[..., None].expand(*self.shape, 1)
        # lower than any logit, yet finite: a query may see nothing of the first block
        self.top = torch.full((*self.shape, 1), torch.finfo(torch.float32).min, device=value.device)
        self.total = torch.zeros_like(self.top)
        if self.learned is not None:  # a key without a value, seen before all others
            self.top, self.total = self.learned, torch.ones_like(self.total)
        self.watched = torch.zeros_like(self.top)
        self.output = torch.zeros((*self.shape, value.shape[2]), device=value.device)

    def add(self, logits: Tensor, values: Tensor, hidden: Tensor | None, watched: Tensor | bool) -> None:
        """logits: `[H_kv, G * T, n]`, may be overwritten; values: `[H_kv, n, D]`; masks `[T, n]`."""
        groups, per_group, length = self.shape
        block = self.extras.on_logits(logits.float()).view(groups, per_group, length, -1)
        if hidden is not None:
            block.masked_fill_(hidden, float("-inf"))
        top = torch.maximum(self.top, block.amax(-1, keepdim=True))
        fade = (self.top - top).exp_()
        block.sub_(top).exp_()
        self.top = top
        total = block.sum(-1, keepdim=True)
        self.total.mul_(fade).add_(total)
        self.watched.mul_(fade)
        if watched is True:
            self.watched.add_(total)
        elif watched is not False:
            self.watched.add_((block * watched).sum(-1, keepdim=True))
        part = block.to(values.dtype).flatten(1, 2) @ values  # [H_kv, G * T, D]
        self.output.mul_(fade).add_(part.view_as(self.output))

    def result(self, dtype: torch.dtype, *, shared: bool) -> Attended:
        output = (self.output / self.total).to(dtype).flatten(0, 1)  # [H_q, T, D]
        learned = None if self.learned is None else self._by_query(torch.exp(self.learned - self.top) / self.total)
        return Attended(output, self._by_query(self.watched / self.total) if shared else None, learned)

    def _by_query(self, values: Tensor) -> Tensor:
        """`[H_kv, G, T, 1]` to `[T, H_q]`."""
        return values.squeeze(-1).flatten(0, 1).transpose(0, 1)
