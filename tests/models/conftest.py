"""What the tests of models share: tiny folders, and the real small model, fetched once into the user's cache."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sinkchat.models.find import find
from sinkchat.models.load import LoadedModel, load
from tests.models.tiny import save_llama


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole, random llama model. Read only."""
    return save_llama(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def small() -> LoadedModel:
    """The small model as the program loads it, not quantized."""
    return load(find(None), quant="none", device="cpu")
