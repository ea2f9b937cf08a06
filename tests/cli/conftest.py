"""Each test has folders of its own and a log of its own; the small model alone is shared, in the person's cache."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def places(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that holds `config`, `data`, `cache` and `state`."""
    real_model = request.node.get_closest_marker("real_model") is not None
    for kind in ("CONFIG", "DATA", "STATE") if real_model else ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"SINKCHAT_{kind}_DIR", str(tmp_path / kind.lower()))
    root = logging.getLogger()
    before = list(root.handlers)
    yield tmp_path
    for handler in [handler for handler in root.handlers if handler not in before]:
        root.removeHandler(handler)
        handler.close()
    logging.captureWarnings(False)
