"""The small model's GGUF file, written out once as a folder that can be quantized and mapped into memory.

GGUF's own 4-bit blocks cannot be combined with the quantization of bitsandbytes, and reading the file takes longer
every time than loading the folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sinkchat.errors import ModelError
from sinkchat.models.libraries import quiet
from sinkchat.models.progress import Progress, ProgressSink

_STEPS = 3


def convert(gguf: Path, folder: Path, progress: ProgressSink) -> None:
    """Write config, tokenizer with chat template, and bfloat16 safetensors into the existing, empty `folder`."""
    stage = "converting the small model, once"
    progress(Progress(stage, 0, _STEPS))
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    quiet()
    try:
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name, trust_remote_code=False)
        _restore_pre_tokenizer(tokenizer)
        progress(Progress(stage, 1, _STEPS))
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch.bfloat16,
            trust_remote_code=False,
        )
    except (ValueError, KeyError, IndexError, RuntimeError, ImportError) as error:
        raise ModelError(f"The file {gguf.name} could not be converted ({error}); fetch it again.") from error
    progress(Progress(stage, 2, _STEPS))
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    progress(Progress(stage, _STEPS, _STEPS))


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
