"""A GGUF file that a person gives, converted once and kept. Free of torch until it converts.

A file is known by its sha256. What was hashed once is known again by path, size and time, so that a start does not
read gigabytes to find out that nothing changed.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sinkchat import locations
from sinkchat.models.fetch import digest_of
from sinkchat.models.gguf_parts import PART, gguf_parts
from sinkchat.models.kept import KeptModel, read_manifest
from sinkchat.models.progress import ProgressSink


@dataclass(frozen=True, slots=True)
class Converted:
    """The converted model and the hash of the file, or of all parts together, that it was made from."""

    folder: Path
    sha256: str


def converted(file: Path, name: str, progress: ProgressSink) -> Converted:
    """The converted model, made now if it is not there. Several processes may ask at once. Raises `ModelError`,
    `ModelRefused` where it cannot run."""
    parts = gguf_parts(file, name)
    stamps = [_stamp(part) for part in parts]
    sha256 = _remembered(stamps) or _digest(parts, progress)
    # A few digits tell files of one name apart; that it is made from this one, the manifest proves.
    kept = KeptModel(f"{_stem(file)}-{sha256[:8]}", file.name, sha256)
    if not kept.whole():
        with kept.alone(progress):
            if not kept.whole():
                _make(kept, parts, stamps, progress)
    else:
        kept.tidy()
    return Converted(kept.folder, sha256)


def _make(kept: KeptModel, parts: tuple[Path, ...], stamps: list[dict[str, Any]], progress: ProgressSink) -> None:
    from sinkchat.models.convert import convert

    with kept.workshop() as work:
        made, alone = work / "made", work / "source"
        made.mkdir()
        alone.mkdir()
        for part in parts:
            (alone / part.name).symlink_to(part.absolute())
        convert(tuple(alone / part.name for part in parts), made, kept.title, progress)
        kept.keep(made, work, {"source": parts[0].name, "source_files": stamps})


def _stem(file: Path) -> str:
    split = PART.fullmatch(file.name)
    stem = split[1] if split else file.stem
    return re.sub(r"[^\w.-]|^\.", "-", stem)[:80]


def _stamp(part: Path) -> dict[str, Any]:
    status = part.stat()
    return {"path": str(part.absolute()), "bytes": status.st_size, "changed_ns": status.st_mtime_ns}


def _remembered(stamps: list[dict[str, Any]]) -> str | None:
    models = locations.models_dir()
    for folder in models.iterdir() if models.is_dir() else ():
        manifest = read_manifest(folder)
        if manifest.get("source_files") == stamps and isinstance(manifest.get("source_sha256"), str):
            return str(manifest["source_sha256"])
    return None


def _digest(parts: tuple[Path, ...], progress: ProgressSink) -> str:
    digests = [digest_of(part, f"checking {part.name}", progress) for part in parts]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
