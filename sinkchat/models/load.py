"""A model, its tokenizer and its facts, ready for the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from transformers.utils.logging import set_tqdm_hook

import sinkchat.cache.bounded as _registered  # noqa: F401  the attention is known to transformers by its import
from sinkchat.cache.attention import NAME as ATTENTION
from sinkchat.errors import ModelError, ModelRefused
from sinkchat.models import hub
from sinkchat.models.allowed import Allowed
from sinkchat.models.facts import DEFAULT_WINDOW, ModelFacts
from sinkchat.models.family import check_family, read_config
from sinkchat.models.find import ModelSource
from sinkchat.models.footprint import weight_bytes
from sinkchat.models.gguf_file import converted
from sinkchat.models.libraries import quiet
from sinkchat.models.memory import Plan, check_memory, does_not_fit, layout_of
from sinkchat.models.pickled import pickled_tensors
from sinkchat.models.placement import Placement, place, possible_quants
from sinkchat.models.progress import Progress, ProgressSink, silent
from sinkchat.models.quantized import chosen_quant, stored_quant
from sinkchat.models.sampling import Sampling
from sinkchat.models.small import small_model
from sinkchat.models.spread import placed_whole, spread
from sinkchat.models.stated import SMALL_SAMPLING, stated, stated_sampling, stated_stops
from sinkchat.models.template import ChatTemplate
from sinkchat.models.text_part import loading_options, of_text, text_part
from sinkchat.models.weights import StoredTensor, is_pickled, stored_tensors, weight_files

INT8_THRESHOLD = 6.0
"""Of bitsandbytes' int8: hidden dimensions with a value beyond it are multiplied in 16 bits, as in LLM.int8().

Zero would multiply all in 8 bits, which loses quality where a model has such outliers, as those from about 7B on do.
The price is one synchronisation with the host for each matrix, so that an int8 step cannot be captured as a graph."""


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
    device_map: str = "none",
    window: int | None = None,
    progress: ProgressSink = silent,
) -> LoadedModel:
    """Fetch and convert what is not here yet, then load it with the attention of the bounded cache.

    `quant` is auto, none, nf4 or int8; `device` auto, cpu, cuda, cuda:N or mps; `dtype` auto, float32, bfloat16 or
    float16; `device_map` auto spreads the layers over all GPUs. `window` is the cache that is to fit beside the
    weights; None: the default one. What the config tells cannot run is refused before weights are read.
    Raises `ModelError`, `ModelRefused`, `UsageError`.
    """
    quiet()
    source, folder = _brought_here(source, progress)
    name, allowed = source.name, source.allowed
    config = read_config(folder, name)
    check_family(config, name, allowed)
    stored = stored_quant(config, name)
    files = weight_files(folder, name, allowed)

    progress(Progress(f"loading the tokenizer of {name}", 0, None))
    model_config, tokenizer = _described(folder, name, allowed)
    # Once more, with the defaults that a config.json leaves out.
    check_family(model_config.to_dict(), name, allowed)
    template = ChatTemplate(tokenizer)
    tensors = tuple(tensor for file in files for tensor in _tensors(file, name))
    part = text_part(model_config)
    if part is not None:
        tensors = of_text(tensors)

    text = model_config.get_text_config()
    checkpoint = model_config.dtype or text.dtype or torch.float32
    bits = chosen_quant(quant, stored, name)
    # A checkpoint that is quantized already has other shapes, and was made to fit.
    matrices = () if stored else tensors
    chosen = place(device=device, dtype=dtype, quant=bits, checkpoint=checkpoint, tensors=matrices)
    trained = int(getattr(text, "max_position_embeddings", None) or DEFAULT_WINDOW)
    layout = layout_of(model_config, name)
    several = spread(device_map, device, chosen.device)
    plan = Plan(
        "cuda:*" if several else str(chosen.device),
        chosen.quant,
        chosen.dtype,
        window or min(DEFAULT_WINDOW, trained),
        stored is not None,
    )
    possible = () if stored else possible_quants(chosen.device, tensors)
    check_memory(tensors, layout, plan, name, possible=possible)
    where = several.map(layout, plan) if several else {"device_map": {"": chosen.device}}
    if part is not None:
        where |= loading_options(part, model_config)
    with _memory_told(name, plan, possible), _progress_shown(f"loading {name}", tensors, progress):
        model = _model(folder, name, chosen, stored is not None, where, allowed, pickled=is_pickled(files[0]))
        placed_whole(model, name)
        held = weight_bytes(model)

    generation = stated(folder)
    stops = stated_stops(generation) | stated_stops(config) | template.stop_ids | {tokenizer.eos_token_id}
    facts = ModelFacts(
        name=name,
        revision=source.revision,
        family=model_config.model_type,
        layers=layout.layers,
        heads=text.num_attention_heads,
        kv_heads=layout.kv_heads,
        trained_length=trained,
        quant=_quant_in_force(model, chosen.quant),
        dtype=str(model.dtype).removeprefix("torch."),
        device=str(next(model.parameters()).device if several else chosen.device),
        weight_bytes=held,
    )
    sampling = SMALL_SAMPLING if source.kind == "small" else stated_sampling(generation)
    stop_ids = frozenset(stop for stop in stops if stop is not None)
    return LoadedModel(model, tokenizer, facts, sampling, stop_ids, template)


def _brought_here(source: ModelSource, progress: ProgressSink) -> tuple[ModelSource, Path]:
    if source.kind == "small":
        small = small_model(source.path, progress)
        return replace(source, path=small.folder, revision=small.sha256), small.folder
    if source.kind == "gguf" and source.path is not None:
        kept = converted(source.path, source.name, progress)
        return replace(source, path=kept.folder, revision=kept.sha256), kept.folder
    if source.path is not None:
        return source, source.path
    folder = hub.download(hub.HubName(source.name, source.revision), progress, source.allowed)
    return replace(source, path=folder, revision=folder.name), folder


def _tensors(file: Path, name: str) -> tuple[StoredTensor, ...]:
    return pickled_tensors(file, name) if is_pickled(file) else stored_tensors(file, name)


def _quant_in_force(model: Any, chosen: str) -> str:
    """`none` where the library unpacked a quantized checkpoint because this device cannot run it as it is."""
    return chosen if getattr(model, "is_quantized", False) else "none"


def _described(folder: Path, name: str, allowed: Allowed) -> tuple[Any, Any]:
    """Config and tokenizer."""
    options = {"trust_remote_code": allowed.remote_code, "local_files_only": True}
    try:
        config = AutoConfig.from_pretrained(folder, **options)
    except Exception as error:  # what checks the fields' types raises a class of its own
        raise ModelError(
            f"The config.json of {name} describes no model that can be built: {_short(error)}."
        ) from error
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    except Exception as error:  # tokenizers raises the bare class for a broken file
        raise ModelError(
            f"The tokenizer of {name} cannot be loaded ({_short(error)}); the folder needs its tokenizer.json."
        ) from error
    if not tokenizer.is_fast:
        raise ModelRefused(
            f"{name} is refused: its tokenizer has no tokenizer.json, and a typed control token could not be told "
            "from a real one; take a model that has the file."
        )
    return config, tokenizer


def _model(
    folder: Path,
    name: str,
    chosen: Placement,
    stored: bool,
    where: dict[str, Any],
    allowed: Allowed,
    *,
    pickled: bool,
) -> Any:
    bits = None if stored else _bits_and_bytes(chosen)
    try:
        model, report = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=chosen.dtype,
            attn_implementation=ATTENTION,
            use_safetensors=not pickled,
            weights_only=True,
            trust_remote_code=allowed.remote_code,
            local_files_only=True,
            output_loading_info=True,
            **where,
            **({"quantization_config": bits} if bits else {}),
        )
    except (OSError, ValueError, KeyError, TypeError, ImportError, AttributeError, UnpicklingError) as error:
        if isinstance(error, KeyError) and ATTENTION in error.args:
            raise ModelRefused(
                f"{name} is refused: its attention is its own and cannot be reached through transformers' attention "
                "interface, so it could not be bounded; choose a model of another family."
            ) from error
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
    if chosen.quant == "int8":
        return BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=INT8_THRESHOLD)
    return None


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
def _memory_told(name: str, plan: Plan, possible: Sequence[str]) -> Iterator[None]:
    way = "--quant nf4" if plan.quant == "none" and "nf4" in possible else ""
    full = "it ran out while the weights were loaded"
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise does_not_fit(name, plan.device, full, way) from error
    except RuntimeError as error:
        if "can't allocate memory" in str(error) or "out of memory" in str(error):
            raise does_not_fit(name, plan.device, full, way) from error
        raise ModelError(f"{name} cannot be loaded: {_short(error)}.") from error


def _short(error: BaseException) -> str:
    """The first sentence of a library's error, on one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text.split(". ")[0][:200].rstrip(".")
