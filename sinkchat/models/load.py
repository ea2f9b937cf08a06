"""A model, its tokenizer and its facts, ready for the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from sinkchat.errors import ModelError, ModelRefused
from sinkchat.models.facts import ModelFacts
from sinkchat.models.find import ModelSource
from sinkchat.models.progress import Progress, ProgressSink, silent
from sinkchat.models.sampling import Sampling
from sinkchat.models.template import ChatTemplate

try:
    from sinkchat.cache.attention import NAME as ATTENTION
except ImportError:
    ATTENTION = "eager"


@dataclass(frozen=True)
class LoadedModel:
    """Everything that the engine needs of a model."""

    model: Any
    """A causal language model of transformers, in eval mode, without gradients, on its device."""
    tokenizer: Any
    facts: ModelFacts
    sampling: Sampling
    """How this model's makers, or we for the small model, say that tokens should be drawn."""
    stop_ids: frozenset[int]
    """Tokens that end a reply."""


def load(
    source: ModelSource,
    *,
    quant: str = "auto",
    device: str = "auto",
    dtype: str = "auto",
    progress: ProgressSink = silent,
) -> LoadedModel:
    if source.path is None or not source.path.is_dir():
        raise ModelError("only folders so far")
    folder = source.path
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    if config.model_type != "llama":
        raise ModelRefused(f"{source.name} is a {config.model_type} model; only llama models run so far.")
    progress(Progress("loading", 0, None))
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    torch_dtype = torch.float32 if dtype == "auto" else getattr(torch, dtype)
    place = "cpu" if device == "auto" else device
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch_dtype, trust_remote_code=False, local_files_only=True, attn_implementation=ATTENTION
    )
    model = model.to(place).eval().requires_grad_(False)
    template = ChatTemplate(tokenizer)
    eos = model.generation_config.eos_token_id
    stops = {tokenizer.eos_token_id, template.stop_id, *(eos if isinstance(eos, list) else [eos])} - {None}
    tensors = [*model.parameters(), *model.buffers()]
    facts = ModelFacts(
        name=source.name,
        revision=source.revision,
        family=config.model_type,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        trained_length=config.max_position_embeddings,
        quant="none",
        dtype=str(torch_dtype).removeprefix("torch."),
        device=place,
        weight_bytes=sum(tensor.nbytes for tensor in tensors),
    )
    return LoadedModel(model, tokenizer, facts, Sampling(), frozenset(stops))
