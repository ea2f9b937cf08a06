"""The sessions on disk: a list for a person to choose from, made without reading them through."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sinkchat.chat.journal import SUFFIX
from sinkchat.chat.line import Entry, NewerLine, read_line
from sinkchat.chat.reading import first_lines, last_lines
from sinkchat.chat.records import ChunkFed, MessageBegun, Opened, PromptDone, RunEnded, TokenSaid, Totals
from sinkchat.errors import UsageError

_HEAD = 16 * 1024
_TAIL = 256 * 1024
_FIRST_WORDS = 80


@dataclass(frozen=True, slots=True)
class SessionSummary:
    id: str
    path: Path
    started: datetime
    """In local time."""
    model: str | None
    first_words: str
    """Of the first thing that a person said, on one line; as it was written, control characters and all."""
    messages: int
    tokens: int
    """Fed in all sequences, frames included."""


def list_sessions(folder: Path) -> tuple[SessionSummary, ...]:
    """All sessions in which something was said, the newest first. A folder that is not there has none."""
    summaries = (_summary(path) for path in sorted(folder.glob(f"*{SUFFIX}"), reverse=True))
    return tuple(summary for summary in summaries if summary is not None and summary.messages)


def find_session(folder: Path, prefix: str) -> Path:
    """The journal of the session whose id begins so. Raises `UsageError` when there is none, or more than one."""
    paths = sorted(path for path in folder.glob(f"*{SUFFIX}") if path.name.startswith(prefix))
    exact = folder / f"{prefix}{SUFFIX}"
    if exact in paths:
        return exact
    if not paths:
        raise UsageError(f"There is no session {prefix!r} in {folder}; `sinkchat sessions` lists them.")
    if len(paths) > 1:
        names = ", ".join(path.name.removesuffix(SUFFIX) for path in paths[:3])
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        raise UsageError(f"{prefix!r} fits {names}{more}; give more of the id.")
    return paths[0]


def newest_session(folder: Path) -> Path:
    """The journal of the latest session in which something was said. Raises `UsageError` when there is none."""
    for path in sorted(folder.glob(f"*{SUFFIX}"), reverse=True):
        summary = _summary(path)
        if summary is not None and summary.messages:
            return path
    raise UsageError(f"There is no session in {folder} yet; start one with `sinkchat`.")


def _summary(path: Path) -> SessionSummary | None:
    """None for a file that is no journal, or not one that this version reads."""
    try:
        head = [line.entry for line in map(read_line, first_lines(path, _HEAD)) if line is not None]
        totals = _totals(last_lines(path, _TAIL)) or _totals(last_lines(path, path.stat().st_size))
    except (OSError, NewerLine):
        return None
    if not head or totals is None:
        return None
    opened = next((entry.record for entry in head if isinstance(entry.record, Opened)), None)
    return SessionSummary(
        id=path.name.removesuffix(SUFFIX),
        path=path,
        started=datetime.fromtimestamp(head[0].time).astimezone(),
        model=opened.facts.name if opened else None,
        first_words=_first_words(path, head),
        messages=totals.messages,
        tokens=totals.tokens,
    )


def _first_words(path: Path, head: list[Entry]) -> str:
    said = _first_said(head)
    if said is None:
        # A first message longer than the head, or a long system prompt before it.
        whole = (read_line(raw) for raw in first_lines(path, path.stat().st_size))
        said = _first_said([line.entry for line in whole if line is not None])
    words = " ".join((said.text or "").split()) if said else ""
    return words if len(words) <= _FIRST_WORDS else words[: _FIRST_WORDS - 1].rstrip() + "…"


def _first_said(entries: list[Entry]) -> MessageBegun | None:
    for entry in entries:
        if isinstance(entry.record, MessageBegun) and entry.record.role in ("user", "file"):
            return entry.record
    return None


def _totals(lines: list[bytes]) -> Totals | None:
    """The latest totals in `lines`, with what came after them; None when they hold none."""
    messages = tokens = 0
    for raw in reversed(lines):
        line = read_line(raw)
        if line is None:
            continue
        record = line.entry.record
        if isinstance(record, RunEnded | PromptDone):
            return Totals(max(messages, record.totals.messages), record.totals.tokens + tokens)
        if isinstance(record, MessageBegun):
            messages = max(messages, record.message + 1)
        elif isinstance(record, TokenSaid):
            tokens += 1
        elif isinstance(record, ChunkFed):
            tokens += len(record.ids)
        elif isinstance(record, Opened) and not record.resumed:
            return Totals(messages, tokens)
    return None
