"""The safetensors files of a model's folder, and what is in them. Free of torch."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from sinkchat.errors import ModelError

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

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


def weight_files(folder: Path, name: str) -> tuple[Path, ...]:
    """The files that hold the weights, all of them present. `name` is for the errors."""
    index = folder / INDEX
    files = tuple(folder / file for file in shards(index, name)) if index.is_file() else (folder / SINGLE,)
    missing = [file.name for file in files if not file.is_file()]
    if not missing:
        return files
    if index.is_file():
        raise ModelError(
            f"{len(missing)} of the {len(files)} weight files of {name} are missing, {missing[0]} first; "
            "fetch the model again."
        )
    if (folder / "adapter_config.json").is_file():
        raise ModelError(f"{name} is an adapter without a model; merge it into its base model first.")
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt*")):
        raise ModelError(
            f"{name} has only pickled weights, which could run code and are never opened; "
            "take a model with safetensors weights."
        )
    raise ModelError(f"{name} has a config.json and no weights: there is no {SINGLE} in {folder}.")


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
