"""A loaded model, in words and figures. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_WINDOW = 4096
"""KV entries per layer where nobody says otherwise, or the trained length if that is less."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A loaded model, in words and figures."""

    name: str
    """As the person named it: a hub name, a folder, or the small model's."""
    revision: str | None
    """Commit of a hub snapshot, or sha256 of a GGUF file, the small model's too; None for a plain folder."""
    family: str
    """The config's `model_type`."""
    layers: int
    heads: int
    """Query heads per layer."""
    kv_heads: int
    trained_length: int
    """Positions that the model was trained for."""
    quant: str
    """In force: `none`, `nf4`, `int8`, or what the checkpoint is stored in, such as `gptq`."""
    dtype: str
    """`float32`, `bfloat16` or `float16`."""
    device: str
    """Where the model is; the device of its embeddings where it is spread over several."""
    weight_bytes: int
