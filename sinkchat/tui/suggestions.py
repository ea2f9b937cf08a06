"""What may come next of a command that is being typed: names, the first arguments of some, paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sinkchat.tui import commands, textfile

PATHS = 50


@dataclass(frozen=True, slots=True)
class Suggestion:
    insert: str
    """The whole line as it would be."""
    name: str
    hint: str = ""
    help: str = ""
    key: str = ""
    letters: tuple[int, ...] = ()
    """Indices in `name` that fit what was typed."""
    runs: bool = True
    """Whether Enter also sends it; False where something is still to be typed."""


def suggest(typed: str, themes: Sequence[str]) -> list[Suggestion]:
    """For a line that starts with one slash; nothing for any other text."""
    if not commands.is_command(typed) or "\n" in typed:
        return []
    name, space, argument = typed[1:].partition(" ")
    if not space:
        return [
            Suggestion(
                insert=f"/{command.name}" + (" " if command.hint else ""),
                name=f"/{command.name}",
                hint=command.hint,
                help=command.help,
                key=command.key,
                letters=tuple(letter + 1 for letter in letters),
                runs=not command.needs_argument,
            )
            for command, letters in commands.matching(name)
        ]
    command = commands.named(name)
    if command is None:
        return []
    if command.order == "read":
        paths = textfile.complete_path(argument)[:PATHS]
        return [
            Suggestion(f"/{name} {path}", path, runs=not path.endswith("/")) for path in paths if path != argument
        ]
    return [Suggestion(f"/{name} {word}", word) for word in commands.completions(command, argument, themes)]
