"""Which saved session a person means."""

from __future__ import annotations

from pathlib import Path

from sinkchat import locations
from sinkchat.chat.journal import SUFFIX
from sinkchat.chat.sessions import find_session, newest_session
from sinkchat.cli.arguments import LATEST


def journal_of(session: str) -> Path:
    """The journal of `latest`, of the id that begins so, or in a file of that name. Raises `UsageError`."""
    folder = locations.sessions_dir()
    if session == LATEST:
        return newest_session(folder)
    if session.endswith(SUFFIX) and Path(session).is_file():
        return Path(session)
    return find_session(folder, session)
