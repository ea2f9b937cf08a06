"""Every setting, described once: its field, kind, default, choices, range and one sentence of help.

The command line's flags, the `SINKCHAT_*` environment variables and the keys of `config.toml` are made from this one
table; `cli/resolved.py` reads them.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Kind = Literal["text", "place", "path", "whole", "real", "switch"]

PREFIX = "SINKCHAT_"

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
    policy: Literal["sinks", "window", "full", "recompute"] = _setting(
        "text",
        "sinks",
        "What is kept when the cache is full: the sinks and the newest, the newest alone, everything, or the sinks "
        "and the newer half, which runs again.",
        choices=("sinks", "window", "full", "recompute"),
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
        "How the weights are quantized; auto keeps a stored quantization, else takes nf4 on CUDA and for large "
        "models on a fast CPU.",
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


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the known one that was probably meant, else all of them."""
    known = tuple(known)
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {found[0]}?" if found else f"known are {', '.join(known)}."


def _article(kind: Kind) -> str:
    return "a whole number" if kind == "whole" else "a number"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
