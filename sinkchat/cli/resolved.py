"""The settings in force: a flag wins over the environment, that over the file, and that over the default."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli

from sinkchat import locations
from sinkchat.errors import UsageError
from sinkchat.files import MIB, expanded, read_to_end
from sinkchat.settings import PREFIX, TABLE, Setting, Settings, did_you_mean

CONFIG_VARIABLE = "SINKCHAT_CONFIG"

_ON = ("1", "true", "yes", "on")
_OFF = ("0", "false", "no", "off")
_WRONG = object()


@dataclass(frozen=True, slots=True)
class Resolved:
    """Settings, and where each value came from: a flag, a variable, a file, or `default`."""

    settings: Settings
    origins: Mapping[str, str]
    config_file: Path
    """The file that was read, or would have been if it existed."""


def resolve(flags: Mapping[str, object], environ: Mapping[str, str], config_file: Path | None = None) -> Resolved:
    """Settings from flags over environment over file over defaults.

    `flags` maps fields to values, None where a flag was not given; texts are read as a command line's.
    `config_file` must exist when given; without it `SINKCHAT_CONFIG` names the file, else the usual one is read if
    it is there. Raises `UsageError` for an unknown key, a wrong value, or a file that cannot be read.
    """
    named = config_file or (expanded(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    path = named or locations.config_file()
    values: dict[str, Any] = {}
    origins = {setting.field: "default" for setting in TABLE}
    for field, origin, value in (*_from_file(path, must_exist=named is not None), *_from_environ(environ)):
        values[field], origins[field] = value, origin
    for setting in TABLE:
        if (given := flags.get(setting.field)) is not None:
            values[setting.field], origins[setting.field] = _read(setting, given, setting.flag), setting.flag
    settings = Settings(**values)
    _check_window(settings, origins)
    return Resolved(settings, origins, path)


def _from_file(path: Path, *, must_exist: bool) -> Iterator[tuple[str, str, object]]:
    known = {setting.field: setting for setting in TABLE}
    for key, value in _parse(path, must_exist=must_exist).items():
        if key not in known:
            raise UsageError(
                f"{path}: there is no setting {key}; {did_you_mean(key.lower().replace('-', '_'), known)}"
            )
        read = _read(known[key], value, f"{path}: {key}", typed=True)
        # A relative path in a file means: from the file's own folder, wherever the program was started.
        yield key, str(path), path.absolute().parent / read if isinstance(read, Path) else read


def _from_environ(environ: Mapping[str, str]) -> Iterator[tuple[str, str, object]]:
    known = {setting.variable: setting for setting in TABLE}
    others = (CONFIG_VARIABLE, *locations.VARIABLES)
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable in others or not value:
            continue
        if variable not in known:
            meant = did_you_mean(variable.upper(), (*known, *others))
            raise UsageError(f"There is no setting {variable} (an environment variable); {meant}")
        yield known[variable].field, variable, _read(known[variable], value, variable)


def _parse(path: Path, *, must_exist: bool) -> dict[str, object]:
    try:
        # Editors of some systems put a byte order mark before the text: it is no part of it.
        with path.open("rb") as file:
            return tomli.loads(read_to_end(file, MIB).decode("utf-8-sig"))
    except FileNotFoundError as error:
        if not must_exist:
            return {}
        raise UsageError(f"There is no configuration file {path}; give the path of one that exists.") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(f"The configuration file {path} cannot be read: {reason}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"The configuration file {path} is not UTF-8 text; save it as UTF-8.") from error
    except tomli.TOMLDecodeError as error:
        raise UsageError(f"The configuration file {path} is not valid TOML: {error}.") from error


def _read(setting: Setting, value: object, source: str, *, typed: bool = False) -> object:
    """The value as the field's type. `typed`: it comes from TOML, where a number is no text."""
    read = _convert(setting, value, typed=typed)
    if read is _WRONG:
        raise UsageError(f"{source} is {_shown(value)}, but it must be {setting.allowed}.")
    return read


def _convert(setting: Setting, value: object, *, typed: bool) -> object:
    if setting.kind == "switch":
        return _switch(value, typed=typed)
    if setting.kind in ("whole", "real"):
        return _number(setting, value, typed=typed)
    if isinstance(value, Path) and setting.kind == "path":
        return expanded(value)
    if not isinstance(value, str) or "\0" in value:
        return _WRONG
    if setting.choices:
        return value if value in setting.choices else _WRONG
    if not value.strip():
        # An empty text takes back what a lower layer set, where "not set" is a value.
        return None if setting.default is None else _WRONG
    if setting.kind == "path":
        return expanded(value)
    if setting.kind == "place" and value.startswith("~"):
        return str(expanded(value))
    return value


def _switch(value: object, *, typed: bool) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and not typed and value.lower() in (*_ON, *_OFF):
        return value.lower() in _ON
    return _WRONG


def _number(setting: Setting, value: object, *, typed: bool) -> object:
    whole = setting.kind == "whole"
    if isinstance(value, str) and not typed:
        try:
            value = int(value) if whole else float(value)
        except ValueError:
            return _WRONG
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        return _WRONG
    number = value if whole else float(value)
    if not math.isfinite(number):
        return _WRONG
    low = setting.least is not None and number < setting.least
    under = setting.above is not None and number <= setting.above
    high = setting.most is not None and number > setting.most
    return _WRONG if low or under or high else number


def _check_window(settings: Settings, origins: Mapping[str, str]) -> None:
    if settings.window is not None and settings.window <= settings.sinks:
        raise UsageError(
            f"The window must be larger than the sinks that it includes, but the window is {settings.window} "
            f"({origins['window']}) and there are {settings.sinks} sinks ({origins['sinks']})."
        )


def _shown(value: object) -> str:
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except TypeError:
        shown = str(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
