"""A token tells what learned sinks took of the attention, against the model's own eager attention."""

from __future__ import annotations

from typing import Any

import torch

from sinkchat.cache.attention import NAME
from sinkchat.engine.engine import SinkEngine
from sinkchat.engine.events import Token
from sinkchat.models.load import LoadedModel
from tests.engine.listening import GREEDY, Listener, engine, facts, prompt, template, tokenizer
from tests.families.families import BY_NAME
from tests.families.models import random_model, tiny_config


def gpt_oss(attention: str) -> Any:
    config = tiny_config(BY_NAME["gpt_oss"], "default")
    config.vocab_size = len(tokenizer())
    return random_model(config, attention)


def test_a_token_tells_what_learned_sinks_took_of_its_query() -> None:
    ours = gpt_oss(NAME)
    loaded = LoadedModel(ours, tokenizer(), facts(ours), GREEDY, frozenset(), template())
    listener = Listener(SinkEngine(loaded, sinks=4, window=24))
    listener.hear(listener.engine.prefill(prompt(7)))
    tokens = [event for event in listener.hear(listener.engine.generate(3)) if isinstance(event, Token)]
    own = gpt_oss("eager")(torch.tensor([listener.ids]), output_attentions=True)
    for token in tokens:
        query = token.cache.position - 1
        # eager attention drops the column of the learned sink, so that a row lacks what it took
        taken = torch.stack([1 - layer[0, :, query].sum(-1) for layer in own.attentions])  # [L, H]
        assert token.learned_share is not None
        assert abs(token.learned_share - float(taken.mean())) < 1e-4


def test_a_model_without_them_tells_none() -> None:
    listener = Listener(engine())
    listener.hear(listener.engine.prefill(prompt(7)))
    assert listener.hear(listener.engine.generate(1))[0].learned_share is None
