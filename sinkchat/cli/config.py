"""`sinkchat config`: where settings come from, and which are in force."""

from __future__ import annotations

import json
from pathlib import Path

from sinkchat import locations
from sinkchat.cli.resolved import Resolved
from sinkchat.settings import TABLE


def path(resolved: Resolved) -> str:
    return f"{resolved.config_file}\n"


def example() -> str:
    return locations.example_config().read_text(encoding="utf-8")


def show(resolved: Resolved) -> str:
    """Every setting in force, with where it came from; valid as a configuration file."""
    there = "" if resolved.config_file.is_file() else " (no such file: nothing was read)"
    lines = [f"# configuration: {resolved.config_file}{there}"]
    for name, folder in (
        ("sessions", locations.sessions_dir()),
        ("models", locations.models_dir()),
        ("themes", locations.user_themes_dir()),
        ("log", locations.log_file()),
    ):
        lines.append(f"# {name}: {folder}")
    lines.append("")
    for setting in TABLE:
        value = getattr(resolved.settings, setting.field)
        if value is None:
            lines.append(f"# {setting.field} is not set")
        else:
            origin = resolved.origins[setting.field]
            lines.append(f"{setting.field} = {_toml(value)}  # {origin}")
    return "\n".join(lines) + "\n"


def run(action: str, resolved: Resolved) -> int:
    from sinkchat.chat.printable import visible
    from sinkchat.cli.terminal import say

    text = {"path": path, "show": show}[action](resolved) if action != "example" else example()
    say(visible(text))
    return 0


def _toml(value: object) -> str:
    if isinstance(value, (str, Path)):
        # JSON's escapes are TOML's; what cannot be printed is escaped as well.
        quoted = json.dumps(str(value), ensure_ascii=False)
        return "".join(char if char.isprintable() else f"\\U{ord(char):08X}" for char in quoted)
    return str(value).lower()
