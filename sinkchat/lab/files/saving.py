"""Where an evaluation's files go: each is written whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from sinkchat.errors import SinkchatError, UsageError
from sinkchat.files import expanded, written_whole

_PIECE = 1 << 20
"""Characters that are encoded at a time."""


def check_target(path: Path | str) -> Path:
    """The file that is to be written, where it can be one; a link's is the one that it leads to. Raises
    `UsageError`."""
    if not str(path):
        raise UsageError("A file's name cannot be empty; name one, or leave its flag out.")
    try:
        target = expanded(path).resolve()
        if target.is_dir():
            raise UsageError(f"{path} is a folder; name a file in it.")
        if not target.parent.is_dir():
            raise UsageError(f"There is no folder {target.parent}; make it first, or name a file in another one.")
        if target.exists() and not target.is_file():
            raise UsageError(f"{path} is no ordinary file; name another one.")
        return target
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name, links in a circle
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{path} cannot be a file's name ({reason}); take another one.") from error


def try_target(path: Path | str) -> Path:
    """As `check_target`; and a file is made in its folder and taken away again. Raises `UsageError`.

    Asked before anything is measured, so that hours of work do not end in a name that cannot be written.
    """
    target = check_target(path)
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            return target
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"{path} cannot be written ({reason}); take another name or another folder.") from error


def save(path: Path | str, pieces: Iterable[str]) -> None:
    """Write the pieces, one behind the other, in UTF-8, over what was there. Raises `SinkchatError`."""
    target = check_target(path)
    try:
        with written_whole(target, overwrite=True) as file:
            waiting: list[str] = []
            length = 0
            for piece in pieces:
                waiting.append(piece)
                length += len(piece)
                if length >= _PIECE:
                    file.write("".join(waiting).encode("utf-8"))
                    waiting, length = [], 0
            file.write("".join(waiting).encode("utf-8"))
    except OSError as error:
        reason = error.strerror or error
        raise SinkchatError(f"{path} cannot be written ({reason}); take another name or another folder.") from error
