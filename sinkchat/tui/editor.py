"""Writing a message in the person's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from sinkchat.errors import UsageError


def edit(text: str, terminal: TextIO | None, environ: Mapping[str, str] = os.environ) -> str:
    """The text as the editor left it. The screen must be out of the way. Raises `UsageError`."""
    command = environ.get("VISUAL") or environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="sinkchat-") as folder:
        path = Path(folder, "message.md")
        path.write_text(text, "utf-8")
        try:
            done = subprocess.run([*shlex.split(command), str(path)], stdout=terminal, stderr=terminal, check=False)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"The editor {command!r} cannot be started: {error}; set EDITOR to another one."
            ) from error
        if done.returncode:
            raise UsageError(f"The editor {command!r} ended with {done.returncode}; the message is as it was.")
        return path.read_text("utf-8", errors="replace").rstrip("\n")
