"""What a person means by a model's name. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sinkchat.errors import ModelError

SMALL_MODEL = "SmolLM2-135M-Instruct"
"""The model that comes with the program. Its weights are under the Apache License 2.0."""


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a model's files are, or are to be had."""

    kind: Literal["small", "folder", "hub"]
    name: str
    """As the person named it."""
    path: Path | None
    """The folder; for the small model, a GGUF file to use instead of fetching one, or None."""
    revision: str | None


def find(name: str | None, *, small_model_file: Path | None = None) -> ModelSource:
    """The small model for None, a folder that exists, else a name on the hub. Touches no network."""
    if name is None:
        return ModelSource("small", SMALL_MODEL, small_model_file, None)
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelError(f"The folder {name} holds no model: it has no config.json.")
        return ModelSource("folder", name, folder, None)
    return ModelSource("hub", name, None, None)
