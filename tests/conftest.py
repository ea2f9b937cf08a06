"""What several folders of tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import sinkchat.models.libraries  # noqa: F401  before anything imports torch

if TYPE_CHECKING:
    from sinkchat.models.load import LoadedModel


@pytest.fixture(scope="session")
def small_float32() -> LoadedModel:
    """The real small model in float32, as the program finds and loads it. Imported late: most tests need no torch."""
    from sinkchat.models.find import find
    from sinkchat.models.load import load

    return load(find(None), quant="none", device="cpu", dtype="float32")
