"""What `sinkchat sinks` says of a sweep."""

from __future__ import annotations

import re
from dataclasses import replace

from sinkchat.cli import sinks
from tests.lab.test_advice import sweep


def test_shares_are_written_as_everywhere(capsys) -> None:
    swept = sweep({0: 1.0, 1: 0.0, 4: 0.0})
    shares = ((0.618, 0.0214), (0.0, 1.0))
    runs = [replace(run, complete=True, sink_share_mean=0.3214, sink_share_heads=shares) for run in swept.runs]
    sinks.show(replace(swept, runs=runs, complete=True))
    told = " ".join(capsys.readouterr().out.split())
    assert "32 %" in told
    assert "layer 1 head 1 (100 %), layer 0 head 0 (62 %)" in told
    assert not re.search(r"[0-9]%", told)
