"""`sinkchat sessions`: what is saved, the newest first."""

from __future__ import annotations

from sinkchat import locations
from sinkchat.chat.printable import visible
from sinkchat.chat.sessions import SessionSummary, list_sessions
from sinkchat.cli.terminal import complain, say


def run() -> int:
    """One line a session: id, when it began, messages, tokens, model, and how it begins."""
    folder = locations.sessions_dir()
    saved = list_sessions(folder)
    if not saved:
        complain(f"there is no session in {folder} yet.")
    for session in saved:
        say(visible(_line(session)) + "\n")
    return 0


def _line(session: SessionSummary) -> str:
    began = session.started.strftime("%Y-%m-%d %H:%M")
    model = (session.model or "?").rpartition("/")[2]
    counts = f"{session.messages:>4} messages  {session.tokens:>7} tokens"
    return f"{session.id}  {began}  {counts}  {model}  {session.first_words}"
