"""The product over a tiny model of a family: proved at load, then driven over a sequence."""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import nn

from sinkchat.cache.attention import NAME
from sinkchat.cache.bounded import BoundedCache
from sinkchat.cache.proof import Turns, prove
from tests.cache import product
from tests.families.families import LONG
from tests.families.models import tiny


def proved(model: nn.Module, window: int, sinks: int = 4) -> Turns:
    """All that loading asks of a model before a person may chat with it. Raises ModelRefused."""
    turns = prove(model, window)
    BoundedCache(model, turns, sinks=sinks, window=window).warm_up()
    return turns


@cache
def ready(family: str, rope: str, window: int) -> tuple[nn.Module, Turns]:
    model = tiny(family, rope, attn_implementation=NAME)
    return model, proved(model, window)


def run(*given: Any, **settings: Any) -> product.Run:
    """As `tests.cache.product` runs it, whatever length the family's config was made with."""
    return product.run(*given, **settings, trained_length=LONG)
