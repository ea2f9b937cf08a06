"""`sinkchat models`: what is on this machine, what is fetched, and what is removed."""

from __future__ import annotations

import importlib
import json
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sinkchat.chat.printable import visible
from sinkchat.cli.terminal import ProgressLine, complain, is_terminal, say
from sinkchat.errors import UsageError
from sinkchat.settings import Settings, did_you_mean

if TYPE_CHECKING:
    from sinkchat.models.shelf import Shelved

ACTIONS = ("list", "fetch", "rm")
_WIDTH = 80
_NAME = 44


def run(words: Sequence[str], settings: Settings, *, as_json: bool = False, yes: bool = False) -> int:
    """List, `fetch NAME` or `rm NAME`; returns the exit code. `yes` removes without asking."""
    # First of all: it sets what the other libraries read from the environment when they are imported.
    importlib.import_module("sinkchat.models.libraries")
    action, *names = words or ("list",)
    if action not in ACTIONS:
        raise UsageError(f"`sinkchat models` does not know {action!r}; {did_you_mean(action, ACTIONS)}")
    if action == "list":
        if names:
            raise UsageError("`sinkchat models list` takes no name; give a name to fetch or rm.")
        return _list(settings, as_json=as_json)
    if len(names) != 1:
        raise UsageError(f"`sinkchat models {action}` takes one name; `sinkchat models` lists those that are here.")
    return _fetch(names[0], settings) if action == "fetch" else _remove(names[0], yes=yes)


def _list(settings: Settings, *, as_json: bool) -> int:
    from sinkchat.models.allowed import Allowed
    from sinkchat.models.shelf import shelved

    models = shelved(Allowed(settings.allow_pickle, settings.trust_remote_code))
    say("".join(map(_object, models)) if as_json else table(models))
    return 0


def table(models: Sequence[Shelved]) -> str:
    """At most 80 columns; why a model cannot run stands below it."""
    lines = [f"{'MODEL':<{_NAME}}  {'SIZE':>8}  {'FAMILY':<13} {'RUNS':<8}".rstrip()]
    for model in models:
        family = (model.family or "?") + (f" {model.quant}" if model.quant else "")
        runs = "no" if model.problem else "yes"
        size = "to fetch" if model.bytes is None else _size(model.bytes)
        name = visible(model.name)
        if len(name) > _NAME:  # whole, for it is to be copied; the rest goes below it
            lines.append(name)
            name = ""
        lines.append(f"{name:<{_NAME}}  {size:>8}  {visible(family)[:13]:<13} {runs:<8}".rstrip())
        if model.problem:
            told = visible(model.problem).removeprefix(f"{visible(model.name)} is refused: ")
            lines += textwrap.wrap(told, _WIDTH, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"


def _object(model: Shelved) -> str:
    return (
        json.dumps(
            {
                "name": model.name,
                "place": model.place,
                "path": str(model.path),
                "bytes": model.bytes,
                "family": model.family,
                "quant": model.quant,
                "source": model.source,
                "runs": model.problem is None,
                "problem": model.problem,
            }
        )
        + "\n"
    )


def _fetch(name: str, settings: Settings) -> int:
    from sinkchat.models.allowed import Allowed
    from sinkchat.models.shelf import bring

    line = ProgressLine()
    try:
        folder = bring(
            name, line.show, Allowed(settings.allow_pickle, settings.trust_remote_code), settings.small_model_file
        )
    finally:
        line.clear()
    say(visible(f"{folder}\n"))
    return 0


def _remove(name: str, *, yes: bool) -> int:
    from sinkchat.models.shelf import owned, remove

    model = owned(name)
    if not yes:
        if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
            raise UsageError(f"{name} is removed only when you say so; nobody can be asked here, so add --yes.")
        sys.stderr.write(visible(f"Remove {name} ({_size(model.bytes or 0)}) from {model.path}? [y/N] "))
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            complain(f"{name} was left where it is.")
            return 1
    remove(model)
    return 0


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
