"""Converted models, kept in the cache folder: each made once, whole or not at all, whatever interrupts it.

    models/NAME/        the converted model, and manifest.json
    models/NAME.lock    held by whoever makes it
    models/.NAME-*      work in progress; what a killed run left is removed by the next

The folder appears by a rename. Free of torch.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sinkchat import locations
from sinkchat.errors import ModelError
from sinkchat.models.progress import Progress, ProgressSink

MANIFEST = "manifest.json"
_FORMAT = 1
"""Raised when `convert` writes something else: older folders are then made again."""


@dataclass(frozen=True, slots=True)
class KeptModel:
    """One converted model, there or not yet."""

    name: str
    """Of its folder."""
    title: str
    """What it is called in messages: `the small model`, or the name of a file."""
    sha256: str
    """Of what it is made from."""

    @property
    def folder(self) -> Path:
        return locations.models_dir() / self.name

    def whole(self) -> bool:
        """Whether every file is there at its full size, made from this source in this format."""
        manifest = read_manifest(self.folder)
        try:
            return bool(
                manifest["format"] == _FORMAT
                and manifest["source_sha256"] == self.sha256
                and manifest["files"]
                and all((self.folder / file).stat().st_size == size for file, size in manifest["files"].items())
            )
        except (OSError, KeyError, TypeError, AttributeError):
            return False

    @contextmanager
    def alone(self, progress: ProgressSink) -> Iterator[Path]:
        """Holds the lock, with what killed runs left swept away; gives the folder of all kept models.

        Raises `ModelError` where the disk is full or cannot be written.
        """
        models = locations.models_dir()
        with self._told_plainly(models):
            models.mkdir(parents=True, exist_ok=True)
            lock = self._lock(models)
            while True:
                try:
                    lock.acquire(timeout=0.5)
                    break
                except Timeout:
                    progress(Progress(f"waiting for another sinkchat that makes {self.title}", 0, None))
            try:
                self._sweep(models)
                yield models
            finally:
                lock.release()

    @contextmanager
    def workshop(self) -> Iterator[Path]:
        """A folder for work in progress, removed in the end. Only while holding the lock."""
        work = Path(tempfile.mkdtemp(prefix=f".{self.name}-", dir=locations.models_dir()))
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def keep(self, made: Path, work: Path, source: Mapping[str, Any]) -> None:
        """Put the folder `made`, which lies in the workshop `work`, in its place; `source` is what the manifest says
        of where it came from."""
        self._write_manifest(made, source)
        if self.folder.exists():  # damaged: it failed the check
            self.folder.rename(work / "damaged")
        made.rename(self.folder)

    def tidy(self) -> None:
        """Sweep up after a killed run whose child outlived it, if nobody is at work."""
        models = locations.models_dir()
        if self._left(models):
            with suppress(Timeout, OSError), FileLock(models / f"{self.name}.lock", timeout=0):
                self._sweep(models)

    def _lock(self, models: Path) -> FileLock:
        return FileLock(models / f"{self.name}.lock")

    def _left(self, models: Path) -> list[Path]:
        prefix = f".{self.name}-"
        return [path for path in models.iterdir() if path.name.startswith(prefix)]

    def _sweep(self, models: Path) -> None:
        for left in self._left(models):
            shutil.rmtree(left, ignore_errors=True)

    def _write_manifest(self, folder: Path, source: Mapping[str, Any]) -> None:
        files = sorted(folder.iterdir())
        for file in files:
            _sync(file)
        manifest = {
            "format": _FORMAT,
            "source_sha256": self.sha256,
            **source,
            "transformers": version("transformers"),
            "files": {file.name: file.stat().st_size for file in files},
        }
        path = folder / MANIFEST
        path.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        _sync(path)

    @contextmanager
    def _told_plainly(self, models: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise ModelError(
                    f"The disk is full: {self.title} does not fit into {models}; make room, "
                    "or set SINKCHAT_CACHE_DIR to a folder on a larger disk."
                ) from error
            raise ModelError(
                f"{self.title[:1].upper() + self.title[1:]} cannot be kept in {models}: {error.strerror or error}; "
                "set SINKCHAT_CACHE_DIR to a folder that can be written."
            ) from error


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a kept model's folder says of itself; empty where it says nothing that can be read."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def check_disk(needed: int, title: str) -> None:
    """Raise `ModelError` unless the folder of kept models has that many bytes free."""
    models = locations.models_dir()
    free = shutil.disk_usage(models).free
    if free < needed:
        raise ModelError(
            f"{title[:1].upper() + title[1:]} needs {needed / 1e6:,.0f} MB of disk while it is made, and {models} "
            f"has {free / 1e6:,.0f} MB free; make room, or set SINKCHAT_CACHE_DIR to a folder on a larger disk."
        )


def _sync(file: Path) -> None:
    """A rename may reach the disk before what was written: after a loss of power sizes would be right, bytes not."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
