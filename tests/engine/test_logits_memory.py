"""A vocabulary of 250,000 makes a row of logits a megabyte: no more than a few hundred of them are ever held."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sinkchat.cache.attention import NAME
from sinkchat.engine.engine import CHUNK_LOGITS, SinkEngine
from sinkchat.engine.events import ChunkRead
from sinkchat.engine.sequence import LOSS_ROWS
from sinkchat.models.load import LoadedModel
from tests.cache.product import facts
from tests.engine.listening import GREEDY, template, tokenizer
from tests.reference import tiny

VOCABULARY = 250_000


class Largest(TorchDispatchMode):
    """The most numbers that one tensor of the vocabulary's width has, by its dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[torch.dtype, int] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor) and tensor.dim() and tensor.shape[-1] == VOCABULARY:
                self.seen[tensor.dtype] = max(self.seen.get(tensor.dtype, 0), tensor.numel())
        return made


def test_logits_are_bounded_and_float32_ones_more_so() -> None:
    model = tiny.tiny_llama(vocabulary=VOCABULARY, layers=1, attn_implementation=NAME).to(torch.bfloat16)
    loaded = LoadedModel(model, tokenizer(), facts(model), GREEDY, frozenset(), template())
    engine = SinkEngine(loaded, sinks=4, window=64)
    with Largest() as largest:
        chunks = [event for event in engine.prefill(tiny.random_tokens(600)) if isinstance(event, ChunkRead)]
    assert len(chunks) > 2
    assert 100 * VOCABULARY < largest.seen[torch.bfloat16] <= CHUNK_LOGITS
    assert VOCABULARY < largest.seen[torch.float32] <= LOSS_ROWS * VOCABULARY
