"""`sinkchat` alone: the chat on the screen."""

from __future__ import annotations

import sys
from pathlib import Path

from sinkchat.cli.opening import open_session
from sinkchat.cli.terminal import is_terminal
from sinkchat.errors import UsageError
from sinkchat.settings import Settings


def run(settings: Settings, resuming: Path | None = None) -> int:
    """Show the screen until the person leaves; returns the exit code. The model is loaded behind the screen.

    resuming: the journal of a session to go on with.
    """
    if not is_terminal(sys.stderr):
        raise UsageError("The screen is drawn through standard error too; start sinkchat without redirecting it.")
    from sinkchat.tui.app import SinkchatApp

    app = SinkchatApp(lambda progress: open_session(settings, progress, resuming), settings)
    app.run()
    return app.return_code or 0
