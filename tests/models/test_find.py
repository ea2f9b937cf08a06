"""A name is a folder, a model of the hub, or the small model; whatever it cannot be is said in one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sinkchat import locations
from sinkchat.errors import ModelError
from sinkchat.models.allowed import Allowed
from sinkchat.models.find import ModelSource, find

COMMIT = "c" * 40


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub."""
    from huggingface_hub import constants

    cache = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    return cache


def model_folder(folder: Path, **config: Any) -> Path:
    """A llama folder that is enough for finding it."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"} | config))
    (folder / "model.safetensors").touch()
    return folder


def cached_model(cache: Path, repo: str, branch: str = "main") -> Path:
    """The same, laid out as the hub's cache has it."""
    home = cache / ("models--" + repo.replace("/", "--"))
    (home / "refs").mkdir(parents=True)
    (home / "refs" / branch).write_text(COMMIT)
    return model_folder(home / "snapshots" / COMMIT)


def test_no_name_means_the_small_model(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    assert find(None) == ModelSource("small", "SmolLM2-135M-Instruct", None, None)
    assert find(None, small_model_file=file).path == file


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model")
    assert find(str(folder)) == ModelSource("folder", str(folder), folder, None)


def test_a_cached_model_is_found_without_the_network_with_its_commit(hub_cache: Path) -> None:
    folder = cached_model(hub_cache, "org/tiny-llama")
    assert find("org/tiny-llama") == ModelSource("hub", "org/tiny-llama", folder, COMMIT)
    assert find(f"org/tiny-llama@{COMMIT}").path == folder


def test_a_branch_is_found_by_its_name(hub_cache: Path) -> None:
    folder = cached_model(hub_cache, "org/tiny-llama", branch="exact")
    assert find("org/tiny-llama@exact") == ModelSource("hub", "org/tiny-llama", folder, COMMIT)
    assert find("org/tiny-llama") == ModelSource("hub", "org/tiny-llama", None, None)


def test_a_model_that_is_not_cached_is_left_to_be_fetched(hub_cache: Path) -> None:
    assert find("org/absent@v2") == ModelSource("hub", "org/absent", None, "v2")
    assert find("gpt3") == ModelSource("hub", "gpt3", None, None)


def test_a_half_fetched_model_is_left_to_be_fetched(hub_cache: Path) -> None:
    (cached_model(hub_cache, "org/tiny-llama") / "model.safetensors").unlink()
    assert find("org/tiny-llama").path is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("./nowhere", "There is no folder ./nowhere"),
        ("/nowhere/at/all", "There is no folder /nowhere/at/all"),
        ("a/b/c", "There is no folder a/b/c"),
        ("org/name@", "neither a folder nor a Hugging Face name"),
        ("a..b/c--d", "neither a folder nor a Hugging Face name"),
        ("what is this", "neither a folder nor a Hugging Face name"),
        ("org/../etc", "There is no folder"),
    ],
)
def test_what_can_be_no_model_is_said(name: str, said: str, hub_cache: Path) -> None:
    with pytest.raises(ModelError, match=said):
        find(name)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("model.gguf", "no GGUF file, whatever its name says"),
        ("pytorch_model.bin", "a pickled file, which could run code"),
        ("model.safetensors", "give the folder that holds the model"),
    ],
)
def test_a_file_is_no_model(file: str, said: str, tmp_path: Path) -> None:
    (tmp_path / file).touch()
    with pytest.raises(ModelError, match=said):
        find(str(tmp_path / file))


def test_a_folder_without_a_config_holds_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"holds no model: there is no config\.json"):
        find(str(tmp_path))


def test_a_config_that_is_no_json_is_said(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model")
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config\.json of .* cannot be read"):
        find(str(folder))


def test_a_folder_without_weights_is_said(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has a config\.json and no weights"):
        find(str(folder))
    (folder / "pytorch_model.bin").touch()
    with pytest.raises(ModelError, match="only pickled weights, which could run code"):
        find(str(folder))


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "one.safetensors").touch()
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match=r"1 of the 2 weight files of .* are missing, two\.safetensors first"):
        find(str(folder))


def test_a_quantization_whose_package_is_missing_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    folder = model_folder(tmp_path / "model", quantization_config={"quant_method": "gptq", "bits": 4})
    with pytest.raises(ModelError, match=r"stored in gptq, which needs a package .*`pip install gptqmodel optimum`"):
        find(str(folder))


def test_a_model_in_sinkchats_own_folder_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(locations.CACHE_DIR, str(tmp_path))
    folder = model_folder(locations.models_dir() / "mine-1234")
    assert find("mine-1234").path == folder


def test_a_gguf_file_is_found_with_all_its_parts(tmp_path: Path) -> None:
    whole = tmp_path / "whole.gguf"
    parts = [tmp_path / f"split-0000{part}-of-00002.gguf" for part in (1, 2)]
    for file in (whole, *parts):
        file.write_bytes(b"GGUF")
    assert find(str(whole)) == ModelSource("gguf", str(whole), whole, None)
    assert find(str(parts[1])).path == parts[1]
    parts[0].unlink()
    with pytest.raises(ModelError, match=r"is in 2 parts, and split-00001-of-00002\.gguf is not beside it"):
        find(str(parts[1]))


def test_a_gguf_file_that_is_not_there_is_no_hub_name() -> None:
    with pytest.raises(ModelError, match=r"There is no file absent\.gguf"):
        find("absent.gguf")


def test_pickled_weights_are_found_only_where_they_are_allowed(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="say --allow-pickle if you trust its makers"):
        find(str(folder))
    allowed = Allowed(pickle=True)
    assert find(str(folder), allowed=allowed).allowed == allowed


def test_finding_a_model_imports_no_torch(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model")
    program = (
        "import sys; from sinkchat.models.find import find; find(sys.argv[1]); find('org/absent'); "
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program, str(folder)], check=False).returncode == 0
