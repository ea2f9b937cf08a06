"""`sinkchat` alone: the chat on the screen."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sinkchat.cli.opening import open_session
from sinkchat.cli.terminal import is_terminal
from sinkchat.errors import UsageError
from sinkchat.settings import Settings

NO_SCREEN = ("dumb", "unknown")
"""What TERM says of a terminal that cannot move its cursor."""


def run(settings: Settings, resuming: Path | None = None) -> int:
    """Show the screen until the person leaves; returns the exit code. The model is loaded behind the screen.

    resuming: the journal of a session to go on with.
    """
    if not is_terminal(sys.stderr):
        raise UsageError("The screen is drawn through standard error too; start sinkchat without redirecting it.")
    if os.environ.get("TERM", "").lower() in NO_SCREEN:
        raise UsageError(
            f"TERM is {os.environ['TERM']}, which no screen can be drawn on; ask with `sinkchat ask`, or set TERM to "
            "what this terminal is."
        )
    from sinkchat.tui.app import SinkchatApp

    app = SinkchatApp(lambda progress: open_session(settings, progress, resuming), settings)
    app.run()
    return app.return_code or 0
