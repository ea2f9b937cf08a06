"""The prompt of a single question: words of the command line, a file, standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sinkchat.cli.terminal import complain, is_terminal
from sinkchat.errors import UsageError
from sinkchat.files import MIB, expanded, read_to_end

STDIN = "-"

MOST = 64 * MIB
"""Bytes of a prompt: far more than anybody waits for, and little enough to be held."""


def gather(words: Sequence[str], file: str | None) -> str:
    """The prompt: the words, then the file's text or else what was piped in. Raises `UsageError` if that is nothing
    or no text."""
    parts = [_spoken(" ".join(words))] if words and list(words) != [STDIN] else []
    if file is not None and file != STDIN:
        parts.append(_text_of(Path(file)))
    elif file == STDIN or not is_terminal(sys.stdin) or not parts:
        piped = _stdin()
        if piped.strip():
            parts.append(piped)
    prompt = "\n\n".join(parts)
    if not prompt.strip():
        raise UsageError('The prompt is empty; give one, as in: sinkchat ask "Why is the sky blue?"')
    return prompt


def _spoken(words: str) -> str:
    try:
        words.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError("The prompt on the command line is not UTF-8 text; give it in --prompt-file.") from error
    return words


def _text_of(path: Path) -> str:
    try:
        # Any kind of file: a pipe is a way to give a prompt.
        with expanded(path).open("rb") as file:
            raw = read_to_end(file, MOST)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(f"The prompt file {path} cannot be read: {reason}.") from error
    text = _decoded(raw, f"The prompt file {path}")
    if not text.strip():
        raise UsageError(f"The prompt file {path} is empty; give one with text in it.")
    return text


def _stdin() -> str:
    if sys.stdin is None:
        return ""
    if is_terminal(sys.stdin):
        complain("type the prompt, then Enter and Ctrl+D.")
    try:
        raw = read_to_end(sys.stdin.buffer, MOST)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"Standard input cannot be read: {reason}.") from error
    return _decoded(raw, "Standard input")


def _decoded(raw: bytes, source: str) -> str:
    if b"\0" in raw:
        raise UsageError(f"{source} is binary, not text; give UTF-8 text.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is not UTF-8 text (byte {error.start + 1}); save it as UTF-8.") from error
    # The line break that ends a text file is the file's, not the prompt's.
    return text.replace("\r\n", "\n").removesuffix("\n")
