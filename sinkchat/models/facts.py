"""A loaded model, in words and figures. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A loaded model, in words and figures."""

    name: str
    """As the person named it: a hub name, a folder, or the small model's."""
    revision: str | None
    """Commit of a hub snapshot, or sha256 of the small model's file; None for a plain folder."""
    family: str
    """The config's `model_type`."""
    layers: int
    heads: int
    """Query heads per layer."""
    kv_heads: int
    trained_length: int
    """Positions that the model was trained for."""
    quant: str
    """In force: `none`, `nf4` or `int8`."""
    dtype: str
    """`float32`, `bfloat16` or `float16`."""
    device: str
    weight_bytes: int
