"""What is on this machine is told with its reasons; only what is sinkchat's own is ever removed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from sinkchat import locations
from sinkchat.errors import ModelError, UsageError
from sinkchat.models import shelf
from sinkchat.models.progress import Progress, silent
from sinkchat.models.shelf import bring, owned, remove, shelved
from tests.models.hub_server import hub_server
from tests.models.test_find import cached_model, model_folder
from tests.models.wheel import tiny_gguf


@pytest.fixture(autouse=True)
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub and an empty folder of our own."""
    from huggingface_hub import constants

    monkeypatch.setenv(locations.CACHE_DIR, str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    locations.models_dir().mkdir(parents=True)
    return tmp_path / "hub"


def own_model(name: str, **config: Any) -> Path:
    folder = model_folder(locations.models_dir() / name, **config)
    (folder / "model.safetensors").write_bytes(bytes(1000))
    return folder


def test_the_small_model_is_listed_before_it_is_here_and_after() -> None:
    assert [(model.name, model.bytes) for model in shelved()] == [("SmolLM2-135M-Instruct", None)]
    own_model("smollm2-135m-instruct")
    (only,) = shelved()
    assert (only.place, only.problem) == ("small", None)
    assert only.bytes is not None
    assert only.bytes > 1000


def test_own_models_and_those_of_the_hub_are_listed_with_size_family_and_whether_they_run(hub_cache: Path) -> None:
    own_model("mine-1234abcd")
    (cached_model(hub_cache, "org/tiny-llama") / "model.safetensors").write_bytes(bytes(2000))
    cached_model(hub_cache, "org/exact", branch="v2")
    small, mine, exact, tiny = shelved()
    assert (small.place, mine.place, exact.place, tiny.place) == ("small", "own", "hub", "hub")
    assert (mine.name, mine.family, mine.problem) == ("mine-1234abcd", "llama", None)
    assert (exact.name, tiny.name) == ("org/exact@v2", "org/tiny-llama")
    assert tiny.bytes is not None
    assert tiny.bytes >= 2000


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"model_type": "gpt2"}, "learned positions"),
        ({"model_type": "mamba"}, "a recurrent state"),
        ({"quantization_config": {"quant_method": "aqlm"}}, "pip install aqlm"),
    ],
)
def test_what_cannot_run_says_why(config: dict[str, Any], why: str) -> None:
    own_model("odd", **config)
    assert why in str(shelved()[1].problem)


def test_half_a_model_says_what_is_missing(hub_cache: Path) -> None:
    (cached_model(hub_cache, "org/half") / "model.safetensors").unlink()
    assert "no weights" in str(shelved()[1].problem)


def test_listing_imports_no_torch() -> None:
    own_model("mine")
    program = (
        "import sys; from sinkchat.models.shelf import shelved; assert len(shelved()) >= 2; "
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_only_our_own_can_be_removed(hub_cache: Path) -> None:
    theirs = cached_model(hub_cache, "org/tiny-llama")
    folder = own_model("mine")
    with pytest.raises(UsageError, match=r"hub's cache, .*`hf cache rm model/org/tiny-llama`"):
        owned("org/tiny-llama")
    with pytest.raises(UsageError, match=r"There is no model absent in .*; it holds mine\."):
        owned("absent")
    with pytest.raises(UsageError, match="There is no model SmolLM2-135M-Instruct in"):
        owned("SmolLM2-135M-Instruct")
    remove(owned("mine"))
    assert not folder.exists()
    assert list(locations.models_dir().iterdir()) == []
    assert (theirs / "config.json").is_file()


@pytest.mark.parametrize("name", ["..", ".", "../models", "/", "mine/../../hub", ".hidden"])
def test_a_name_is_never_a_way_out_of_the_folder(name: str) -> None:
    own_model("mine")
    own_model(".hidden")
    with pytest.raises(UsageError, match="There is no model"):
        owned(name)


def test_a_model_in_the_making_is_not_removed() -> None:
    folder = own_model("mine")
    with FileLock(locations.models_dir() / "mine.lock"), pytest.raises(ModelError, match="by another sinkchat"):
        remove(owned("mine"))
    assert folder.is_dir()


def test_a_gguf_file_is_brought_in_and_found_by_its_new_name(tmp_path: Path) -> None:
    steps: list[Progress] = []
    folder = bring(str(tiny_gguf(tmp_path / "tiny.gguf")), steps.append)
    (_, model) = shelved()
    assert (model.path, model.source, model.problem) == (folder, "tiny.gguf", None)
    assert bring(model.name, silent) == folder
    assert "converting tiny.gguf, once" in {step.stage for step in steps}


def test_a_model_of_the_hub_is_brought_in_and_is_enough_without_the_network(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    with hub_server() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        config = json.dumps({"model_type": "llama"}).encode()
        hub.files["org/tiny"] = {"config.json": config, "model.safetensors": bytes(1000)}
        folder = bring("org/tiny", silent)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert bring("org/tiny", silent) == folder
    assert [model.name for model in shelved()] == ["SmolLM2-135M-Instruct", "org/tiny"]
    with pytest.raises(ModelError, match="could not be fetched"):
        bring("org/absent", silent)


def test_a_cache_that_cannot_be_read_is_no_error(hub_cache: Path) -> None:
    hub_cache.write_text("a file where a folder should be")
    assert len(shelf.shelved()) == 1
