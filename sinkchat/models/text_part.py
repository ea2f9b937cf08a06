"""The text part of a model that takes pictures or sound too: loaded alone, without the towers that nobody asks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from sinkchat.models.family import causal_families
from sinkchat.models.weights import StoredTensor

_NAMES = {
    r"^language_model\.model\.": "model.",
    r"^language_model\.lm_head\.": "lm_head.",
    r"^model\.language_model\.": "model.",
}
"""Where checkpoints of such models keep it, and what the text model calls it."""


def text_part(config: Any) -> Any | None:
    """The config of the text model within a config of transformers; None where the model is but text, or where
    transformers has no class for the text model alone."""
    text = config.get_text_config()
    return text if text is not config and text.model_type in causal_families() else None


def loading_options(text: Any, whole: Any) -> dict[str, Any]:
    """Arguments with which `from_pretrained` loads the text model from the checkpoint of the `whole`."""
    if (stored := getattr(whole, "quantization_config", None)) is not None:
        text.quantization_config = stored
    return {"config": text, "key_mapping": _NAMES}


def of_text(tensors: Iterable[StoredTensor]) -> tuple[StoredTensor, ...]:
    """Those of the checkpoint's tensors that the text model has."""
    return tuple(
        tensor
        for tensor in tensors
        if any(re.match(pattern, tensor.name) for pattern in _NAMES) or tensor.name.startswith("lm_head.")
    )
