"""Which slot the next token takes and which entry that evicts: plain Python, free of torch."""

from __future__ import annotations

from typing import Literal

Policy = Literal["sinks", "window", "full"]
Positions = Literal["cache", "absolute"]
