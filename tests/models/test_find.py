"""A name is a folder, a model of the hub, or the small model; whatever it cannot be is said in one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sinkchat.errors import ModelError, ModelRefused
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
        ("model.gguf", "a GGUF file, which sinkchat does not open yet"),
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


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"model_type": "gpt2"}, "model_type is gpt2 and it has learned positions"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "model_type is t5 and it is an encoder-decoder"),
        ({"model_type": "bloom"}, "bloom and it has position biases instead of rotary positions"),
        ({"model_type": "mamba"}, "mamba and it has a recurrent state instead of a KV cache"),
        ({"model_type": "deepseek_v3"}, "deepseek_v3 and it has a compressed latent in place of keys"),
        ({"model_type": "bert"}, "bert and it has an encoder"),
        ({"model_type": "llava", "text_config": {}}, "llava and it takes more than text"),
        ({"model_type": "qwen3"}, "qwen3 and this family is not supported yet"),
        ({"model_type": None}, "names no model_type"),
    ],
)
def test_a_family_that_does_not_run_is_refused_by_its_config_alone(
    config: dict[str, Any], why: str, tmp_path: Path
) -> None:
    folder = model_folder(tmp_path / "model", **config)
    with pytest.raises(ModelRefused, match=why) as refused:
        find(str(folder))
    assert "a llama model runs, such as" in str(refused.value)


@pytest.mark.parametrize(
    ("stored", "named"),
    [
        ({"quant_method": "awq", "bits": 4}, "stored in awq"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}, "bitsandbytes fp4"),
    ],
)
def test_a_quantization_that_does_not_run_is_refused(stored: dict[str, Any], named: str, tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model", quantization_config=stored)
    with pytest.raises(ModelRefused, match=named):
        find(str(folder))


def test_finding_a_model_imports_no_torch(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model")
    program = (
        "import sys; from sinkchat.models.find import find; find(sys.argv[1]); find('org/absent'); "
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program, str(folder)], check=False).returncode == 0
