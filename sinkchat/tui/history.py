"""What was typed before, on disk: one JSON text a line, appended in one write so that two chats do not mix."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from sinkchat.files import MIB, read_regular

KEPT = 1000
"""Entries that are offered; the file is cut down to them when it has grown too large."""

LONGEST = 20_000
"""Characters of an entry that is kept: a pasted file is no history."""

_LARGE = 4 * 1024 * 1024


class History:
    """The entries, oldest first. A file that cannot be read or written costs the history, never the chat."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.entries: list[str] = _read(path)
        self.trouble = ""
        """Why the latest entry is not on disk; empty if it is."""

    def add(self, text: str) -> None:
        if not text.strip() or len(text) > LONGEST or (self.entries and self.entries[-1] == text):
            return
        self.entries.append(text)
        try:
            _append(self._path, text)
            if self._path.stat().st_size > _LARGE:
                _replace(self._path, self.entries[-KEPT:])
            self.trouble = ""
        except OSError as error:
            self.trouble = f"The input history {self._path} cannot be written: {error.strerror or error}."


class Recall:
    """A walk through the history, from what is being typed back to the oldest entry."""

    def __init__(self, entries: Sequence[str]) -> None:
        self._entries = entries
        self._index: int | None = None
        self._draft = ""

    def older(self, typed: str) -> str | None:
        """The entry before the one that is shown; None at the oldest."""
        index = len(self._entries) if self._index is None else self._index
        if index == 0:
            return None
        if self._index is None:
            self._draft = typed
        self._index = index - 1
        return self._entries[self._index]

    def newer(self) -> str | None:
        """The entry after the one that is shown, at last what was being typed; None if that is shown."""
        if self._index is None:
            return None
        self._index += 1
        if self._index < len(self._entries):
            return self._entries[self._index]
        self._index = None
        return self._draft

    def leave(self) -> None:
        """What is shown was changed or sent: the walk begins anew."""
        self._index = None


def _read(path: Path) -> list[str]:
    try:
        lines = read_regular(path, 64 * MIB).decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []
    entries: list[str] = []
    for line in lines[-KEPT:]:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, str):
            entries.append(entry)
    return entries


def _append(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, _line(text))
    finally:
        os.close(descriptor)


def _replace(path: Path, entries: Sequence[str]) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.touch(mode=0o600)
    temporary.write_bytes(b"".join(_line(entry) for entry in entries))
    temporary.replace(path)


def _line(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=True).encode("ascii") + b"\n"
