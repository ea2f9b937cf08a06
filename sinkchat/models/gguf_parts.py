"""A GGUF file on this machine, or the parts that a large one is split into. Free of torch."""

from __future__ import annotations

import re
from pathlib import Path

from sinkchat.errors import ModelError

PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE)
"""Name, number and count, as llama.cpp names the parts."""


def gguf_parts(file: Path, name: str) -> tuple[Path, ...]:
    """The file, or all the parts that it is one of, in order. Raises `ModelError` for one that is no GGUF file."""
    split = PART.fullmatch(file.name)
    parts = [file]
    if split:
        count = int(split[3])
        parts = [file.with_name(f"{split[1]}-{part:05}-of-{count:05}.gguf") for part in range(1, count + 1)]
    for part in parts:
        try:
            with part.open("rb") as stream:
                magic = stream.read(4)
        except FileNotFoundError:
            raise ModelError(f"{name} is in {len(parts)} parts, and {part.name} is not beside it.") from None
        except OSError as error:
            raise ModelError(f"{part} cannot be read: {error.strerror}.") from error
        if magic != b"GGUF":
            raise ModelError(f"{part} is no GGUF file, whatever its name says; fetch it again.")
    return tuple(parts)
