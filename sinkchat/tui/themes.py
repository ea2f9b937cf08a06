"""Colour themes: TOML files with one colour for each meaning, turned into themes of the screen.

A colour has one meaning everywhere: what is amber in the gauge is amber in the chart, the switch and the text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli
from textual.color import Color, ColorParseError
from textual.theme import Theme

from sinkchat import locations
from sinkchat.errors import UsageError
from sinkchat.files import MIB, read_regular
from sinkchat.settings import did_you_mean

DEFAULT = "harbour"


@dataclass(frozen=True, slots=True)
class Colors:
    """Every colour of a theme, by what it means: `#rrggbb`, or `ansi_...` names in an ansi theme."""

    background: str
    surface: str
    """The input box, and code."""
    rule: str
    """Lines between the parts of the screen."""
    foreground: str
    """Text. At least 7:1 on the background and on the surface."""
    muted: str
    """Labels and hints. At least 4.5:1."""
    dim: str
    """Text that the model cannot see any more. At least 3:1."""
    person: str
    """What the person says."""
    file: str
    """What is read from a file."""
    sink: str
    """The sinks, and the share of attention that they take."""
    head: str
    """The share of the strongest head."""
    recent: str
    """The recent entries."""
    free: str
    """Room in the cache."""
    read: str
    """The loss of text that was read."""
    wrote: str
    """The loss of text that the model wrote."""
    horizon: str
    """The horizon, and what was evicted."""
    good: str
    warning: str
    error: str
    selection: str
    """Behind selected text."""
    code_keyword: str
    code_string: str
    code_number: str
    code_comment: str
    code_name: str


@dataclass(frozen=True, slots=True)
class ColorTheme:
    name: str
    dark: bool
    ansi: bool
    """Uses the terminal's own sixteen colours."""
    colors: Colors
    path: Path


_COLOR_NAMES = tuple(field.name for field in dataclasses.fields(Colors))
_KEYS = ("dark", "ansi", "colors")


@dataclass(frozen=True, slots=True)
class Themes:
    by_name: Mapping[str, ColorTheme]
    problems: tuple[str, ...]
    """A sentence for each file that is not a theme."""

    def choose(self, name: str) -> ColorTheme:
        """Raises `UsageError` with the nearest name."""
        if name in self.by_name:
            return self.by_name[name]
        raise UsageError(f"There is no theme {name}; {did_you_mean(name, self.by_name)}")


def load_themes(folders: Iterable[Path] | None = None) -> Themes:
    """All themes: those that come with sinkchat, then the person's own, which win over the same name."""
    found: dict[str, ColorTheme] = {}
    problems: list[str] = []
    for folder in (locations.packaged_themes_dir(), locations.user_themes_dir()) if folders is None else folders:
        for path in sorted(folder.glob("*.toml")):
            try:
                found[path.stem] = read_theme(path)
            except UsageError as error:
                problems.append(str(error))
    return Themes(found, tuple(problems))


def read_theme(path: Path) -> ColorTheme:
    """The theme in a file, named as the file is. Raises `UsageError`, one sentence that names the file."""
    try:
        content = tomli.loads(read_regular(path, MIB).decode("utf-8"))
    except OSError as error:
        raise UsageError(f"The theme {path} cannot be read: {error.strerror or error}.") from error
    except (UnicodeDecodeError, tomli.TOMLDecodeError) as error:
        raise UsageError(f"The theme {path} is not valid TOML: {error}.") from error
    for key in content:
        if key not in _KEYS:
            raise UsageError(f"The theme {path} has an unknown key {key}; {did_you_mean(key, _KEYS)}")
    ansi = content.get("ansi", False)
    colors = content.get("colors")
    if not isinstance(colors, dict) or not isinstance(ansi, bool) or not isinstance(content.get("dark", True), bool):
        raise UsageError(f"The theme {path} needs a table [colors], and true or false for dark and ansi.")
    return ColorTheme(path.stem, content.get("dark", True), ansi, _colors(path, colors, ansi), path)


def _colors(path: Path, given: Mapping[str, Any], ansi: bool) -> Colors:
    for name in given:
        if name not in _COLOR_NAMES:
            raise UsageError(f"The theme {path} has an unknown colour {name}; {did_you_mean(name, _COLOR_NAMES)}")
    missing = [name for name in _COLOR_NAMES if name not in given]
    if missing:
        raise UsageError(f"The theme {path} lacks the colour{'s' * (len(missing) > 1)} {', '.join(missing)}.")
    for name, value in given.items():
        if not isinstance(value, str) or not _is_color(value, ansi):
            kind = "an ansi_ name or #rrggbb" if ansi else "#rrggbb"
            raise UsageError(f"The theme {path} has {value!r} for {name}, but it must be {kind}.")
    return Colors(**given)


def _is_color(value: str, ansi: bool) -> bool:
    if value.startswith("ansi_") and not ansi:
        return False
    try:
        Color.parse(value)
    except ColorParseError:
        return False
    return value.startswith(("#", "ansi_"))


def to_textual(theme: ColorTheme) -> Theme:
    """The theme as the screen knows it: every colour is also a variable of the style sheets."""
    colors = theme.colors
    variables = {name.replace("_", "-"): getattr(colors, name) for name in _COLOR_NAMES}
    variables |= {
        "border": colors.rule,
        "border-blurred": colors.rule,
        "block-cursor-background": colors.selection,
        "block-cursor-foreground": colors.foreground,
        "block-cursor-text-style": "none",
        "input-cursor-background": colors.foreground,
        "input-cursor-foreground": colors.background,
        "input-cursor-text-style": "none" if not theme.ansi else "reverse",
        "input-selection-background": colors.selection,
        "input-selection-foreground": colors.foreground,
        "screen-selection-background": colors.selection,
        "screen-selection-foreground": colors.foreground,
        "scrollbar": colors.rule,
        "scrollbar-hover": colors.dim,
        "scrollbar-active": colors.muted,
        "scrollbar-background": colors.background,
        "scrollbar-background-hover": colors.background,
        "scrollbar-background-active": colors.background,
        "scrollbar-corner-color": colors.background,
    }
    if theme.ansi:
        variables |= {"ansi-background": colors.background, "ansi-foreground": colors.foreground}
    return Theme(
        name=theme.name,
        primary=colors.sink,
        secondary=colors.recent,
        accent=colors.sink,
        warning=colors.warning,
        error=colors.error,
        success=colors.good,
        foreground=colors.foreground,
        background=colors.background,
        surface=colors.surface,
        panel=colors.surface,
        dark=theme.dark,
        ansi=theme.ansi,
        variables=variables,
    )
