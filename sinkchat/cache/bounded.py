"""The bounded cache of one sequence: its slots, its rings, and the model that runs over them.

A model runs as it is, without a cache of its own. Its attention calls `feeding.attention`, which finds the cache by
a keyword argument that the model passes through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sinkchat.cache.attention import NAME
from sinkchat.cache.feeding import Feeding
from sinkchat.cache.policy import Policy, Positions
from sinkchat.cache.proof import Turns
from sinkchat.cache.ring import Ring
from sinkchat.cache.slots import Slots, Span, Step
from sinkchat.errors import ModelRefused

EAGER_TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.1}
"""Of the logits of a few tokens, in norm: rounding, which in half precision also moves a mixture's routing."""


@dataclass(frozen=True, slots=True)
class Fed:
    """What came out of feeding T tokens."""

    logits: Tensor
    """`[T, V]`, raw, in the model's dtype."""
    shares: Tensor
    """`[T, L, H_q]` float32: attention that the watched entries took, per layer and head; NaN in layers that keep a
    window of their own, and have no sinks."""
    learned: Tensor | None
    """`[T, L, H_q]` float32: attention that learned sinks took, which are no entries; NaN in layers without them;
    None: the model has none."""
    weights: Tensor | None
    """`[n]` float32, one token only: attention of each slot that is not watched, mean over all layers and heads."""


class BoundedCache:
    """KV entries of one sequence under a policy. One thread."""

    def __init__(
        self,
        model: Any,
        turns: Turns,
        *,
        policy: Policy = "sinks",
        positions: Positions = "cache",
        sinks: int = 4,
        window: int = 4096,
        start_position: int = 0,
        distance: int = 0,
    ) -> None:
        """`model` is a causal language model of transformers, loaded with NAME as its attention; `turns` is what
        `prove` found of it. `start_position` is added to every position that the model sees, `distance` to those of
        the tokens after the sinks.

        Raises CacheError when policy, sinks and window make no cache.
        """
        self.model = model
        self.turns = turns
        self.positions: Positions = positions
        self.slots = Slots(policy, sinks, window, distance)
        self.start_position = start_position
        self.rings: dict[int, Ring] = {}
        self.lost: list[Span] = []
        """Entries that failed steps may have overwritten, and that were evicted; whoever tells of them takes them."""

    @property
    def kv_bytes(self) -> int:
        """Bytes allocated for keys and values, all layers."""
        return sum(ring.nbytes for ring in self.rings.values())

    @torch.inference_mode()
    def feed(self, ids: Sequence[int], step: Step) -> Fed:
        """Runs the step's tokens through the model. Whatever is raised on the way, the bookkeeping stays true."""
        device = next(self.model.parameters()).device
        self.relayout(self.slots.rows)
        feeding = Feeding(self.slots, self.rings, self.turns, self.positions, step)
        place = step.first + step.apart + self.start_position
        try:
            out = self.model(
                input_ids=torch.tensor([ids], device=device),
                position_ids=torch.arange(place, place + step.count, device=device)[None],
                use_cache=False,
                feeding=feeding,
            )
            fed = Fed(out.logits[0], feeding.shares(), feeding.learned(), feeding.weights())
        except BaseException:
            if lost := self.slots.abort(step):
                self.lost.append(lost)
            raise
        self.slots.commit(step)
        return fed

    @torch.inference_mode()
    def relayout(self, rows: int, moves: Sequence[tuple[int, int]] = ()) -> None:
        """Have `rows` rows in every layer, after the `moves` (from slot, to slot).

        Raises torch.OutOfMemoryError before anything changed.
        """
        if any(ring.rows != rows or moves for ring in self.rings.values()):
            self.rings = {layer: ring.relaid(rows, moves) for layer, ring in self.rings.items()}

    def warm_up(self) -> None:
        """Allocates the buffers and compares a few tokens with the model's own eager attention, then forgets them.

        Raises ModelRefused when they differ by more than rounding; torch.OutOfMemoryError.
        """
        ids = [(1 + 7 * i) % self.model.config.get_text_config().vocab_size for i in range(min(8, self.slots.window))]
        ours: list[Tensor] = []
        while (done := self.slots.position) < len(ids):
            # in steps of 1 and of several, so that a layer that remembers outside this cache is found out
            count = self.slots.limit(min(1 + 2 * (done % 2), len(ids) - done))
            try:
                fed = self.feed(ids[done : done + count], self.slots.plan(count))
            except TypeError as error:
                raise ModelRefused(
                    f"{type(self.model).__name__} is refused: {error}; choose a model of another family."
                ) from error
            ours.append(fed.logits.float())
        self.clear()
        theirs = self._eager(ids).float()
        apart = float((torch.cat(ours) - theirs).norm() / theirs.norm())
        if not apart <= EAGER_TOLERANCE[self.model.dtype]:
            raise ModelRefused(
                f"{type(self.model).__name__} is refused: over the bounded cache its logits differ by {apart:.1%} "
                "from those of its own attention; choose a model of another family."
            )

    @torch.inference_mode()
    def _eager(self, ids: Sequence[int]) -> Tensor:
        """`[T, V]`: logits of the model's own attention, without any cache."""
        device = next(self.model.parameters()).device
        self.model.set_attn_implementation("eager")
        try:
            # a query that stands at its index in the cache is not told that the sinks are far
            far = self.positions == "absolute"
            places = [self.start_position + (self.slots.place(i) if far else i) for i in range(len(ids))]
            out = self.model(
                input_ids=torch.tensor([ids], device=device),
                position_ids=torch.tensor([places], device=device),
                # without it transformers takes a jump of the positions for the beginning of another text
                attention_mask=torch.ones(1, len(ids), dtype=torch.long, device=device),
                use_cache=False,
            )
        finally:
            self.model.set_attn_implementation(NAME)
        logits: Tensor = out.logits[0]
        return logits

    def clear(self) -> None:
        """Forget the sequence."""
        self.slots.reset()
        self.lost.clear()
