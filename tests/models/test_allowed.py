"""Pickled weights and remote code are left alone unless a person allows them, and then they do no more than that."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from sinkchat.errors import ModelError, ModelRefused
from sinkchat.models.allowed import NOTHING, Allowed
from sinkchat.models.find import find
from sinkchat.models.load import LoadedModel, load
from tests.models.test_load import changed


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_folder, tmp_path / "model"))


def opened(folder: Path, allowed: Allowed = NOTHING) -> LoadedModel:
    return load(find(str(folder), allowed=allowed), device="cpu", quant="none", dtype="bfloat16")


def pickled(folder: Path, state: Any) -> Path:
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    return folder


def test_pickled_weights_are_loaded_where_they_are_allowed(folder: Path, tiny_folder: Path) -> None:
    pickled(folder, load_file(tiny_folder / "model.safetensors"))
    with pytest.raises(ModelError, match=r"only pickled weights, .* say --allow-pickle if you trust its makers"):
        opened(folder)
    ours, theirs = opened(folder, Allowed(pickle=True)).model, opened(tiny_folder).model
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_pickled_shards_are_loaded_too(folder: Path, tiny_folder: Path) -> None:
    state = load_file(tiny_folder / "model.safetensors")
    pickled(folder, {}).joinpath("pytorch_model.bin").unlink()
    names = {key: f"pytorch_model-0000{1 + index % 2}-of-00002.bin" for index, key in enumerate(state)}
    for file in set(names.values()):
        torch.save({key: tensor for key, tensor in state.items() if names[key] == file}, folder / file)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    opened(folder, Allowed(pickle=True))


class Runs:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_allowed_or_not_a_pickle_runs_no_code(folder: Path, tmp_path: Path) -> None:
    pickled(folder, {"model.norm.weight": Runs(tmp_path / "ran")})
    with pytest.raises(ModelError, match=r"pickled weight file pytorch_model\.bin of .* is not opened"):
        opened(folder, Allowed(pickle=True))
    assert not (tmp_path / "ran").exists()


def test_code_that_comes_with_a_model_runs_only_where_it_is_allowed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    (folder / "theirs.py").write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        "class Conf(LlamaConfig):\n    model_type = 'theirs'\n"
        "class Model(LlamaForCausalLM):\n    config_class = Conf\n"
    )
    changed(
        folder,
        "config.json",
        model_type="theirs",
        auto_map={"AutoConfig": "theirs.Conf", "AutoModelForCausalLM": "theirs.Model"},
    )
    with pytest.raises(ModelRefused, match="Python code of its own; read that code and say --trust-remote-code"):
        opened(folder)
    assert not (tmp_path / "ran").exists()
    assert opened(folder, Allowed(remote_code=True)).facts.family == "theirs"
    assert (tmp_path / "ran").exists()
