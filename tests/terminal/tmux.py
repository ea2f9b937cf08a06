"""The real program in a real terminal: tmux draws it, and what it shows is read back."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

LIMIT = 240.0
"""Seconds to wait for something to be shown, on a slow and busy machine."""


class Terminal:
    """One program in a tmux server of its own, which ends with it."""

    def __init__(self, folder: Path, command: list[str], *, columns: int = 140, rows: int = 42) -> None:
        self._socket = folder / "tmux"
        self._status = folder / "exit status"
        folders = {f"SINKCHAT_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "STATE")}
        environment = {**os.environ, **folders, "TERM": "xterm-256color"}
        line = f"{shlex.join(command)}; echo $? > {shlex.quote(str(self._status))}; exec sleep 600"
        self._tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), line, environment=environment)
        self._tmux("set-option", "-g", "remain-on-exit", "on")

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def say(self, text: str) -> None:
        self.type(text)
        self.press("Enter")

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def wait(self, wanted: str | Callable[[str], object], *, seconds: float = LIMIT) -> str:
        """The first screen that has the pattern, or for which the function is true. Fails with the last screen."""
        fits = wanted if callable(wanted) else lambda screen: re.search(wanted, screen)
        until = time.monotonic() + seconds
        while not fits(screen := self.screen()):
            if time.monotonic() > until:
                raise AssertionError(f"{wanted!r} was not shown within {seconds:.0f} s; the screen was\n{screen}")
            time.sleep(0.1)
        return screen

    def exit_status(self, *, seconds: float = 30) -> int:
        until = time.monotonic() + seconds
        while not (self._status.exists() and self._status.read_text().strip()):
            if time.monotonic() > until:
                raise AssertionError(f"it did not end within {seconds:.0f} s; the screen was\n{self.screen()}")
            time.sleep(0.05)
        return int(self._status.read_text())

    def close(self) -> None:
        subprocess.run(["tmux", "-S", str(self._socket), "kill-server"], capture_output=True, check=False)

    def _tmux(self, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), "-f", os.devnull, *arguments],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
        return done.stdout


def sinkchat(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("sinkchat")), *arguments]
