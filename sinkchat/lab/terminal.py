"""An evaluation in a terminal: curves, head maps and tables as plain text, for any width and for ASCII alone.

Nothing here writes an escape unless `color` asks for it. `ascii` is for a stream that can encode no more.
"""

from __future__ import annotations

from sinkchat.lab.terminal_curves import curves
from sinkchat.lab.terminal_heads import head_map
from sinkchat.lab.terminal_tables import generation_table, recall_table, table

__all__ = ["curves", "generation_table", "head_map", "recall_table", "table"]
