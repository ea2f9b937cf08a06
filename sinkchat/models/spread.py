"""A model spread over all GPUs of a machine, each with its share of the layers and of their cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sinkchat.errors import ModelError, UsageError
from sinkchat.models.memory import MARGIN, Layout, Plan


@dataclass(frozen=True, slots=True)
class Spread:
    """Several GPUs, and the free bytes of each."""

    free: tuple[int, ...]

    def map(self, layout: Layout, plan: Plan) -> dict[str, Any]:
        """Arguments for loading. What a layer caches lies beside it, so that each GPU keeps room for its part."""
        share = layout.bytes(plan.window, plan.dtype.itemsize) // len(self.free)
        # Layers do not divide evenly: one GPU may get more of them than another.
        room = [max(0, free - MARGIN["cuda"] - int(1.25 * share)) for free in self.free]
        return {"device_map": "auto", "max_memory": dict(enumerate(room))}


def spread(device_map: str, asked: str, device: torch.device) -> Spread | None:
    """The GPUs to spread over; None where one device is all there is, or all that is wanted.

    asked: the person's words for the device. Raises `UsageError` where they name a single one.
    """
    if device_map != "auto" or device.type != "cuda" or torch.cuda.device_count() < 2:
        return None
    if ":" in asked:
        raise UsageError(
            f"--device {asked} is one GPU and --device-map auto takes all of them; leave one of them out."
        )
    return Spread(tuple(torch.cuda.mem_get_info(index)[0] for index in range(torch.cuda.device_count())))


def placed_whole(model: Any, name: str) -> None:
    """Raise `ModelError` where a part of the model was put off the GPUs: every token would wait for a disk."""
    places = set(getattr(model, "hf_device_map", {}).values())
    if len(places) > 1 and places & {"cpu", "disk"}:
        raise ModelError(
            f"{name} does not fit into the memory of the GPUs: a part of it would lie on the disk; "
            "say --quant nf4, a smaller --window, or take a smaller model."
        )
