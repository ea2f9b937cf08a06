"""One sequence: its tokens, the cache that holds what is left of them, and what the newest query saw."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sinkchat.cache.bounded import BoundedCache
from sinkchat.cache.slots import Span
from sinkchat.engine.events import CacheState, Heads, StrongHead

LOSS_ROWS = 128
"""Rows of logits that are held in float32 at a time."""


@dataclass(frozen=True, slots=True)
class Read:
    """Tokens that were fed."""

    ids: tuple[int, ...]
    losses: tuple[float | None, ...]
    """In nats, of each token; empty when they ran again for the cache's sake alone."""
    shares: Tensor | None
    """`[T, L, H]` float32: share of the query that predicted each token; NaN in layers without sinks. One row less
    for a sequence's first token, that none predicted; None where nothing is watched."""
    evicted: Span | None
    entries: tuple[int, ...] = ()
    """That the query of each token saw, its own included."""

    def mean_shares(self) -> tuple[float | None, ...]:
        """Of each token, over the heads."""
        if self.shares is None:
            return (None,) * len(self.ids)
        known = self.shares.flatten(1).double().nanmean(1).tolist()
        return (*[None] * (len(self.ids) - len(known)), *(None if math.isnan(mean) else mean for mean in known))


class TokenSequence:
    """Tokens are appended, then fed; those from the cache's position on are still to be fed."""

    def __init__(self, cache: BoundedCache) -> None:
        self.cache = cache
        self.forget()

    def forget(self) -> None:
        """Start again with no tokens."""
        self.tokens: list[int] = []
        self.read = 0
        """How many of them were fed at least once; the cache's position is less while they run again."""
        self._stands = 0
        """Up to this position tokens run again and what the newest predicted stays as it was."""
        self.logits: Tensor | None = None
        """`[V]` float32 of the newest token: what the next one is drawn from."""
        self._shares: Tensor | None = None
        self.learned_share: float | None = None
        """What learned sinks took of the newest query's attention, mean over the layers that have them; else None."""
        self.strong_entry: tuple[int, float] | None = None
        """Position and share of the unwatched entry that took most attention; None after a chunk."""

    @property
    def fed(self) -> int:
        """Tokens that were fed; the position of the next."""
        return self.cache.slots.position

    @property
    def pending(self) -> int:
        return len(self.tokens) - self.fed

    def state(self) -> CacheState:
        slots = self.cache.slots
        return CacheState(
            policy=slots.policy,
            positions=self.cache.positions,
            sinks=slots.sinks,
            window=slots.window,
            position=slots.position,
            kv_entries=slots.entries,
            sink_entries=slots.sink_entries,
            kv_bytes=self.cache.kv_bytes,
            evicted_total=slots.evicted_total,
            readmitted_total=slots.readmitted_total,
            horizon=slots.horizon,
            recomputed_total=slots.recomputed_total,
        )

    def feed(self, at_most: int) -> Read:
        """Feed the next pending tokens, at most so many, in one step.

        Whatever is raised, the cache stays true: no token of the step counts as fed.
        """
        again = self.fed < self._stands
        count = self.cache.slots.limit(min(at_most, self._stands - self.fed if again else self.pending))
        ids = tuple(self.tokens[self.fed : self.fed + count])
        step = self.cache.slots.plan(count, self.pending)
        out = self.cache.feed(ids, step)
        self.read = max(self.read, self.fed)
        if again:
            return Read(ids, (), None, step.evicted)
        # what the next token is drawn from comes first: the losses may fail for want of memory
        before, self.logits = self.logits, out.logits[-1].float()
        predicted, self._shares = self._shares, out.shares[-1] if self.watches else None  # no sinks: zeros, no share
        self.learned_share = None if out.learned is None else mean_share(out.learned[-1])
        self.strong_entry = self._strongest(out.weights)
        shares = None
        if self.watches:
            shares = out.shares[:-1] if predicted is None else torch.cat((predicted[None], out.shares[:-1]))
        entries = tuple(step.seen(query) for query in range(step.count))
        return Read(ids, _losses(before, out.logits, ids), shares, step.evicted, entries)

    def rerun(self, at_most: int) -> Iterator[Span]:
        """Compute the sinks that are missing again in steps, yielding what each brought back."""
        while missing := self.cache.slots.missing:
            span = Span(missing.first, min(missing.last, missing.first + at_most - 1))
            step = self.cache.slots.plan_rerun(span)
            self.cache.feed(tuple(self.tokens[span.first : span.last + 1]), step)
            yield span

    def halve(self) -> Span:
        """Under `recompute`: the older half of the recents leaves, and is returned; the newer is to be fed again.

        What the newest token predicted stays as it was, seen over the full window.
        """
        self._stands = max(self._stands, self.fed)
        return self.cache.slots.halve()

    def rewind(self, position: int) -> None:
        """The tokens from `position` on are to be fed again, and to predict anew."""
        self.cache.slots.rewind(position)
        self._stands = 0

    @property
    def standing(self) -> int:
        """Tokens that are to run again before anything new is fed."""
        return max(0, self._stands - self.fed)

    def drop_pending(self) -> None:
        """What was never fed is no part of the sequence."""
        del self.tokens[self.read :]

    def truncate(self, position: int) -> None:
        """Take back the tokens from `position` on; only while nothing is gone from the cache."""
        if not 0 <= position <= len(self.tokens):
            raise ValueError(f"cannot go back to position {position} of {len(self.tokens)}")
        del self.tokens[position:]
        self.read = min(self.read, position)
        self._stands = 0
        if position > self.fed:
            return
        self.cache.slots.truncate(max(0, position - 1))
        if self.pending:  # the last one again: its logits predict the next
            self.feed(1)
        else:
            self.logits = self._shares = self.learned_share = self.strong_entry = None

    def _strongest(self, weights: Tensor | None) -> tuple[int, float] | None:
        if weights is None:
            return None
        slot = int(weights.argmax())
        position, share = self.cache.slots.position_at[slot], float(weights[slot])
        return (position, share) if position is not None and share > 0 else None

    # What the newest query saw

    @property
    def watches(self) -> bool:
        """Whether a share of attention means anything: with S = 0 nothing is watched."""
        return self.cache.slots.sinks > 0

    def loss_of(self, token_id: int) -> float:
        """Loss in nats of `token_id` as the next token."""
        return self.losses_of((token_id,))[0]

    def losses_of(self, ids: Sequence[int]) -> list[float]:
        """Loss in nats of each as the next token."""
        assert self.logits is not None
        return _loss(self.logits.expand(len(ids), -1), ids)

    def share_heads(self) -> Heads | None:
        if self._shares is None or not self.watches:
            return None
        return share_table(self._shares)

    def share(self) -> float | None:
        return None if self._shares is None or not self.watches else mean_share(self._shares)

    def strong_head(self) -> StrongHead | None:
        if self._shares is None or not self.watches or self._shares.isnan().all():
            return None
        layer, head = divmod(int(self._shares.nan_to_num(-1.0).argmax()), self._shares.shape[1])
        return StrongHead(layer, head, float(self._shares[layer, head]))


def mean_share(shares: Tensor) -> float | None:
    """shares: `[L, H]`, NaN in layers that have none. Mean over the heads of the others; None when there are none."""
    mean = float(shares.double().nanmean())
    return None if math.isnan(mean) else mean


def share_table(shares: Tensor) -> Heads:
    """shares: `[L, H]`, as plain numbers; None for the heads of a layer without sinks."""
    return [[None if math.isnan(share) else share for share in layer] for layer in shares.tolist()]


def _losses(before: Tensor | None, logits: Tensor, ids: Sequence[int]) -> tuple[float | None, ...]:
    """Loss of each token in nats: `before` `[V]` predicted the first, row i of `logits` `[T, V]` the one after it."""
    losses: list[float | None] = [None if before is None else _loss(before[None], ids[:1])[0]]
    for a in range(0, len(ids) - 1, LOSS_ROWS):
        b = min(a + LOSS_ROWS, len(ids) - 1)
        losses.extend(_loss(logits[a:b], ids[a + 1 : b + 1]))
    return tuple(losses)


def _loss(logits: Tensor, ids: Sequence[int]) -> list[float]:
    target = torch.tensor(ids, device=logits.device)
    values: list[float] = torch.nn.functional.cross_entropy(logits.float(), target, reduction="none").tolist()
    return values
