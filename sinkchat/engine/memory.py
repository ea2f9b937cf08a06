"""Memory of the device that a model runs on."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from sinkchat.engine.events import DeviceMemory


def device_memory(device: str) -> DeviceMemory | None:
    """None where the system does not tell."""
    where = torch.device(device)
    if where.type == "cuda":
        free, total = torch.cuda.mem_get_info(where)
        return DeviceMemory(torch.cuda.memory_allocated(where), total, free)
    if where.type == "mps":
        total = torch.mps.recommended_max_memory()
        used = torch.mps.driver_allocated_memory()
        return DeviceMemory(used, total, total - used)
    return _process_memory()


def _process_memory() -> DeviceMemory | None:
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total = os.sysconf("SC_PHYS_PAGES") * page
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * page
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return None
    return DeviceMemory(resident, total, free)
