"""What a person means by a model's name, and whether its files are here. Touches no network; free of torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sinkchat.errors import ModelError
from sinkchat.models import hub
from sinkchat.models.family import check_family, read_config, stored_quant
from sinkchat.models.weights import weight_files

SMALL_MODEL = "SmolLM2-135M-Instruct"
"""The model that comes with the program. Its weights are under the Apache License 2.0."""

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a model's files are, or are to be had."""

    kind: Literal["small", "folder", "hub"]
    name: str
    """As the person named it: without a revision."""
    path: Path | None
    """The folder of its files; None when they are not all here yet. For the small model, a GGUF file of it that is
    on this machine, or None."""
    revision: str | None
    """Of a hub model: the commit, once its files are here; until then the branch, tag or commit that was asked
    for. None means the main branch, a plain folder, or the small model before it is loaded."""


def find(name: str | None, *, small_model_file: Path | None = None) -> ModelSource:
    """The small model for None, else a folder of that name, else a model of the hub, `org/name` or
    `org/name@revision`.

    Raises `ModelError` for what can be neither, and `ModelRefused` where the files are here and cannot be run.
    """
    if name is None:
        return ModelSource("small", SMALL_MODEL, small_model_file, None)
    place = Path(name).expanduser()
    if place.is_dir():
        _check(place, name)
        return ModelSource("folder", name, place.absolute(), None)
    if place.is_file():
        raise ModelError(_not_a_folder(place, name))
    if _looks_like_a_path(name):
        raise ModelError(f"There is no folder {name}; give a folder that exists, or a Hugging Face name.")
    wanted = hub.parse(name)
    snapshot = hub.cached(wanted)
    if snapshot is None:
        return ModelSource("hub", wanted.repo, None, wanted.revision)
    _check(snapshot, name)
    return ModelSource("hub", wanted.repo, snapshot, snapshot.name)


def _check(folder: Path, name: str) -> None:
    config = read_config(folder, name)
    check_family(config, name)
    stored_quant(config, name)
    weight_files(folder, name)


def _looks_like_a_path(name: str) -> bool:
    return name.startswith(("/", ".", "~", "\\")) or name.endswith("/") or name.count("/") > 1


def _not_a_folder(file: Path, name: str) -> str:
    suffix = file.suffix.lower()
    if suffix == ".gguf":
        return (
            f"{name} is a GGUF file, which sinkchat does not open yet; "
            "give a folder or a Hugging Face name of the same model with safetensors weights."
        )
    if suffix in _PICKLED:
        return f"{name} is a pickled file, which could run code and is never opened; take safetensors weights."
    return f"{name} is a file; give the folder that holds the model, with its config.json, weights and tokenizer."
