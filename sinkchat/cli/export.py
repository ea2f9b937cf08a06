"""`sinkchat export`: a saved session as a file to read or to work on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sinkchat.chat.export import SUFFIXES, ExportExists, Format, export, render, saved_conversation
from sinkchat.cli.arguments import LATEST
from sinkchat.cli.saved import journal_of
from sinkchat.cli.terminal import complain, say
from sinkchat.errors import UsageError

STDOUT = "-"


def run(words: Sequence[str], format: Format | None, *, force: bool = False) -> int:
    """Write the session and print the file's path; damage that its journal has is told on stderr.

    A single word that ends like a file (`out.md`) is the file, and the session is the latest.
    """
    session, file = _read(words)
    path = journal_of(session)
    conversation = saved_conversation(path)
    for damage in conversation.damage:
        complain(f"{path} is damaged there, and the rest was exported: {damage}.")
    if file == STDOUT:
        say(render(conversation, format or "md"))
        return 0
    try:
        written = export(conversation, file, format, overwrite=force)
    except ExportExists as error:
        raise UsageError(f"{file or 'The file'} exists; name another one, or replace it with --force.") from error
    say(f"{written}\n")
    return 0


def _read(words: Sequence[str]) -> tuple[str, str | None]:
    if len(words) > 2:
        raise UsageError(f"One session and one file are exported at a time, and {len(words)} words were given.")
    if len(words) == 1 and (words[0] == STDOUT or Path(words[0]).suffix.lower() in SUFFIXES):
        return LATEST, words[0]
    return (words[0] if words else LATEST), (words[1] if len(words) == 2 else None)
