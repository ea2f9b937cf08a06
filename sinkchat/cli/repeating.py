"""The command that repeats a measurement, wherever it is typed."""

from __future__ import annotations

from collections.abc import Sequence

from sinkchat.cli.arguments import LOADING
from sinkchat.cli.resolved import Resolved
from sinkchat.settings import TABLE

_FILES = ("--json", "--csv", "--html", "--config")
"""Flags with a value that say where something is on this machine, and change no figure."""
_SWITCHES = ("--resume", "--force")


def repeatable(argv: Sequence[str], resolved: Resolved) -> tuple[str, ...]:
    """`argv` without the files of this machine, and with what the environment and a configuration file add to it."""
    words: list[str] = []
    rest = iter(argv)
    for word in rest:
        flag, equals, _ = word.partition("=")
        if word == "--":
            words += [word, *rest]
        elif flag in _FILES:
            if not equals:
                next(rest, None)
        elif word not in _SWITCHES:
            words.append(word)
    flags: list[str] = []
    for setting in TABLE:
        chosen = getattr(resolved.settings, setting.field)
        told = resolved.origins[setting.field] in ("default", setting.flag)
        if setting.field not in LOADING or setting.kind == "path" or told or chosen is None:
            continue
        if setting.kind == "switch":
            flags.append(setting.flag if chosen else f"--no-{setting.flag[2:]}")
        else:
            flags += [setting.flag, str(chosen)]
    return ("sinkchat", *flags, *words)
