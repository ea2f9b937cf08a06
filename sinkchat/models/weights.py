"""The weight files of a model's folder, and what is in them: safetensors, and pickles where they are allowed.

Free of torch.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from sinkchat.errors import ModelError
from sinkchat.models.allowed import NOTHING, Allowed

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
PICKLED_INDEX = "pytorch_model.bin.index.json"
PICKLED_SINGLE = "pytorch_model.bin"

_LARGEST_HEADER = 100_000_000


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor of a checkpoint."""

    name: str
    shape: tuple[int, ...]
    bytes: int


def shards(index: Path, name: str) -> tuple[str, ...]:
    """File names that an index speaks of."""
    try:
        files = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        return tuple(sorted({str(file) for file in files}))
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ModelError(f"The weight index of {name} cannot be read ({error}); fetch the model again.") from error


def weight_files(folder: Path, name: str, allowed: Allowed = NOTHING) -> tuple[Path, ...]:
    """The files that hold the weights, all of them present; pickled ones only where they are allowed and there are no
    others. `name` is for the errors."""
    kinds = ((INDEX, SINGLE), (PICKLED_INDEX, PICKLED_SINGLE))[: 2 if allowed.pickle else 1]
    for index, single in kinds:
        if (folder / index).is_file():
            return _all_there(folder, shards(folder / index, name), name)
        if (folder / single).is_file():
            return (folder / single,)
    if (folder / "adapter_config.json").is_file():
        raise ModelError(f"{name} is an adapter without a model; merge it into its base model first.")
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt*")):
        raise only_pickled(name, allowed)
    raise ModelError(f"{name} has a config.json and no weights: there is no {SINGLE} in {folder}.")


def is_pickled(file: Path) -> bool:
    return file.suffix != ".safetensors"


def only_pickled(name: str, allowed: Allowed = NOTHING) -> ModelError:
    """The error for a model without safetensors."""
    if allowed.pickle:
        return ModelError(f"{name} has pickled weights under names that are not known, {PICKLED_SINGLE} is.")
    return ModelError(
        f"{name} has only pickled weights, which could run code and are not opened; "
        "take a model with safetensors weights, or say --allow-pickle if you trust its makers."
    )


def _all_there(folder: Path, files: tuple[str, ...], name: str) -> tuple[Path, ...]:
    if missing := [file for file in files if not (folder / file).is_file()]:
        raise ModelError(
            f"{len(missing)} of the {len(files)} weight files of {name} are missing, {missing[0]} first; "
            "fetch the model again."
        )
    return tuple(folder / file for file in files)


def stored_tensors(file: Path, name: str) -> tuple[StoredTensor, ...]:
    """What a safetensors file's header says is in it; raises `ModelError` for a broken or truncated file."""
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > _LARGEST_HEADER:
                raise ValueError("its header is too long")
            header = json.loads(stream.read(length))
        header.pop("__metadata__", None)
        tensors = tuple(
            StoredTensor(tensor, tuple(entry["shape"]), entry["data_offsets"][1] - entry["data_offsets"][0])
            for tensor, entry in header.items()
        )
        end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
        if file.stat().st_size < 8 + length + end:
            raise ValueError("it is cut short")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise ModelError(
            f"The weight file {file.name} of {name} is broken ({error}); fetch the model again."
        ) from error
    return tensors
