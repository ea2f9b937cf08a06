"""`sinkchat` alone: the chat on the screen."""

from __future__ import annotations

from sinkchat.settings import Settings


def run(settings: Settings) -> int:
    """Show the screen until the person leaves. The model is loaded behind it."""
    from sinkchat.cli.opening import open_session, quiet_libraries
    from sinkchat.tui.app import SinkchatApp

    quiet_libraries()
    app = SinkchatApp(lambda progress: open_session(settings, progress), settings)
    app.run()
    return app.return_code or 0
