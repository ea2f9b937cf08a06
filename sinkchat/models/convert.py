"""The small model's GGUF file, written out once as a folder that can be quantized and mapped into memory.

GGUF's own 4-bit blocks cannot be combined with the quantization of bitsandbytes, and reading the file takes longer
every time than loading the folder.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sinkchat.errors import ModelError
from sinkchat.models.libraries import quiet
from sinkchat.models.progress import Progress, ProgressSink

_STAGE = "converting the small model, once"


def convert(gguf: Path, folder: Path, progress: ProgressSink) -> None:
    """Write config, tokenizer with chat template, and bfloat16 safetensors into the existing, empty `folder`.

    `gguf` should stand in a folder of its own: the loader looks for other files beside it.
    """
    progress(Progress(_STAGE, 0, None))
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    quiet()
    try:
        with _loader_watched(progress):
            tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name, trust_remote_code=False)
            _restore_pre_tokenizer(tokenizer)
            model = AutoModelForCausalLM.from_pretrained(
                gguf.parent,
                gguf_file=gguf.name,
                quantization_config=GgufConfig(dequantize=True),
                dtype=torch.bfloat16,
                trust_remote_code=False,
            )
    except (ValueError, KeyError, IndexError, RuntimeError, ImportError) as error:
        raise ModelError(f"The file {gguf.name} could not be converted ({error}); fetch it again.") from error
    try:
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
    except SafetensorError as error:  # which is no OSError, and names the system's reason only in words
        full = os.strerror(errno.ENOSPC) in str(error)
        raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from error


@contextmanager
def _loader_watched(progress: ProgressSink) -> Iterator[None]:
    """Show the loader's progress instead of its own bar, which would go to the terminal, and let it read the file
    once: it opens it three times, and each time takes seconds for the vocabulary."""
    import gguf
    from transformers import modeling_gguf_pytorch_utils as loader

    bar, reader = loader.tqdm, gguf.GGUFReader

    def counted(tensors: Any, **_options: Any) -> Iterator[Any]:
        total = len(tensors)
        for done, tensor in enumerate(tensors):
            progress(Progress(_STAGE, done, total))
            yield tensor

    loader.tqdm, gguf.GGUFReader = counted, cache(reader)
    try:
        yield
    finally:
        loader.tqdm, gguf.GGUFReader = bar, reader


def _restore_pre_tokenizer(tokenizer: Any) -> None:
    """The file names its rule of cutting text (`smollm`) and the loader falls back to another: without the rule,
    spaces before a digit are cut otherwise than the model was trained with."""
    from tokenizers import pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
