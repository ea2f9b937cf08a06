"""A model, its tokenizer and its facts, ready for the engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from transformers.utils.logging import set_tqdm_hook

import sinkchat.cache.bounded as _registered  # noqa: F401  the attention is known to transformers by its import
from sinkchat.cache.attention import NAME as ATTENTION
from sinkchat.errors import ModelError, ModelRefused
from sinkchat.models import hub
from sinkchat.models.facts import ModelFacts
from sinkchat.models.family import check_family, chosen_quant, read_config, stored_quant
from sinkchat.models.find import ModelSource
from sinkchat.models.footprint import weight_bytes
from sinkchat.models.libraries import quiet
from sinkchat.models.placement import Placement, check_memory, needed_bytes, out_of_memory, place
from sinkchat.models.progress import Progress, ProgressSink, silent
from sinkchat.models.sampling import Sampling
from sinkchat.models.small import small_model
from sinkchat.models.stated import SMALL_SAMPLING, stated, stated_sampling, stated_stops
from sinkchat.models.template import ChatTemplate
from sinkchat.models.weights import StoredTensor, stored_tensors, weight_files


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
    """Tokens that end a reply: the makers', the tokenizer's, and the one that the chat template ends a reply with."""
    template: ChatTemplate


def load(
    source: ModelSource,
    *,
    quant: str = "auto",
    device: str = "auto",
    dtype: str = "auto",
    progress: ProgressSink = silent,
) -> LoadedModel:
    """Fetch and convert what is not here yet, then load it with the attention of the bounded cache.

    `quant` is auto, none, nf4 or int8; `device` auto, cpu, cuda, cuda:N or mps; `dtype` auto, float32, bfloat16 or
    float16. What cannot run is refused before weights are read. Raises `ModelError`, `ModelRefused`, `UsageError`.
    """
    quiet()
    source, folder = _brought_here(source, progress)
    name = source.name
    config = read_config(folder, name)
    check_family(config, name)
    stored = stored_quant(config, name)
    files = weight_files(folder, name)
    tensors = tuple(tensor for file in files for tensor in stored_tensors(file, name))

    progress(Progress(f"loading the tokenizer of {name}", 0, None))
    model_config, tokenizer = _described(folder, name)
    template = ChatTemplate(tokenizer)

    checkpoint = model_config.dtype or torch.float32
    bits = chosen_quant(quant, stored, name)
    # A checkpoint that is quantized already has other shapes, and was made to fit.
    matrices = () if stored else tensors
    chosen = place(device=device, dtype=dtype, quant=bits, checkpoint=checkpoint, tensors=matrices)
    check_memory(needed_bytes(tensors, chosen, stored=stored is not None), chosen.device, name)
    with _memory_told(name, chosen.device), _progress_shown(f"loading {name}", tensors, progress):
        model = _model(folder, name, chosen, stored is not None)
        held = weight_bytes(model)

    generation = stated(folder)
    stops = stated_stops(generation) | stated_stops(config) | template.stop_ids | {tokenizer.eos_token_id}
    facts = ModelFacts(
        name=name,
        revision=source.revision,
        family=model_config.model_type,
        layers=model_config.num_hidden_layers,
        heads=model_config.num_attention_heads,
        kv_heads=model_config.num_key_value_heads,
        trained_length=model_config.max_position_embeddings,
        quant=chosen.quant,
        dtype=str(model.dtype).removeprefix("torch."),
        device=str(chosen.device),
        weight_bytes=held,
    )
    sampling = SMALL_SAMPLING if source.kind == "small" else stated_sampling(generation)
    stop_ids = frozenset(stop for stop in stops if stop is not None)
    return LoadedModel(model, tokenizer, facts, sampling, stop_ids, template)


def _brought_here(source: ModelSource, progress: ProgressSink) -> tuple[ModelSource, Path]:
    if source.kind == "small":
        small = small_model(source.path, progress)
        return replace(source, path=small.folder, revision=small.sha256), small.folder
    if source.path is not None:
        return source, source.path
    folder = hub.download(hub.HubName(source.name, source.revision), progress)
    return replace(source, path=folder, revision=folder.name), folder


def _described(folder: Path, name: str) -> tuple[Any, Any]:
    """Config and tokenizer."""
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"The config.json of {name} describes no model that can be built: {_short(error)}."
        ) from error
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError, ImportError, AttributeError) as error:
        raise ModelError(
            f"The tokenizer of {name} cannot be loaded ({_short(error)}); the folder needs its tokenizer.json."
        ) from error
    if not tokenizer.is_fast:
        raise ModelRefused(
            f"{name} is refused: its tokenizer has no tokenizer.json, and a typed control token could not be told "
            "from a real one; take a model that has the file."
        )
    return config, tokenizer


def _model(folder: Path, name: str, chosen: Placement, stored: bool) -> Any:
    bits = None if stored else _bits_and_bytes(chosen)
    try:
        model, report = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=chosen.dtype,
            device_map={"": chosen.device},
            attn_implementation=ATTENTION,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
            **({"quantization_config": bits} if bits else {}),
        )
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        raise ModelError(f"{name} cannot be loaded: {_short(error)}.") from error
    if missing := sorted(report["missing_keys"]):
        raise ModelError(
            f"The weights of {name} are incomplete: {len(missing)} tensors are missing, {missing[0]} first; "
            "fetch the model again."
        )
    return model.eval().requires_grad_(False)


def _bits_and_bytes(chosen: Placement) -> Any:
    if chosen.quant == "nf4":
        return BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=chosen.dtype,
        )
    return BitsAndBytesConfig(load_in_8bit=True) if chosen.quant == "int8" else None


@contextmanager
def _progress_shown(stage: str, tensors: tuple[StoredTensor, ...], progress: ProgressSink) -> Iterator[None]:
    """Turn the library's bar over the tensors into progress in bytes of the checkpoint."""
    sizes = {tensor.name: tensor.bytes for tensor in tensors}
    total = sum(sizes.values())
    progress(Progress(stage, 0, total, "B"))

    def counted(items: Any) -> Iterator[Any]:
        done = 0
        for item in items:
            yield item
            done += sizes.get(item[0], 0)
            progress(Progress(stage, done, total, "B"))

    def bar(factory: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return counted(args[0]) if kwargs.get("desc") == "Loading weights" and args else factory(*args, **kwargs)

    before = set_tqdm_hook(bar)
    try:
        yield
    finally:
        set_tqdm_hook(before)
    progress(Progress(stage, total, total, "B"))


@contextmanager
def _memory_told(name: str, device: torch.device) -> Iterator[None]:
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise out_of_memory(name, device, "it ran out while the weights were loaded") from error
    except RuntimeError as error:
        if "can't allocate memory" in str(error) or "out of memory" in str(error):
            raise out_of_memory(name, device, "it ran out while the weights were loaded") from error
        raise ModelError(f"{name} cannot be loaded: {_short(error)}.") from error


def _short(error: BaseException) -> str:
    """The first sentence of a library's error, on one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text.split(". ")[0][:200].rstrip(".")
