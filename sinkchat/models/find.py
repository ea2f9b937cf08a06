"""What a person means by a model's name, and whether its files are here. Touches no network; free of torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sinkchat import locations
from sinkchat.errors import ModelError
from sinkchat.files import expanded
from sinkchat.models import hub
from sinkchat.models.allowed import NOTHING, Allowed
from sinkchat.models.family import check_family, read_config
from sinkchat.models.gguf_parts import gguf_parts
from sinkchat.models.quantized import stored_quant
from sinkchat.models.weights import weight_files

SMALL_MODEL = "SmolLM2-135M-Instruct"
"""The model that comes with the program. Its weights are under the Apache License 2.0."""

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a model's files are, or are to be had."""

    kind: Literal["small", "folder", "gguf", "hub"]
    name: str
    """As the person named it: without a revision."""
    path: Path | None
    """The folder of its files, or a GGUF file; None when they are not all here yet. For the small model, a GGUF file
    of it that is on this machine, or None."""
    revision: str | None
    """Of a hub model: the commit, once its files are here; until then the branch, tag or commit that was asked
    for. None means the main branch, a plain folder, or a GGUF file or the small model before it is loaded."""
    allowed: Allowed = NOTHING
    """What its files may do."""


def find(name: str | None, *, small_model_file: Path | None = None, allowed: Allowed = NOTHING) -> ModelSource:
    """The small model for None or its name, else a folder or a GGUF file of that name, else one kept in sinkchat's
    own folder, else a model of the hub, `org/name` or `org/name@revision`.

    Raises `ModelError` for what can be none of them, and `ModelRefused` where the files are here and cannot be run.
    """
    if name is None or name == SMALL_MODEL:
        return ModelSource("small", SMALL_MODEL, small_model_file, None)
    place = expanded(name)
    if place.is_dir():
        _check(place, name, allowed)
        return ModelSource("folder", name, place.absolute(), None, allowed)
    if place.is_file():
        if place.suffix.lower() != ".gguf":
            raise ModelError(_not_a_folder(place, name))
        gguf_parts(place, name)
        return ModelSource("gguf", name, place.absolute(), None, allowed)
    if _looks_like_a_path(name):
        what = "file" if name.lower().endswith(".gguf") else "folder"
        raise ModelError(f"There is no {what} {name}; give a {what} that exists, or a Hugging Face name.")
    own = locations.models_dir() / name
    if "/" not in name and (own / "config.json").is_file():
        _check(own, name, allowed)
        return ModelSource("folder", name, own, None, allowed)
    wanted = hub.parse(name)
    snapshot = hub.cached(wanted, allowed)
    if snapshot is None:
        return ModelSource("hub", wanted.repo, None, wanted.revision, allowed)
    _check(snapshot, name, allowed)
    return ModelSource("hub", wanted.repo, snapshot, snapshot.name, allowed)


def _check(folder: Path, name: str, allowed: Allowed) -> None:
    config = read_config(folder, name)
    check_family(config, name, allowed)
    stored_quant(config, name)
    weight_files(folder, name, allowed)


def _looks_like_a_path(name: str) -> bool:
    return name.startswith(("/", ".", "~", "\\")) or name.endswith(("/", ".gguf", ".GGUF")) or name.count("/") > 1


def _not_a_folder(file: Path, name: str) -> str:
    if file.suffix.lower() in _PICKLED:
        return (
            f"{name} is a pickled file, which could run code and is never opened alone; give the folder of a model."
        )
    return f"{name} is a file; give the folder that holds the model, with its config.json, weights and tokenizer."
