"""The key and value rows of one layer: preallocated, overwritten in place, never rotated again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Ring:
    """Keys and values of one layer, `[H_kv, rows, D]` each, on the layer's own device."""

    def __init__(self, rows: int, key: Tensor, value: Tensor) -> None:
        """Allocates like `key` and `value`, `[H_kv, T, D]`. Raises torch.OutOfMemoryError when there is no room."""
        self.keys = key.new_zeros(key.shape[0], rows, key.shape[2])
        self.values = value.new_zeros(value.shape[0], rows, value.shape[2])

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

    def relayout(self, rows: int, moves: Sequence[tuple[int, int]]) -> None:
        """Have `rows` rows: first the `moves` (from slot, to slot), then cut or extend."""
        self.keys = _relayout(self.keys, rows, moves)
        self.values = _relayout(self.values, rows, moves)


def _relayout(buffer: Tensor, rows: int, moves: Sequence[tuple[int, int]]) -> Tensor:
    if moves:
        source, target = (torch.tensor(slots, device=buffer.device) for slots in zip(*moves, strict=True))
        buffer[:, target] = buffer[:, source]
    if rows == buffer.shape[1]:
        return buffer
    resized = buffer.new_zeros(buffer.shape[0], rows, buffer.shape[2])
    common = min(rows, buffer.shape[1])
    resized[:, :common] = buffer[:, :common]
    return resized
