"""Every setting, described once: its field, kind, default, choices, range and one sentence of help.

The command line's flags, the `SINKCHAT_*` environment variables and the keys of `config.toml` are made from this one
table. A flag wins over the environment, the environment over the file, the file over the default.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tomli

from sinkchat import locations
from sinkchat.errors import UsageError

Kind = Literal["text", "place", "path", "whole", "real", "switch"]

PREFIX = "SINKCHAT_"
CONFIG_VARIABLE = "SINKCHAT_CONFIG"

_ON = ("1", "true", "yes", "on")
_OFF = ("0", "false", "no", "off")
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as every place that offers it describes it."""

    field: str
    """The field of `Settings`, and the key in `config.toml`."""
    kind: Kind
    """`place` is a text that may name a folder, `path` a file, `whole` an integer, `real` a float."""
    default: object
    help: str
    """One sentence."""
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    above: float | None = None
    """The value must be greater than this."""

    @property
    def flag(self) -> str:
        return "--" + self.field.replace("_", "-")

    @property
    def variable(self) -> str:
        return PREFIX + self.field.upper()

    @property
    def allowed(self) -> str:
        """What a value may be, in words that follow "must be"."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind == "switch":
            return "true or false"
        if self.kind in ("whole", "real"):
            return _article(self.kind) + self._range()
        return "a text" if self.kind == "text" else "a name or a path" if self.kind == "place" else "a path"

    def _range(self) -> str:
        low = f" above {_figure(self.above)}" if self.above is not None else ""
        if self.least is not None and self.most is not None and self.most < _LARGEST:
            return f" from {_figure(self.least)} to {_figure(self.most)}"
        if self.least is not None:
            low = f" of at least {_figure(self.least)}"
        return low + (f", at most {_figure(self.most)}" if self.most is not None and self.most < _LARGEST else "")


def _setting(kind: Kind, default: object, help: str, **range_: Any) -> Any:
    return dataclasses.field(default=default, metadata={"setting": (kind, help, range_)})


@dataclass(frozen=True, slots=True)
class Settings:
    """What a person chose, checked. Each field's sentence is its documentation; None leaves the choice to the model.

    The order of the fields is the order in which they are listed everywhere.
    """

    model: str | None = _setting(
        "place",
        None,
        "A Hugging Face name, a local folder or a GGUF file; unset, the small model that sinkchat fetches itself.",
    )
    sinks: int = _setting(
        "whole", 4, "How many of the first tokens are kept for good, as attention sinks.", least=0, most=_LARGEST
    )
    window: int | None = _setting(
        "whole",
        None,
        "The most KV entries a layer may hold, sinks included; unset, 4096, or the model's trained length if less.",
        least=1,
        most=_LARGEST,
    )
    policy: Literal["sinks", "window", "full"] = _setting(
        "text",
        "sinks",
        "What is kept when the cache is full: the sinks and the newest, the newest alone, or everything.",
        choices=("sinks", "window", "full"),
    )
    positions: Literal["cache", "absolute"] = _setting(
        "text",
        "cache",
        "Where a query is placed: by its index in the cache, or by its place in the whole sequence.",
        choices=("cache", "absolute"),
    )
    quant: str = _setting(
        "text",
        "auto",
        "How the weights are quantized; auto takes nf4 on CUDA and for large models on a fast CPU, none elsewhere.",
        choices=("auto", "none", "nf4", "int8"),
    )
    device: str = _setting("text", "auto", "Where the model runs: auto, cpu, cuda, cuda:1 or mps.")
    device_map: str = _setting(
        "text",
        "none",
        "Spread the layers over all GPUs of this machine with auto; with none they stay on the one device.",
        choices=("none", "auto"),
    )
    dtype: str = _setting(
        "text",
        "auto",
        "The type of the weights and of the cache.",
        choices=("auto", "float32", "bfloat16", "float16"),
    )
    system: str | None = _setting("text", None, "A system prompt that opens the conversation.")
    pin_system: bool = _setting("switch", False, "Keep the whole system prompt for good, as further sinks.")
    temperature: float | None = _setting(
        "real", None, "How freely tokens are drawn; 0 always takes the likeliest.", least=0
    )
    top_p: float | None = _setting(
        "real", None, "Draw from the likeliest tokens that together have this probability; 1 is off.", above=0, most=1
    )
    top_k: int | None = _setting(
        "whole", None, "Draw from this many of the likeliest tokens; 0 is off.", least=0, most=_LARGEST
    )
    min_p: float | None = _setting(
        "real",
        None,
        "Draw from tokens at least this likely, relative to the likeliest; 0 is off.",
        least=0,
        most=1,
    )
    repetition_penalty: float | None = _setting(
        "real", None, "Make tokens that came lately less likely by this factor; 1 is off.", above=0
    )
    max_reply_tokens: int = _setting(
        "whole", 1024, "The most tokens of one reply; 0 means no limit.", least=0, most=_LARGEST
    )
    seed: int | None = _setting(
        "whole", None, "Makes a run repeatable: the same seed draws the same tokens.", least=0, most=_LARGEST
    )
    theme: str = _setting("text", "harbour", "The colours of the screen, by name; own ones go in the themes folder.")
    send_key: str = _setting(
        "text",
        "enter",
        "The key that sends a message; with ctrl+j, Enter makes a new line.",
        choices=("enter", "ctrl+j"),
    )
    allow_pickle: bool = _setting(
        "switch",
        False,
        "Read pickled weights where there are no safetensors; such a file can be made to run code, so allow it only "
        "for models that you trust.",
    )
    trust_remote_code: bool = _setting(
        "switch",
        False,
        "Run the Python code that comes with a model; it can do all that you can do, so allow it only for code that "
        "you have read.",
    )
    small_model_file: Path | None = _setting(  # noqa: RUF009 -- a default made of immutable things
        "path", None, "The small model's GGUF file on this machine, used instead of fetching it."
    )


def _describe() -> tuple[Setting, ...]:
    table = []
    for field in dataclasses.fields(Settings):
        kind, sentence, range_ = field.metadata["setting"]
        table.append(Setting(field.name, kind, field.default, sentence, **range_))
    return tuple(table)


TABLE: tuple[Setting, ...] = _describe()


@dataclass(frozen=True, slots=True)
class Resolved:
    """Settings, and where each value came from: a flag, a variable, a file, or `default`."""

    settings: Settings
    origins: Mapping[str, str]
    config_file: Path
    """The file that was read, or would have been if it existed."""


def load_settings(
    flags: Mapping[str, object], environ: Mapping[str, str], config_file: Path | None = None
) -> Settings:
    """The settings in force; see `resolve`."""
    return resolve(flags, environ, config_file).settings


def resolve(flags: Mapping[str, object], environ: Mapping[str, str], config_file: Path | None = None) -> Resolved:
    """Settings from flags over environment over file over defaults.

    `flags` maps fields to values, None where a flag was not given; texts are read as a command line's.
    `config_file` must exist when given; without it `SINKCHAT_CONFIG` names the file, else the usual one is read if
    it is there. Raises `UsageError` for an unknown key, a wrong value, or a file that cannot be read.
    """
    named = config_file or (Path(environ[CONFIG_VARIABLE]).expanduser() if environ.get(CONFIG_VARIABLE) else None)
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


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the known one that was probably meant, else all of them."""
    known = tuple(known)
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {found[0]}?" if found else f"known are {', '.join(known)}."


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
        return tomli.loads(path.read_bytes().decode("utf-8-sig"))
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


_WRONG = object()


def _convert(setting: Setting, value: object, *, typed: bool) -> object:
    if setting.kind == "switch":
        return _switch(value, typed=typed)
    if setting.kind in ("whole", "real"):
        return _number(setting, value, typed=typed)
    if isinstance(value, Path) and setting.kind == "path":
        return value.expanduser()
    if not isinstance(value, str) or "\0" in value:
        return _WRONG
    if setting.choices:
        return value if value in setting.choices else _WRONG
    if not value.strip():
        # An empty text takes back what a lower layer set, where "not set" is a value.
        return None if setting.default is None else _WRONG
    if setting.kind == "path":
        return Path(value).expanduser()
    if setting.kind == "place" and value.startswith("~"):
        return str(Path(value).expanduser())
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


def _article(kind: Kind) -> str:
    return "a whole number" if kind == "whole" else "a number"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
