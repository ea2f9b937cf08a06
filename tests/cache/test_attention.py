"""The two shapes of attention against a softmax written out, query by query, in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sinkchat.cache import attention
from sinkchat.cache.attention import Attended, Band, Extras, attend_chunk, attend_one
from sinkchat.cache.slots import Step

TOLERANCE = 1e-5
"""Values are of size one. Measured: 1.5e-6."""


@dataclass(frozen=True)
class Case:
    """A chunk of queries over sinks, recents and itself, all random."""

    query: Tensor  # [H_q, T, D]
    turned: Tensor
    keys: Tensor  # [H_kv, sinks + recents + T, D]
    values: Tensor
    step: Step
    watch: int | None
    own: int | None
    extras: Extras

    def entries(self, i: int) -> list[int]:
        """What query i sees, by age: the sinks, then what it does not push out, itself last."""
        sinks, recents, room = self.step.sinks, self.step.recents, self.step.room
        others = [sinks + place for place in range(recents + i + 1)]
        seen = [*range(sinks), *others[max(0, i + 1 - room) :]]
        return [e for e in seen if self.own is None or self.position(e) > self.step.first + i - self.own]

    def position(self, entry: int) -> int:
        """The sinks begin the sequence, all others end it."""
        return entry if entry < self.step.sinks else entry - self.step.sinks - self.step.recents + self.step.first

    def watched(self, i: int) -> list[int]:
        if self.watch is not None:
            return self.entries(i)[: self.watch]
        return self.entries(i) if self.step.as_sinks else list(range(self.step.sinks))

    def naive(self, i: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Output `[H_q, D]`, share and what a learned sink takes `[H_q]`, mean weight of each entry; in float64."""
        seen, group = self.entries(i), len(self.query) // len(self.keys)
        outputs, shares, taken, weights = [], [], [], []
        for head in range(len(self.query)):
            logits = []
            for entry in seen:
                query = self.turned if entry < self.step.sinks else self.query
                logit = (
                    float(query[head, i].double() @ self.keys[head // group, entry].double()) * self.extras.scaling
                )
                cap = self.extras.softcap
                logits.append(logit if cap is None else cap * math.tanh(logit / cap))
            if self.extras.learned is not None:
                logits.append(float(self.extras.learned[head]))
            attended = torch.softmax(torch.tensor(logits, dtype=torch.float64), dim=0)[: len(seen)]
            outputs.append(attended @ self.values[head // group, seen].double())
            shares.append(sum(attended[n] for n, entry in enumerate(seen) if entry in self.watched(i)))
            taken.append(1 - attended.sum())
            weights.append(attended)
        return torch.stack(outputs), torch.tensor(shares), torch.tensor(taken), torch.stack(weights).mean(0)

    def chunk(self) -> Attended:
        held = self.step.sinks + self.step.recents
        return attend_chunk(
            self.query,
            self.turned,
            self.keys[:, held:],
            self.values[:, held:],
            lambda a, b: (self.keys[:, a:b], self.values[:, a:b]),
            band=Band(self.step, self.watch, self.own, self.query.device),
            extras=self.extras,
        )

    def one(self, i: int, slots: list[int], rows: int) -> Attended:
        """Query i over a buffer of `rows` rows, in which its entries lie at `slots` and rubbish everywhere else."""
        seen = self.entries(i)
        keys = torch.full((len(self.keys), rows, self.keys.shape[2]), 50.0)
        values = torch.full_like(keys, -70.0)
        keys[:, slots], values[:, slots] = self.keys[:, seen], self.values[:, seen]
        hidden = torch.ones(rows, dtype=torch.bool)
        hidden[slots] = False
        watched = [slot for slot, entry in zip(slots, seen, strict=True) if entry in self.watched(i)]
        return attend_one(
            self.query[:, i : i + 1],
            self.turned[:, i : i + 1] if self.step.sinks and self.own is None else None,
            keys,
            values,
            watched=torch.tensor(watched, dtype=torch.long) if self.own is None else None,
            hidden=hidden if hidden.any() else None,
            extras=self.extras,
        )


@st.composite
def cases(draw: st.DrawFn, *, most: int = 20) -> Case:
    groups, per_group, width = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.sampled_from([2, 8, 16]))
    kind = draw(st.sampled_from(["sinks", "filling", "oldest", "own window"]))
    sinks = draw(st.integers(0, most)) if kind != "oldest" else 0
    recents = draw(st.integers(0, most)) if kind != "filling" else 0
    count = draw(st.integers(1, most))
    room = count if kind == "filling" else draw(st.integers(0 if recents else 1, count + most))
    gone = draw(st.integers(0, most)) if kind != "filling" else 0
    own = draw(st.integers(1, 2 * most)) if kind == "own window" else None
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    query = normal(groups * per_group, count, width) * draw(st.sampled_from([1.0, 6.0]))
    return Case(
        query=query,
        turned=normal(groups * per_group, count, width) if own is None else query,
        keys=normal(groups, sinks + recents + count, width),
        values=normal(groups, sinks + recents + count, width),
        step=Step(sinks + recents + gone, count, sinks, recents, room, (), None, as_sinks=kind == "filling"),
        watch=draw(st.integers(0, most)) if kind == "oldest" else None,
        own=own,
        extras=Extras(
            scaling=draw(st.sampled_from([width**-0.5, 1.0])),
            softcap=draw(st.sampled_from([None, 2.0])),
            learned=normal(groups * per_group) if draw(st.booleans()) else None,
        ),
    )


def assert_query(attended: Attended, row: int, case: Case, i: int, tolerance: float) -> None:
    output, share, taken, _ = case.naive(i)
    assert (attended.output[:, row] - output).abs().max() < tolerance
    if case.own is not None:
        assert attended.share is None
    else:
        assert (attended.share[row] - share).abs().max() < tolerance
    if case.extras.learned is None:
        assert attended.learned is None
    else:
        assert (attended.learned[row] - taken).abs().max() < tolerance


@given(case=cases(), block=st.sampled_from([1, 3, 8, 512]))
@settings(max_examples=150, deadline=None)
def test_a_chunk_is_the_plain_softmax_however_it_is_cut_into_blocks(case, block) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "BLOCK", block)
        attended = case.chunk()
    for i in range(case.step.count):
        assert_query(attended, i, case, i, TOLERANCE)


@given(case=cases(), data=st.data())
@settings(max_examples=150, deadline=None)
def test_one_query_is_the_plain_softmax_wherever_its_entries_lie(case, data) -> None:
    i = data.draw(st.integers(0, case.step.count - 1))
    seen = case.entries(i)
    rows = len(seen) + data.draw(st.integers(0, 5))
    slots = data.draw(st.permutations(range(rows)))[: len(seen)]
    # what meets the turned query in a lone step is what is watched: with sinks still to come, nothing is turned yet
    case = replace(case, turned=case.query) if case.step.as_sinks else case
    attended = case.one(i, slots, rows)
    assert_query(attended, 0, case, i, TOLERANCE)
    spread = torch.zeros(rows, dtype=torch.float64)
    spread[slots] = case.naive(i)[3]
    assert (attended.weights - spread).abs().max() < TOLERANCE


@given(case=cases(most=12))
@settings(max_examples=60, deadline=None)
def test_bfloat16_rounds_and_no_more(case) -> None:
    """Against the same rounded numbers: what a logit of this size loses in 8 bits, and the values beside."""
    names = ("query", "turned", "keys", "values")
    half = replace(case, **{name: getattr(case, name).bfloat16() for name in names})
    longest = max(float(half.query.float().norm(dim=-1).max()), float(half.turned.float().norm(dim=-1).max()))
    logit = longest * float(half.keys.float().norm(dim=-1).max()) * case.extras.scaling
    attended = half.chunk()
    assert attended.output.dtype == torch.bfloat16
    for i in range(case.step.count):
        assert_query(attended, i, half, i, 2**-8 * (8 + 4 * logit))


def test_a_key_far_beyond_the_others_takes_everything_and_nothing_overflows() -> None:
    """The maximum of a later block replaces that of an earlier one."""
    keys = torch.zeros(1, 9, 4)
    keys[0, 5] = 100.0
    values = torch.arange(36.0).view(1, 9, 4)
    query = torch.full((1, 1, 4), 100.0)
    case = Case(query, query, keys, values, Step(8, 1, 2, 6, 8, (), None), None, None, Extras(1.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "BLOCK", 2)
        attended = case.chunk()
    assert torch.equal(attended.output[0, 0], values[0, 5])
    assert attended.share.tolist() == [[0.0]]
