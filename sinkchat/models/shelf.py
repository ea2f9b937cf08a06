"""What models are on this machine, and whether their configs say that they run. Touches no network; free of torch."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from sinkchat import locations
from sinkchat.errors import ModelError, UsageError
from sinkchat.models import hub, small
from sinkchat.models.allowed import NOTHING, Allowed
from sinkchat.models.family import check_family, read_config
from sinkchat.models.fetch import SMOLLM2
from sinkchat.models.find import SMALL_MODEL, find
from sinkchat.models.kept import read_manifest
from sinkchat.models.progress import ProgressSink, folder_bytes
from sinkchat.models.quantized import stored_quant
from sinkchat.models.weights import weight_files

Place = Literal["small", "own", "hub"]


@dataclass(frozen=True, slots=True)
class Shelved:
    """One model."""

    name: str
    """What `--model` takes."""
    place: Place
    """The small model, sinkchat's own folder, or the hub's cache."""
    path: Path
    bytes: int | None
    """On the disk; None: it is not here yet."""
    family: str | None
    quant: str | None
    """What its weights are stored in; None: in none, or unknown."""
    source: str | None
    """The GGUF file that it was converted from."""
    problem: str | None
    """Why it cannot run, in one sentence; None: its config does not say so, and loading will prove the rest."""


def shelved(allowed: Allowed = NOTHING) -> list[Shelved]:
    """The small model first, here or not, then the own folder, then the hub's cache, each by name."""
    return [_small(), *_own(allowed), *_cached(allowed)]


def bring(
    name: str, progress: ProgressSink, allowed: Allowed = NOTHING, small_model_file: Path | None = None
) -> Path:
    """Fetch a model of the hub or the small one, or convert a GGUF file; the folder of its files.

    Without a network, what is here already is enough. Raises `ModelError`.
    """
    source = find(name, small_model_file=small_model_file, allowed=allowed)
    if source.kind == "small":
        return small.small_model(source.path, progress).folder
    if source.kind == "gguf" and source.path is not None:
        from sinkchat.models.gguf_file import converted

        return converted(source.path, source.name, progress).folder
    if source.kind == "folder" and source.path is not None:
        return source.path
    try:
        # Looked up even when it is here: its branch may have moved on.
        return hub.download(hub.parse(name), progress, allowed)
    except ModelError:
        if source.path is None:
            raise
        return source.path


def owned(name: str) -> Shelved:
    """The model of that name that sinkchat may remove. Raises `UsageError` where it is none of its own."""
    everything = shelved()
    for model in everything:
        if model.name == name and model.place != "hub" and model.bytes is not None:
            return model
    if any(model.name == name and model.place == "hub" for model in everything):
        raise UsageError(
            f"{name} lies in the hub's cache, which other programs share and sinkchat never removes from; "
            f"remove it with `hf cache rm model/{name}`."
        )
    own = [model.name for model in everything if model.place != "hub" and model.bytes is not None]
    has = f"it holds {', '.join(own)}" if own else "it is empty"
    raise UsageError(f"There is no model {name} in {locations.models_dir()}; {has}.")


def remove(model: Shelved) -> None:
    """Remove one of our own. Raises `ModelError` while another sinkchat makes it, or where it cannot be removed."""
    models = locations.models_dir()
    lock = FileLock(models / f"{model.path.name}.lock")
    try:
        with lock.acquire(timeout=0):
            # Out of sight at once: what a stop leaves behind is swept away like any work in progress.
            gone = models / f".{model.path.name}-removed"
            shutil.rmtree(gone, ignore_errors=True)
            model.path.rename(gone)
            shutil.rmtree(gone)
            if model.place == "small":
                (models / SMOLLM2.file_name).unlink(missing_ok=True)
    except Timeout:
        raise ModelError(f"{model.name} is being made by another sinkchat; wait for it, or end it first.") from None
    except OSError as error:
        raise ModelError(f"{model.name} cannot be removed from {models}: {error.strerror or error}.") from error
    with suppress(OSError):
        Path(lock.lock_file).unlink()


def _small() -> Shelved:
    folder = locations.models_dir() / small.NAME
    here = (folder / "config.json").is_file()
    size = folder_bytes(folder) if here else None
    return Shelved(SMALL_MODEL, "small", folder, size, "llama", None, SMOLLM2.file_name, None)


def _own(allowed: Allowed) -> Iterator[Shelved]:
    models = locations.models_dir()
    for folder in sorted(models.iterdir()) if models.is_dir() else ():
        if folder.is_dir() and not folder.name.startswith(".") and folder.name != small.NAME:
            source = read_manifest(folder).get("source")
            yield _looked_at(folder.name, "own", folder, folder_bytes(folder), str(source or "") or None, allowed)


def _cached(allowed: Allowed) -> Iterator[Shelved]:
    from huggingface_hub import CacheNotFound, scan_cache_dir
    from huggingface_hub.constants import HF_HUB_CACHE

    try:
        repos = scan_cache_dir(HF_HUB_CACHE).repos
    except (CacheNotFound, OSError, ValueError):  # none, or something else in its place
        return
    for repo in sorted(repos, key=lambda repo: repo.repo_id):
        if repo.repo_type != "model":
            continue
        for revision in sorted(repo.revisions, key=lambda revision: revision.commit_hash):
            ref = "" if "main" in revision.refs else "@" + min(revision.refs, default=revision.commit_hash)
            path, size = Path(revision.snapshot_path), int(revision.size_on_disk)
            yield _looked_at(repo.repo_id + ref, "hub", path, size, None, allowed)


def _looked_at(name: str, place: Place, path: Path, size: int, source: str | None, allowed: Allowed) -> Shelved:
    family = quant = problem = None
    try:
        config = read_config(path, name)
        family = str(config.get("model_type") or "") or None
        check_family(config, name, allowed)
        quant = stored_quant(config, name)
        weight_files(path, name, allowed)
    except ModelError as error:
        problem = str(error)
    return Shelved(name, place, path, size, family, quant, source, problem)
