"""A model of the hub is fetched whole or refused in one sentence, and found again without the network."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sinkchat.errors import ModelError, ModelRefused
from sinkchat.models.allowed import Allowed
from sinkchat.models.find import find
from sinkchat.models.hub import HubName, download
from sinkchat.models.progress import Progress, silent
from tests.models.hub_server import COMMIT, Hub, hub_server

REPO = "org/tiny-llama"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub on this machine, an empty cache, and one llama model."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    with hub_server() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        file_url = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", file_url)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        server.files[REPO] = model_files()
        yield server


def model_files(**config: Any) -> dict[str, bytes]:
    return {
        "config.json": json.dumps({"model_type": "llama"} | config).encode(),
        "tokenizer.json": b"{}",
        "model.safetensors": bytes(1_000_000),
        "pytorch_model.bin": b"pickled",
        "original/consolidated.00.pth": b"pickled",
        "modeling_tiny.py": b"code",
        "README.md": b"read me",
    }


def test_only_config_tokenizer_and_safetensors_are_fetched_the_config_first(hub: Hub) -> None:
    folder = download(HubName(REPO, None), silent)
    assert folder.name == COMMIT
    assert hub.fetched == ["config.json", "tokenizer.json", "model.safetensors"]
    assert (folder / "model.safetensors").stat().st_size == 1_000_000


def test_what_was_fetched_is_found_again_without_the_network(hub: Hub) -> None:
    assert find(REPO).path is None
    folder = download(HubName(REPO, None), silent)
    hub.files.clear()
    found = find(REPO)
    assert (found.path, found.revision) == (folder, COMMIT)


def test_progress_counts_bytes_to_the_whole(hub: Hub) -> None:
    seen: list[Progress] = []
    download(HubName(REPO, None), seen.append)
    fetching = [step for step in seen if step.stage == f"fetching {REPO}"]
    assert (fetching[0].done, fetching[-1].done) == (0, 1_000_002)
    assert {(step.total, step.unit) for step in fetching} == {(1_000_002, "B")}


def test_shards_are_those_of_the_index(hub: Hub) -> None:
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors", "c": "one.safetensors"}}
    files = hub.files[REPO] = model_files()
    del files["model.safetensors"]
    files |= {"model.safetensors.index.json": json.dumps(index).encode()}
    files |= {"one.safetensors": b"1", "two.safetensors": b"2", "three.safetensors": b"3"}
    folder = download(HubName(REPO, None), silent)
    assert sorted(file.name for file in folder.glob("*.safetensors")) == ["one.safetensors", "two.safetensors"]


def test_a_broken_download_goes_on_where_it_stopped(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 100_000)
    hub.break_after = 400_000
    folder = download(HubName(REPO, None), silent)
    assert (folder / "model.safetensors").read_bytes() == bytes(1_000_000)
    assert hub.ranges == ["bytes=400000-"]


def test_a_family_that_does_not_run_is_refused_before_its_weights_are_fetched(hub: Hub) -> None:
    hub.files[REPO] = model_files(model_type="gpt2")
    with pytest.raises(ModelRefused, match="model_type is gpt2"):
        download(HubName(REPO, None), silent)
    assert hub.fetched == ["config.json"]


def test_a_name_that_is_not_there_is_said(hub: Hub) -> None:
    with pytest.raises(ModelError, match="There is no folder and no Hugging Face model org/absent"):
        download(HubName("org/absent", None), silent)


def test_a_revision_that_is_not_there_is_said(hub: Hub) -> None:
    with pytest.raises(ModelError, match=f"{REPO} has no revision v9"):
        download(HubName(REPO, "v9"), silent)


def test_a_gated_model_says_where_to_accept_its_licence(hub: Hub) -> None:
    hub.gated.add(REPO)
    with pytest.raises(ModelError, match=rf"is gated: accept its licence at https://huggingface\.co/{REPO}"):
        download(HubName(REPO, None), silent)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("model.Q4_0.gguf", "holds only GGUF files; fetch one of them"),
        ("pytorch_model.bin", "only pickled weights, which could run code"),
        ("README.md", r"has a config\.json and no weights"),
    ],
)
def test_a_model_without_safetensors_is_said(file: str, said: str, hub: Hub) -> None:
    hub.files[REPO] = {"config.json": b'{"model_type": "llama"}', file: b""}
    with pytest.raises(ModelError, match=said):
        download(HubName(REPO, None), silent)


def test_pickled_weights_are_fetched_only_where_they_are_allowed(hub: Hub) -> None:
    del hub.files[REPO]["model.safetensors"]
    with pytest.raises(ModelError, match="or say --allow-pickle"):
        download(HubName(REPO, None), silent)
    assert hub.fetched == ["config.json"]
    folder = download(HubName(REPO, None), silent, Allowed(pickle=True))
    assert (folder / "pytorch_model.bin").is_file()
    assert not (folder / "modeling_tiny.py").exists()


def test_code_is_fetched_only_where_it_may_run(hub: Hub) -> None:
    hub.files[REPO] = model_files(model_type="theirs", auto_map={"AutoModelForCausalLM": "modeling_tiny.Tiny"})
    with pytest.raises(ModelRefused, match="comes with Python code of its own; read that code and say --trust"):
        download(HubName(REPO, None), silent)
    assert hub.fetched == ["config.json"]
    folder = download(HubName(REPO, None), silent, Allowed(remote_code=True))
    assert (folder / "modeling_tiny.py").read_bytes() == b"code"


def test_no_network_is_said(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelError, match=r"could not be fetched .*; check the network"):
        download(HubName(REPO, None), silent)


def test_offline_mode_is_said(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE forbids fetching it"):
        download(HubName(REPO, None), silent)


def test_a_disk_that_fills_up_is_said(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def full(_repo: str, file: str, **options: Any) -> str:
        if file.endswith(".safetensors"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return fetch(_repo, file, **options)

    fetch = huggingface_hub.hf_hub_download
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", full)
    with pytest.raises(ModelError, match=f"The disk is full: {REPO} could not be fetched whole"):
        download(HubName(REPO, None), silent)


def test_too_small_a_disk_is_said_before_anything_large_is_fetched(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=500_000))
    with pytest.raises(ModelError, match=r"needs 0\.0 GB of disk"):
        download(HubName(REPO, None), silent)
    assert hub.fetched == ["config.json"]
