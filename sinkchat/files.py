"""Reading files that others may have put there: none is waited for, and none is read without end."""

from __future__ import annotations

import errno
import os
import stat
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
