"""Copying text: through the system's own tool where there is one, and through the terminal; it says which."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping

_TOOLS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("pbcopy", (), ""),
    ("wl-copy", (), "WAYLAND_DISPLAY"),
    ("xclip", ("-selection", "clipboard"), "DISPLAY"),
    ("xsel", ("--clipboard", "--input"), "DISPLAY"),
    ("clip.exe", (), ""),
)
"""A program, its arguments, and the environment variable without which it cannot work."""

_PATIENCE = 2.0


def copy(text: str, to_terminal: Callable[[str], None], environ: Mapping[str, str] = os.environ) -> str:
    """Copy, and say in one sentence what was done. `to_terminal` sends the text as OSC 52."""
    to_terminal(text)
    size = f"{len(text):,} character{'' if len(text) == 1 else 's'}"
    tool = _through_tool(text, environ)
    if tool:
        return f"Copied {size} with {tool}."
    return f"Sent {size} to the terminal's clipboard; a terminal that forbids it (OSC 52) stays silent."


def _through_tool(text: str, environ: Mapping[str, str]) -> str | None:
    """The name of the tool that took the text; None if there is none that could."""
    for name, arguments, variable in _TOOLS:
        program = shutil.which(name, path=environ.get("PATH"))
        if program is None or (variable and not environ.get(variable)):
            continue
        try:
            done = subprocess.run(
                [program, *arguments],
                input=text.encode("utf-8"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_PATIENCE,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return name
    return None
