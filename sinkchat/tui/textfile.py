"""A text file that a person names: read whole, or refused with one sentence that says why."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from sinkchat.errors import UsageError
from sinkchat.files import expanded, read_regular

LARGEST = 4 * 1024 * 1024
"""Bytes: about a million tokens, an hour of reading for a small model on two cores."""

OFFERED = 200
"""Names looked at for a completion."""


def read_text(name: str) -> tuple[str, Path]:
    """The text of a file and its path, `~` resolved. Raises `UsageError`."""
    path = expanded(name.strip().strip("'\""))
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder; name a text file in it.")
        if not path.exists():
            raise UsageError(f"There is no file {path}; check the name, or where sinkchat was started.")
        if not path.is_file():
            raise UsageError(f"{path} is no regular file; name a text file.")
        size = path.stat().st_size
        if size > LARGEST:
            raise UsageError(f"{path} has {size / 2**20:.1f} MiB, and at most {LARGEST >> 20} MiB are read; cut it.")
        content = read_regular(path, LARGEST)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
    if b"\0" in content[:8192]:
        raise UsageError(f"{path} is a binary file; only text can be read.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: byte {error.start:,} does not fit; save it as UTF-8.") from error
    if not text.strip():
        raise UsageError(f"{path} is empty; there is nothing to read.")
    return text.replace("\r\n", "\n").replace("\r", "\n"), path


def complete_path(typed: str) -> list[str]:
    """Paths that begin as typed, folders with a slash at their end; hidden ones only where a dot was typed."""
    start = typed.rpartition("/")[2]
    written = typed[: len(typed) - len(start)]
    folder = expanded(written or ".")
    found: list[str] = []
    for entry in _entries(folder):
        if entry.name.startswith(start) and (start.startswith(".") or not entry.name.startswith(".")):
            found.append(written + entry.name + ("/" if entry.is_dir() else ""))
    return sorted(found, key=lambda name: (not name.endswith("/"), name))


def _entries(folder: Path) -> Iterator[Path]:
    try:
        yield from islice(folder.iterdir(), OFFERED)
    except OSError:
        return
