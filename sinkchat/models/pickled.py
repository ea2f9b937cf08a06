"""What is in a pickled weight file, read without its numbers. Only for files that a person allowed."""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError

import torch
from torch import Tensor

from sinkchat.errors import ModelError
from sinkchat.models.weights import StoredTensor


def pickled_tensors(file: Path, name: str) -> tuple[StoredTensor, ...]:
    """Names and shapes. The restricted unpickler refuses whatever is not a tensor; raises `ModelError`."""
    try:
        state = torch.load(file, map_location="meta", weights_only=True, mmap=True)
        return tuple(
            StoredTensor(key, tuple(tensor.shape), tensor.nbytes)
            for key, tensor in state.items()
            if isinstance(tensor, Tensor)
        )
    except (OSError, RuntimeError, ValueError, EOFError, AttributeError, UnpicklingError) as error:
        reason = " ".join(str(error).split())[:120].split(". ")[0]
        raise ModelError(
            f"The pickled weight file {file.name} of {name} is not opened ({reason}); take safetensors weights."
        ) from error
