"""A session's journal: one append-only file, one line per record, written as things happen.

No byte that was written is ever changed or removed. What was left of a line when the program was killed stays where
it is; when the session is resumed, the record behind it says so. A journal with any other damage can be read and
exported, around the damage, and cannot be resumed.

What cannot be written, because a disk is full or gone, waits in memory and is written, in order, as soon as it can
be: the chat goes on meanwhile, and `warning` says why. What still waits at the end is kept, with all the rest, in the
folder for temporary files.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sinkchat.chat.line import FIRST, Entry, write_line
from sinkchat.chat.reading import Reading, read_journal
from sinkchat.chat.records import Record, TornLine
from sinkchat.errors import JournalError
from sinkchat.files import sync_folder

fcntl: Any
try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None

SUFFIX = ".jsonl"

_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class Journal:
    """The writing end. Held by one process at a time, and by one thread of it."""

    def __init__(self, path: Path, descriptor: int, reading: Reading | None) -> None:
        self.path = path
        self.id = path.name.removesuffix(SUFFIX)
        self.entries: tuple[Entry, ...] = reading.entries if reading else ()
        """What was in it when it was opened."""
        self.warning: str | None = None
        """Why records wait in memory; None while everything is on the disk."""
        self._descriptor = descriptor
        self._waiting = bytearray()
        self._number = reading.next_number if reading else 0
        self._checksum = reading.checksum if reading else FIRST

    @classmethod
    def create(cls, folder: Path) -> Journal:
        """A new session. Raises `JournalError` when the folder cannot be written to."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path, descriptor = _create_file(folder)
            _lock(descriptor, path)
            sync_folder(folder)
        except OSError as error:
            raise JournalError(
                f"No session can be kept in {folder} ({error.strerror}); make that folder writable, "
                "or name another one in SINKCHAT_DATA_DIR."
            ) from error
        return cls(path, descriptor, None)

    @classmethod
    def open(cls, path: Path) -> Journal:
        """A session to be resumed. Raises `JournalError` when it is in use, damaged or cannot be written to."""
        session = path.name.removesuffix(SUFFIX)
        try:
            descriptor = os.open(path, _FLAGS)
        except OSError as error:
            raise JournalError(
                f"The session {session} cannot be opened ({error.strerror}); check {path}, or start a new session."
            ) from error
        try:
            _lock(descriptor, path)
            reading = read_journal(path)
            if reading.damage:
                raise JournalError(
                    f"The session {session} cannot be resumed: {reading.damage[0]} in {path}; "
                    f"`sinkchat export {session}` still writes out everything else that was said."
                )
        except BaseException:
            os.close(descriptor)
            raise
        journal = cls(path, descriptor, reading)
        if reading.unended:
            journal._waiting += b"\n"
        elif reading.torn:
            # On the same line, so that a kill right now leaves one torn line again.
            journal.append(TornLine(reading.torn))
        return journal

    @property
    def closed(self) -> bool:
        return self._descriptor < 0

    def append(self, record: Record) -> Entry:
        """Write a record; it survives the end of this process, and after `sync` that of the machine."""
        if self.closed:
            raise JournalError(f"The session {self.id} is closed; start a new one.")
        entry = Entry(self._number, round(time.time(), 3), record)
        line, self._checksum = write_line(entry, self._checksum)
        self._number += 1
        self._waiting += line
        self._write()
        return entry

    def sync(self) -> None:
        """Put what was written on the disk."""
        self._write()
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            self._warn(error)

    def close(self) -> None:
        """Raises `JournalError` when records are left that could not be written, and says where they are instead."""
        if self.closed:
            return
        self.sync()
        left = self._waiting.count(b"\n")
        kept = self._keep_elsewhere() if left else None
        self.abandon()
        if left:
            saved = f"all of it is in {kept}, and `--resume {kept}` goes on with it" if kept else "they are lost"
            raise JournalError(
                f"The last {left} records of session {self.id} are not in {self.path}, whose disk is full or gone; "
                f"{saved}."
            )

    def _keep_elsewhere(self) -> Path | None:
        """The whole session in the folder for temporary files; None where that cannot be either."""
        try:
            descriptor, name = tempfile.mkstemp(prefix=f"{self.id}-", suffix=SUFFIX)
        except OSError:
            return None
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.lseek(self._descriptor, 0, os.SEEK_SET)
                while piece := os.read(self._descriptor, 1 << 20):
                    file.write(piece)
                file.write(self._waiting)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(name)
            return None
        return Path(name)

    def discard(self) -> None:
        """Close it and remove the file: for a session in which nothing was said."""
        if not self.closed:
            self.path.unlink(missing_ok=True)
            self.abandon()

    def abandon(self) -> None:
        """Let go of the file as the end of the process would."""
        if not self.closed:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self) -> None:
        try:
            while self._waiting:
                # One write holds whole lines, so that what is torn when the process dies is the last one at most.
                del self._waiting[: os.write(self._descriptor, self._waiting)]
        except OSError as error:
            self._warn(error)
        else:
            self.warning = None

    def _warn(self, error: OSError) -> None:
        self.warning = (
            f"The journal {self.path} cannot be written ({error.strerror}); the chat goes on and the rest is kept in "
            "memory: free some space, or /export to another disk."
        )


def _create_file(folder: Path) -> tuple[Path, int]:
    while True:
        # UTC, so that the names sort by time in spite of summer and travel.
        moment = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
        path = folder / f"{moment}-{secrets.token_hex(2)}{SUFFIX}"
        try:
            return path, os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue


def _lock(descriptor: int, path: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise JournalError(
            f"The session {path.name.removesuffix(SUFFIX)} is open in another sinkchat; "
            "go on there, or start a new session here."
        ) from None
    except OSError:
        return  # a file system without locks
