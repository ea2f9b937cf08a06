"""Tiny random models whose tokenizers know the recall probe's words."""

from __future__ import annotations

import string
from functools import cache
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import nn
from transformers import PreTrainedTokenizerFast

from sinkchat.cache.attention import NAME
from sinkchat.lab.recall.facts import NAMES, WORDS
from sinkchat.models.load import LoadedModel
from sinkchat.models.sampling import Sampling
from sinkchat.models.template import ChatTemplate
from tests.cache.product import facts
from tests.reference import tiny

TEXT = "The keeper of the lighthouse read the sea as others read a book, and the sea read him back.\n" * 3
LIVELY = Sampling(temperature=1.0, min_p=None, repetition_penalty=None)

_CORPUS = [TEXT, *(f" {word}" for word in WORDS), *(f"\n{name}:" for name in NAMES[::3])] * 3


@cache
def byte_level() -> PreTrainedTokenizerFast:
    """As GPT-2 and Llama 3 have it, without a token that begins every text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=2000, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(_CORPUS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False)


@cache
def sentence_piece() -> PreTrainedTokenizerFast:
    """As Llama 2 has it: a space before the whole text, and a token that begins it."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=["<unk>", "<s>"],
        initial_alphabet=list(string.printable),
        show_progress=False,
    )
    # no piece holds a line break and something else
    tokenizer.train_from_iterator([part for text in _CORPUS for part in (*text.splitlines(), "\n")], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", unk_token="<unk>", clean_up_tokenization_spaces=False
    )


@cache
def own() -> nn.Module:
    """The weights of `loaded()`, for the reference."""
    return tiny.tiny_llama(vocabulary=len(byte_level()))


@cache
def loaded(
    tokenizer: PreTrainedTokenizerFast | None = None,
    *,
    trained: int = 4096,
    sampling: Sampling = LIVELY,
    stops: frozenset[int] = frozenset(),
) -> LoadedModel:
    """Made of the tokenizer `byte_level()` unless one is given."""
    known: Any = tokenizer or byte_level()
    model = tiny.tiny_llama(vocabulary=len(known), max_position_embeddings=trained, attn_implementation=NAME)
    return LoadedModel(model, known, facts(model), sampling, stops, ChatTemplate(known))
