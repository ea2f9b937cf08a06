"""Files that others may read or have put there: none is waited for, none is read without end, and none is left half
written."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

MIB = 1 << 20


def expanded(path: str | Path) -> Path:
    """The path with `~` and `~name` resolved; as it is where there is no such person, as in a shell."""
    return Path(os.path.expanduser(path))


def open_regular(path: Path) -> BinaryIO:
    """Open to read, without waiting. Raises `OSError`, also for what is no regular file: a named pipe would be waited
    for, and a device may have no end."""
    # Without waiting for somebody who writes into a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most: int) -> bytes:
    """All of a regular file. Raises `OSError`, also for one of more than `most` bytes."""
    with open_regular(path) as file:
        return read_to_end(file, most)


def read_to_end(file: BinaryIO, most: int) -> bytes:
    """All that comes. Raises `OSError` once that is more than `most` bytes."""
    content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most // MIB:,} MiB")
    return content


@contextmanager
def written_whole(target: Path, overwrite: bool) -> Iterator[BinaryIO]:
    """A file beside the target, which takes its name in one step once all is written; on an error there is nothing of
    it. Raises `OSError`, and `FileExistsError` for a target that is there and not to be overwritten."""
    beside = target.with_name(f".sinkchat-{secrets.token_hex(8)}.tmp")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            if target.exists():
                os.chmod(beside, stat.S_IMODE(target.stat().st_mode))
            os.replace(beside, target)
        else:
            _name_new(beside, target)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(target.parent)


def _name_new(beside: Path, target: Path) -> None:
    """Give the file a name that nothing may have taken meanwhile. Raises FileExistsError."""
    try:
        os.link(beside, target)
    except FileExistsError:
        raise
    except OSError:
        # A file system without links: claim the name, then put the file there.
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        os.replace(beside, target)


def sync_folder(folder: Path) -> None:
    """Make the names of its files survive the machine's end too, where folders can be synced."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        return
    finally:
        os.close(descriptor)
