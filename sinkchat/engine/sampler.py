"""Drawing the next token, through transformers' own logits processors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from sinkchat.models.sampling import Sampling


class Sampler:
    """Draws token ids from raw logits. The same seed and logits give the same ids."""

    def __init__(self, sampling: Sampling) -> None:
        # a seed of its own when none is given, so that the journal can name it and a run can be repeated
        seed = sampling.seed if sampling.seed is not None else int(torch.seed() % 2**31)
        self.sampling = replace(sampling, seed=seed)
        # drawn on the CPU, so that a seed means the same on every device
        self._generator = torch.Generator().manual_seed(seed)
        self._penalty = LogitsProcessorList()
        if sampling.repetition_penalty not in (None, 1.0):
            self._penalty.append(RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty))
        self._warpers = LogitsProcessorList()
        if sampling.temperature not in (0.0, 1.0):
            self._warpers.append(TemperatureLogitsWarper(float(sampling.temperature)))
        if sampling.top_k:
            self._warpers.append(TopKLogitsWarper(sampling.top_k))
        if sampling.top_p is not None and sampling.top_p < 1.0:
            self._warpers.append(TopPLogitsWarper(sampling.top_p))
        if sampling.min_p:
            self._warpers.append(MinPLogitsWarper(sampling.min_p))

    def draw(self, logits: Tensor, context: Sequence[int], banned: Sequence[int] = ()) -> int:
        """logits: `[V]` raw. context: the sequence so far. banned: ids that get a logit of minus infinity."""
        recent = torch.tensor([context[-self.sampling.repetition_window :]], dtype=torch.long)
        scores = logits.to("cpu", torch.float32, copy=True)[None]
        if recent.numel():
            scores = self._penalty(recent, scores)
        scores[:, list(banned)] = float("-inf")
        if self.sampling.temperature == 0:
            return int(scores.argmax())
        chances = torch.softmax(self._warpers(recent, scores), dim=-1)
        return int(torch.multinomial(chances[0], 1, generator=self._generator))
