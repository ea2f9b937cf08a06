"""The key and value rows of one layer: preallocated, overwritten in place, never rotated again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Ring:
    """Keys and values of one layer, `[H_kv, rows, D]` each, on the layer's own device."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys = keys
        self.values = values

    @classmethod
    def like(cls, rows: int, key: Tensor, value: Tensor) -> Ring:
        """Empty, for entries like `key` and `value`, `[H_kv, T, D]`. Raises torch.OutOfMemoryError."""
        return cls(
            key.new_zeros(key.shape[0], rows, key.shape[2]), value.new_zeros(value.shape[0], rows, value.shape[2])
        )

    @property
    def rows(self) -> int:
        return self.keys.shape[1]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    def write(self, slots: Tensor, key: Tensor, value: Tensor) -> None:
        """Overwrites rows `slots` `[n]` with `key` and `value`, `[H_kv, n, D]`."""
        self.keys.index_copy_(1, slots, key)
        self.values.index_copy_(1, slots, value)

    def read(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of rows `slots` `[n]`, `[H_kv, n, D]` each, copied."""
        return self.keys.index_select(1, slots), self.values.index_select(1, slots)

    def relaid(self, rows: int, moves: Sequence[tuple[int, int]]) -> Ring:
        """A ring of `rows` rows with the same entries, after the `moves` (from slot, to slot)."""
        return Ring(_relaid(self.keys, rows, moves), _relaid(self.values, rows, moves))


def _relaid(buffer: Tensor, rows: int, moves: Sequence[tuple[int, int]]) -> Tensor:
    relaid = buffer.new_zeros(buffer.shape[0], rows, buffer.shape[2])
    common = min(rows, buffer.shape[1])
    relaid[:, :common] = buffer[:, :common]
    if moves:
        source, target = (torch.tensor(slots, device=buffer.device) for slots in zip(*moves, strict=True))
        relaid[:, target] = buffer[:, source]
    return relaid
