"""A GGUF model, written out once as a folder that can be quantized and mapped into memory.

GGUF's own blocks cannot be combined with the quantization of bitsandbytes, and reading the file takes longer every
time than loading the folder.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sinkchat.errors import ModelError, ModelRefused
from sinkchat.models.family import check_family
from sinkchat.models.gguf_header import GgufHeader, check_cutting, cut_by_digits, rope_parameters
from sinkchat.models.kept import check_disk
from sinkchat.models.libraries import quiet
from sinkchat.models.progress import Progress, ProgressSink

_FOR_TOKENIZER = 50_000_000
"""Bytes of disk, with some to spare."""
_FOR_VOCABULARY = 256_000_000
"""Bytes of memory while the file is read: its vocabulary and merges as objects."""


def convert(parts: Sequence[Path], folder: Path, title: str, progress: ProgressSink) -> None:
    """Write config, tokenizer with chat template, and bfloat16 safetensors into the existing, empty `folder`.

    `parts` is the file, or the parts that it is split into, in a folder of their own: the loader looks for other
    files there. Raises `ModelError`, and `ModelRefused` before weights are read where it cannot run.
    """
    stage = f"converting {title}, once"
    progress(Progress(stage, 0, None))
    import torch
    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig

    quiet()
    first = parts[0]
    options: dict[str, Any] = {"gguf_file": first.name, "trust_remote_code": False}
    try:
        with _loader_watched(parts, stage, progress) as header:
            config = AutoConfig.from_pretrained(first.parent, **options)
            check_family(config.to_dict(), title)
            check_cutting(header, title)
            _check_room(header, title)
            if rope := rope_parameters(header, config.rope_parameters, title):
                config.rope_parameters = rope
            tokenizer = AutoTokenizer.from_pretrained(first.parent, **options)
            if cut_by_digits(header):
                _cut_by_digits(tokenizer)
            model, report = AutoModelForCausalLM.from_pretrained(
                first.parent,
                config=config,
                quantization_config=GgufConfig(dequantize=True),
                dtype=torch.bfloat16,
                output_loading_info=True,
                **options,
            )
    except ModelError:
        raise
    except Exception as error:
        # A file that is not as expected raises anything, and tokenizers the bare class.
        if isinstance(error, OSError) and error.errno is not None:  # the system's
            raise
        raise _unreadable(error, title) from error
    _check_all_used(model, report, header, title)
    try:
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
    except SafetensorError as error:  # which is no OSError, and names the system's reason only in words
        full = os.strerror(errno.ENOSPC) in str(error)
        raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from error


def _unreadable(error: Exception, title: str) -> ModelError:
    said = " ".join(str(error).split())[:200].rstrip(".")
    if "architecture" in said and "not supported" in said:
        return ModelRefused(
            f"{title} is refused: transformers reads no GGUF file of its architecture ({said}); "
            "take the same model with safetensors weights."
        )
    return ModelError(
        f"The file {title} could not be converted ({said}); fetch it again, or take the same model with "
        "safetensors weights."
    )


def _check_room(header: GgufHeader, title: str) -> None:
    """Disk for what is written, and memory for all of it in bfloat16 beside the largest tensor in float32."""
    from sinkchat.models.memory import free_bytes

    elements = [math.prod(shape) for _, shape in header.weights]
    check_disk(2 * sum(elements) + _FOR_TOKENIZER, title)
    needed, free = 2 * sum(elements) + 8 * max(elements, default=0) + _FOR_VOCABULARY, free_bytes("cpu")
    if free is not None and needed > free:
        raise ModelError(
            f"Converting {title} needs {needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free; "
            "close other programs, or take the same model with safetensors weights."
        )


def _check_all_used(model: Any, report: Any, header: GgufHeader, title: str) -> None:
    """The loader passes over tensors that it has no place for, and a model without them would be another model."""
    stored = sum(math.prod(shape) for _, shape in header.weights)
    held = sum(parameter.numel() for parameter in model.parameters())
    missing = sorted(report["missing_keys"])
    if missing or stored != held:
        first = f", {missing[0]} is missing" if missing else ""
        raise ModelRefused(
            f"{title} is refused: its tensors hold {stored:,} numbers and the model built of them {held:,}{first}, "
            "so that the two are not the same model; take it with safetensors weights."
        )


@contextmanager
def _loader_watched(parts: Sequence[Path], stage: str, progress: ProgressSink) -> Iterator[GgufHeader]:
    """Show the loader's progress instead of its own bar, which would go to the terminal, and let it read the file
    once: it opens it three times, and each time takes seconds for the vocabulary. Parts are read as one file."""
    import gguf
    from transformers import modeling_gguf_pytorch_utils as loader

    bar, reader = loader.tqdm, gguf.GGUFReader

    def counted(tensors: Any, **_options: Any) -> Iterator[Any]:
        total = len(tensors)
        for done, tensor in enumerate(tensors):
            progress(Progress(stage, done, total))
            yield tensor

    @cache
    def read(path: str | Path) -> Any:
        whole = reader(path)
        for part in parts[1:]:
            whole.tensors.extend(reader(part).tensors)
        return whole

    loader.tqdm, gguf.GGUFReader = counted, lambda path, *_: read(str(path))
    try:
        yield GgufHeader(read(str(parts[0])))
    finally:
        loader.tqdm, gguf.GGUFReader = bar, reader


def _cut_by_digits(tokenizer: Any) -> None:
    """Each digit a piece of its own, then GPT-2's rule: without it, spaces before a digit are cut otherwise than the
    model was trained with, and the loader falls back to another rule."""
    from tokenizers import pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
