"""What a model's makers say in `generation_config.json`: how tokens are drawn, and which of them end a reply.

Free of torch. Transformers fills this file's gaps with defaults of its own, which no one meant: here a gap is a gap.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sinkchat.models.sampling import Sampling

SMALL_SAMPLING = Sampling(temperature=0.8, min_p=0.05, repetition_penalty=1.15, repetition_window=128)
"""For so small a model: greedy or unpenalised, it repeats itself under any cache."""

UNSTATED_SAMPLING = Sampling(temperature=0.7, min_p=0.05, repetition_penalty=None)
"""For a model whose makers say nothing: lively, and without the long tail of unlikely tokens."""


def stated(folder: Path) -> dict[str, Any]:
    """The file's content; empty if there is none or it cannot be read."""
    try:
        content = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def stated_sampling(generation: Mapping[str, Any]) -> Sampling:
    """Greedy where the makers say so (`do_sample` false), theirs where they say anything else about it."""
    if generation.get("do_sample") is False:
        return Sampling(temperature=0.0, min_p=None, repetition_penalty=_above(generation, "repetition_penalty", 0))
    names = ("temperature", "top_p", "top_k", "min_p", "typical_p")
    if generation.get("do_sample") is not True and not any(_above(generation, name, 0) for name in names):
        return UNSTATED_SAMPLING
    temperature, top_k = _above(generation, "temperature", 0), _above(generation, "top_k", 0)
    return Sampling(
        temperature=1.0 if temperature is None else temperature,
        top_p=_above(generation, "top_p", 0),
        top_k=None if top_k is None else int(top_k),
        min_p=_above(generation, "min_p", 0),
        repetition_penalty=_above(generation, "repetition_penalty", 0),
    )


def stated_stops(generation: Mapping[str, Any]) -> frozenset[int]:
    """The ids of `eos_token_id`, one or several."""
    ids = generation.get("eos_token_id")
    several = ids if isinstance(ids, list) else [ids]
    return frozenset(token_id for token_id in several if isinstance(token_id, int))


def _above(generation: Mapping[str, Any], name: str, least: float) -> float | None:
    value = generation.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value <= least:
        return None
    return float(value)
