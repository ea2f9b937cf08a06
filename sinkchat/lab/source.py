"""The text that is read: a file's, standard input's, or English that every Python carries. Whole, or refused with one
sentence that says why."""

from __future__ import annotations

import codecs
import errno
import hashlib
import os
import sys
from dataclasses import dataclass

from sinkchat.errors import UsageError
from sinkchat.files import expanded, open_regular, read_to_end

STDIN = "-"

LARGEST = 1_000_000_000
"""Bytes: hundreds of millions of tokens, more than is read in days."""

OWN = "pydoc_data.topics"


@dataclass(frozen=True, slots=True)
class Text:
    name: str
    """The file as it was named, `standard input`, or the module that carries it."""
    text: str
    sha256: str
    """Of its UTF-8 bytes, without a byte order mark."""


def read_text(where: str | None) -> Text:
    """A file's text, standard input's for `-`, and for None the text that comes with Python. Raises `UsageError`."""
    if where is None:
        return _own()
    if where == STDIN:
        return _text("standard input", "Standard input", _stdin())
    return _text(where, where, _file(where))


def check_length(name: str, tokens_in_text: int, wanted: int | None, window: int | None) -> None:
    """Raises `UsageError` for a text that shows nothing.

    wanted: tokens that the person asked for, None for all there are. window: the largest that is to be seen at work,
    None where no cache is bounded.
    """
    if tokens_in_text < 2:
        many = "is one token" if tokens_in_text == 1 else "has no tokens"
        raise UsageError(f"The text of {name} {many}, and a token is judged by those before it; give a longer text.")
    if wanted is not None and wanted < 2:
        raise UsageError(f"Of {wanted:,} tokens none is judged by those before it; give --tokens 2 or more.")
    if wanted is not None and wanted > tokens_in_text:
        raise UsageError(
            f"The text of {name} has {tokens_in_text:,} tokens, fewer than the {wanted:,} that were asked for; "
            f"give --tokens {tokens_in_text} or less, or a longer text."
        )
    if window is not None:
        _check_evictions(name, tokens_in_text, wanted, window)


def _check_evictions(name: str, tokens_in_text: int, wanted: int | None, window: int) -> None:
    # One token makes the first entry leave, and the next is the first that is predicted without it.
    least = window + 2
    tokens = tokens_in_text if wanted is None else wanted
    if tokens >= least:
        return
    subject = f"The text of {name} has {tokens:,} tokens" if wanted is None else f"{tokens:,} tokens are to be read"
    none = "nothing would ever be evicted" if tokens <= window else "nothing would be read after the first eviction"
    ways = [f"--tokens {least} or more" if tokens_in_text >= least else f"a text of {least:,} tokens or more"]
    if tokens > 2:
        ways.append(f"--window {tokens - 2} or less")
    raise UsageError(
        f"{subject} and the window holds {window:,}: {none}, so its losses would look flat for no reason; "
        f"give {', or '.join(ways)}."
    )


def _own() -> Text:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise UsageError(f"This Python comes without {OWN}; name a text file to read instead.") from error
    text = "".join(topics[name] for name in sorted(topics))
    return Text(OWN, text, hashlib.sha256(text.encode("utf-8")).hexdigest())


def _file(name: str) -> bytes:
    try:
        with open_regular(expanded(name)) as file:
            if os.fstat(file.fileno()).st_size > LARGEST:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            return read_to_end(file, LARGEST)
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        raise _unreadable(name, error) from error


def _stdin() -> bytes:
    if sys.stdin is None:
        raise UsageError("There is no standard input to read; name a text file.")
    try:
        return read_to_end(sys.stdin.buffer, LARGEST)
    except (OSError, ValueError) as error:
        raise _unreadable("Standard input", error) from error


def _unreadable(source: str, error: OSError | ValueError) -> UsageError:
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOENT:
        return UsageError(f"There is no file {source}; check the name, or where sinkchat was started.")
    if number == errno.EISDIR:
        return UsageError(f"{source} is a folder; name a text file in it.")
    if number == errno.EINVAL:
        return UsageError(f"{source} is no regular file; name a text file, or pipe the text in and name it -.")
    if number == errno.EFBIG:
        return UsageError(f"{source} has more than {LARGEST:,} bytes, which is more than can be read; cut it.")
    reason = getattr(error, "strerror", None) or error
    return UsageError(f"{source} cannot be read ({reason}); name another text file.")


def _text(name: str, subject: str, raw: bytes) -> Text:
    """subject: the name as a sentence begins with it."""
    start = len(codecs.BOM_UTF8) if raw.startswith(codecs.BOM_UTF8) else 0
    content = raw[start:] if start else raw
    nul = content.find(b"\0")
    if nul >= 0:
        raise UsageError(f"{subject} is binary, not text (the byte at offset {start + nul:,} is 0); give UTF-8 text.")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{subject} is not UTF-8 text (the byte at offset {start + error.start:,} does not fit); "
            "save it as UTF-8."
        ) from error
    if not text or text.isspace():
        what = "has only white space in it" if text else "is empty"
        raise UsageError(f"{subject} {what}, so there is nothing to read; give a text.")
    return Text(name, text, hashlib.sha256(content).hexdigest())
