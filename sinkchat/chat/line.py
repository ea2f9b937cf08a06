"""One line of a journal: a record with its number, its time, the checksum of the line before and its own.

    {"v":1,"n":12,"t":1795977930.125,"k":"token","p":{...},"b":"90c2d1f04be6a511","c":"5f0c9a3be1d27744"}

`c` is the start of the SHA-256 of the line's bytes up to it, so each line is proved by itself; `b` is the `c` of the
line before, so a line that was lost, doubled or moved is noticed by the next one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from sinkchat.chat.plain import from_plain, kind_of, to_plain
from sinkchat.chat.records import Record

VERSION = 1

FIRST = "0" * 16
"""What stands for the checksum of the line before in the first line."""

START = b'{"v":'
"""How every line begins, and nothing inside one, since its quotes would be escaped there."""

_TAIL = len(',"c":""}') + len(FIRST)


@dataclass(frozen=True, slots=True)
class Entry:
    """A record as it stands in the journal."""

    number: int
    """Of the record, from 0, without a gap."""
    time: float
    """Seconds since 1970, to the millisecond."""
    record: Record


@dataclass(frozen=True, slots=True)
class Line:
    entry: Entry
    before: str
    """The checksum of the line before."""
    checksum: str


class NewerLine(Exception):
    """The line was written by a later version, whose records this one does not know."""


def write_line(entry: Entry, before: str) -> tuple[bytes, str]:
    """The line, its end included, and its checksum."""
    content = {
        "v": VERSION,
        "n": entry.number,
        "t": entry.time,
        "k": kind_of(entry.record),
        "p": to_plain(entry.record),
        "b": before,
    }
    body = json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")[:-1]
    checksum = _checksum(body)
    return b'%s,"c":"%s"}\n' % (body, checksum.encode("ascii")), checksum


def read_line(raw: bytes) -> Line | None:
    """A line without its end; None when it is damaged. Raises `NewerLine`."""
    body, checksum = raw[:-_TAIL], raw[-_TAIL + len(',"c":"') : -len('"}')].decode("ascii", "replace")
    if raw[-_TAIL:] != b',"c":"%s"}' % checksum.encode("utf-8") or checksum != _checksum(body):
        return None
    try:
        content = json.loads(body + b"}")
        if content["v"] > VERSION:
            raise NewerLine
        record = from_plain(content["k"], content["p"])
        return Line(Entry(content["n"], content["t"], record), content["b"], checksum)
    except (ValueError, KeyError, TypeError):
        return None


def _checksum(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[: len(FIRST)]
