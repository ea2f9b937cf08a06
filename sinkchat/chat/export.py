"""Writes a conversation to a file: whole or not at all, and never over another file unasked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from sinkchat.chat.conversation import Conversation
from sinkchat.chat.document import to_json
from sinkchat.chat.reading import read_journal
from sinkchat.chat.rendering import to_markdown, to_text
from sinkchat.errors import SinkchatError, UsageError
from sinkchat.files import written_whole

Format = Literal["md", "json", "txt"]

FORMATS: Mapping[Format, Callable[[Conversation], str]] = {"md": to_markdown, "json": to_json, "txt": to_text}

SUFFIXES: Mapping[str, Format] = {
    ".md": "md",
    ".markdown": "md",
    ".json": "json",
    ".txt": "txt",
    ".text": "txt",
}


class ExportExists(UsageError):
    """There is a file of that name, and nobody said that it may be replaced."""

    title = "Export"


class ExportFailed(SinkchatError):
    """The file could not be written."""

    title = "Export"


def saved_conversation(path: Path) -> Conversation:
    """A session out of its journal; what cannot be read of it is told in `damage`. Raises `JournalError`."""
    reading = read_journal(path)
    return Conversation.from_records(reading.entries, tuple(str(damage) for damage in reading.damage))


def render(conversation: Conversation, format: Format) -> str:
    return FORMATS[format](conversation)


def default_name(conversation: Conversation, format: Format = "md") -> str:
    return f"sinkchat-{conversation.session or 'session'}.{format}"


def export(
    conversation: Conversation,
    path: Path | str | None = None,
    format: Format | None = None,
    *,
    overwrite: bool = False,
) -> Path:
    """Write the conversation and return the file's path.

    path: a file, or a folder that gets one of the default name; None is the current folder. `~` is understood.
    format: None takes it from the file's suffix, and `md` where there is none.

    Raises `ExportExists`, `UsageError` for a path or format that cannot be, `ExportFailed` when the disk refuses.
    """
    target = _expanded(path)
    format = _format(target, format)
    if os.path.isdir(target):
        target /= default_name(conversation, format)
    if not os.path.isdir(target.parent):
        raise UsageError(f"There is no folder {target.parent}; make it first, or name a file in another one.")
    if os.path.lexists(target):
        target = _replaceable(target, overwrite)
    content = render(conversation, format).encode("utf-8")
    try:
        with written_whole(target, overwrite) as file:
            file.write(content)
    except FileExistsError:
        raise _exists(target) from None
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise ExportFailed(f"{target} cannot be written ({reason}); take another name or another folder.") from error
    return target


def _expanded(path: Path | str | None) -> Path:
    try:
        return Path(path or ".").expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"{path} names a home folder that cannot be found ({error}); write it out in full."
        ) from error


def _format(target: Path, format: Format | None) -> Format:
    if format is not None:
        if format not in FORMATS:
            raise UsageError(f"There is no format {format!r}; take one of {', '.join(FORMATS)}.")
        return format
    if not target.suffix or os.path.isdir(target):
        return "md"
    known = SUFFIXES.get(target.suffix.lower())
    if known is None:
        raise UsageError(
            f"{target.name} does not say how to write it; end it in {', '.join(f'.{name}' for name in FORMATS)}, "
            "or name the format."
        )
    return known


def _replaceable(target: Path, overwrite: bool) -> Path:
    """The file that a link leads to, if it may be replaced: a link stays a link."""
    if not overwrite:
        raise _exists(target)
    if target.exists() and not target.is_file():
        raise UsageError(f"{target} is no ordinary file; name another one.")
    return target.resolve()


def _exists(target: Path) -> ExportExists:
    return ExportExists(
        f"{target} is there already and was left as it is; name another file, or ask to overwrite it."
    )
