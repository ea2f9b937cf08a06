"""Everything that can be asked with a slash: one table for the popup, the palette, the help and what is done."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from sinkchat.cache.policy import POLICIES
from sinkchat.errors import UsageError


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    hint: str
    """Its arguments: `<N>` must be given, `[FILE]` may be."""
    help: str
    order: str
    """Name of the method of `Orders` that does it."""
    choices: tuple[str, ...] = ()
    """What the first argument may be, where it is one of a few."""
    aliases: tuple[str, ...] = ()
    key: str = ""
    """A key that does the same."""

    @property
    def needs_argument(self) -> bool:
        return self.hint.startswith("<")


COMMANDS: tuple[Command, ...] = (
    Command(
        "policy",
        "<sinks|window|full|recompute>",
        "What stays of a full cache",
        "policy",
        choices=POLICIES,
        key="F2",
    ),
    Command(
        "positions",
        "<cache|absolute>",
        "Where a query is placed: in the cache, or in the whole sequence",
        "positions",
        choices=("cache", "absolute"),
    ),
    Command("window", "<N>", "How many KV entries a layer may hold, sinks included", "window"),
    Command("sinks", "<N>", "How many of the first tokens are kept for good; runs the window again", "sinks"),
    Command("endless", "", "Write on past every end of turn, until Esc", "endless"),
    Command("read", "<FILE>", "Let the model read a text; its loss is drawn", "read"),
    Command("rebuild", "", "Run the sinks and the newest tokens through the model again", "rebuild"),
    Command("continue", "", "Go on with the last reply", "go_on"),
    Command("retry", "", "The last reply again; only before the first eviction", "retry"),
    Command("stop", "", "Stop reading or writing", "stop", key="Esc"),
    Command("system", "[TEXT]", "Set the system prompt, which starts a new sequence; or say what it is", "system"),
    Command("clear", "", "Start a new sequence; the model forgets all of this", "clear"),
    Command("copy", "[code]", "Copy the last reply, or its last code block", "copy", choices=("code",)),
    Command(
        "export",
        "[FILE] [md|json|txt]",
        "Write the conversation to a file; json holds everything",
        "export",
    ),
    Command("theme", "<NAME>", "The colours of the screen", "theme"),
    Command("panel", "", "Show or hide the panel", "panel", key="F3"),
    Command("thinking", "", "Show or fold what the model thinks before it answers", "thinking", key="F4"),
    Command("help", "", "Commands, keys and words", "help", key="F1"),
    Command("quit", "", "End sinkchat; the session stays on disk", "quit", aliases=("exit", "bye"), key="Ctrl+Q"),
)

_AS_MESSAGE = "(A message that starts with a slash is written with two.)"

_BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}


@dataclass(frozen=True, slots=True)
class Asked:
    """A command as it was typed."""

    command: Command
    argument: str


def named(name: str) -> Command | None:
    return _BY_NAME.get(name.lower())


def is_command(text: str) -> bool:
    """Whether a text is meant as a command: one slash at its start, where two mean a message with one."""
    return text.startswith("/") and not text.startswith("//")


def literal(text: str) -> str:
    """The message that a text means: `//` at its start stands for a slash."""
    return text[1:] if text.startswith("//") else text


def parse(text: str) -> Asked:
    """The command in a text that starts with a slash. Raises `UsageError` with the nearest name."""
    name, *rest = text[1:].strip().split(maxsplit=1) or [""]
    argument = rest[0] if rest else ""
    command = named(name)
    if command is None:
        raise UsageError(_unknown(name))
    if command.needs_argument and not argument:
        raise UsageError(f"/{command.name} needs {command.hint}: {command.help[0].lower()}{command.help[1:]}.")
    if argument and not command.hint:
        raise UsageError(f"/{command.name} takes nothing behind it. {_AS_MESSAGE}")
    return Asked(command, argument)


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), _BY_NAME, n=1, cutoff=0.5)
    way_out = f"did you mean /{near[0]}?" if near else "/help lists them all."
    return f"There is no command /{name}; {way_out} {_AS_MESSAGE}"


def matching(typed: str) -> list[tuple[Command, tuple[int, ...]]]:
    """Commands that fit what was typed after the slash, best first, with the matching letters of each name."""
    typed = typed.lower()
    found = []
    for order, command in enumerate(COMMANDS):
        best = min((s for name in (command.name, *command.aliases) if (s := _score(typed, name))), default=None)
        if best is not None:
            shown = _score(typed, command.name)
            found.append((best[0], order, command, shown[1] if shown else ()))
    return [(command, letters) for _score, _order, command, letters in sorted(found, key=lambda item: item[:2])]


def _score(typed: str, name: str) -> tuple[int, tuple[int, ...]] | None:
    """How far a name is from what was typed (0: begins so), and the letters that match; None if it does not fit."""
    if name.startswith(typed):
        return 0, tuple(range(len(typed)))
    letters: list[int] = []
    at = -1
    for letter in typed:
        at = name.find(letter, at + 1)
        if at < 0:
            return None
        letters.append(at)
    return 1 + letters[-1] - letters[0], tuple(letters)


def completions(command: Command, typed: str, themes: Sequence[str]) -> list[str]:
    """First arguments of a command that begin as typed."""
    choices = tuple(themes) if command.order == "theme" else command.choices
    return [choice for choice in choices if choice.startswith(typed) and choice != typed]
