"""The matrix: what the product gives for a family, rope type, policy, positions and chunk, and what it must give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from tests.families import product
from tests.families.families import Family
from tests.families.models import random_tokens, tiny
from tests.reference import anew, eager
from tests.reference.paper import Schedule

SINKS = 4
WINDOW = 16
COUNT = 52
CHUNKS = (1, 7, WINDOW + 9)
POSITIONS = ("cache", "absolute")
POLICIES = ("sinks", "window", "full", "sinks, window, sinks")
LOGITS = 1e-4
"""What may differ, of their scale. Float32 alone gives up to 5e-6; a wrong angle, entry or bound at least 0.1."""
SHARES = 1e-5

SWITCHES: Schedule = {24: [("policy", "window")], 38: [("policy", "sinks")]}
"""What the last of the policies does, before the tokens of these numbers."""


@dataclass(frozen=True)
class Case:
    family: str
    rope: str
    policy: str
    positions: str

    def __str__(self) -> str:
        return f"{self.family}-{self.rope}-{self.policy}-{self.positions}"

    @property
    def schedule(self) -> Schedule | None:
        return SWITCHES if "," in self.policy else None

    @property
    def starts_as(self) -> str:
        return self.policy.split(",")[0]


@dataclass(frozen=True)
class Expected:
    logits: Tensor  # [T, V]
    shares: Tensor  # [T, L, H]
    learned: Tensor  # [T, L, H]: what belongs to no entry
    own: tuple[int | None, ...]


@dataclass(frozen=True)
class Difference:
    logits: float
    """Of the reference's scale."""
    shares: float
    learned: float
    """In what learned sinks take."""
    has_learned: bool

    @property
    def exact(self) -> bool:
        return self.logits < LOGITS and self.shares < SHARES and self.learned < SHARES


def cases(family: Family) -> Iterator[Case]:
    """Every policy; other rope types than the default, which are a matter of the table alone, with switches."""
    for rope in family.ropes:
        for policy in POLICIES if rope == "default" else POLICIES[-1:]:
            for positions in POSITIONS:
                yield Case(family.name, rope, policy, positions)


@cache
def witness(family: str, rope: str) -> tuple[Any, list[int | None]]:
    model = tiny(family, rope)
    own = anew.own_windows(model)
    anew.fix_tables(model, WINDOW)
    return model, own


@cache
def expected(case: Case) -> Expected:
    """By the model's own eager attention under explicit masks (absolute), or by the paper's procedure (cache)."""
    model, own = witness(case.family, case.rope)
    seen = eager.visibility(COUNT, SINKS, WINDOW, case.starts_as, case.schedule, case.positions)
    tokens = random_tokens(COUNT)
    if case.positions == "cache":
        placed = anew.run_placed(model, tokens, seen, own)
        logits, attentions = placed.logits, placed.attentions
    else:
        masked = anew.run_masked(model, tokens, seen, own)
        logits, attentions = masked.logits, anew.in_cache_order(masked, seen)
    return Expected(
        logits,
        anew.share(attentions, seen, SINKS),
        torch.stack([1 - weights.sum(-1) for weights in attentions]),
        tuple(own),
    )


def difference(case: Case, chunk: int, start_position: int = 0) -> Difference:
    """Of the product from what is expected, which does not depend on the start position. Raises ModelRefused."""
    model, turns = product.ready(case.family, case.rope, WINDOW)  # first: what is refused needs no reference
    reference = expected(case)
    ours = product.run(
        model,
        turns,
        random_tokens(COUNT),
        SINKS,
        WINDOW,
        chunk=chunk,
        policy=case.starts_as,
        positions=case.positions,
        schedule=case.schedule,
        start_position=start_position,
    )
    shared = torch.tensor([window is None for window in reference.own])
    alike = torch.equal((~ours.shares.isnan()).all(dim=2).all(dim=0), shared)  # the layers that have sinks
    shares = (ours.shares - reference.shares)[:, shared].abs() if alike else torch.full((1,), float("inf"))
    # a layer without learned sinks has none to report, and the reference knows that they take nothing there
    learned = reference.learned if ours.learned is None else reference.learned - ours.learned.nan_to_num()
    return Difference(
        float((ours.logits - reference.logits).abs().max() / reference.logits.abs().max()),
        float(shares.max()) if shares.numel() else 0.0,
        float(learned.abs().max()),
        ours.learned is not None,
    )


def worst(cases: Iterable[Case]) -> Difference:
    """Over all of them and every chunk. Raises ModelRefused."""
    most = Difference(0.0, 0.0, 0.0, False)
    for case in cases:
        for chunk in CHUNKS:
            this = difference(case, chunk)
            most = replace(most, **{name: max(getattr(most, name), getattr(this, name)) for name in vars(most)})
    return most
