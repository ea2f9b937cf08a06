"""What a person allows a model's files to do; by default nothing. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allowed:
    """Both are false unless a flag says otherwise."""

    pickle: bool = False
    """Read pickled weights where there are no safetensors."""
    remote_code: bool = False
    """Run the Python code that comes with the model."""


NOTHING = Allowed()
