"""How tokens are drawn: a record that a model brings defaults for and a person overrides. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is drawn from the logits. `temperature` 0 is greedy; a None, 0 or 1 that means "off" is off."""

    temperature: float = 0.8
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = 0.05
    repetition_penalty: float | None = 1.15
    repetition_window: int = 128
    """The penalty looks at that many latest tokens."""
    seed: int | None = None
    """Seeds the generator once, when the engine is made or the sampling is set."""
