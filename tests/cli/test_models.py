"""`sinkchat models` lists, fetches and removes, and asks before it removes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from sinkchat import locations
from sinkchat.cli import models
from sinkchat.cli.main import main
from sinkchat.models.shelf import Shelved
from tests.models.test_find import cached_model, model_folder


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    for variable in locations.VARIABLES:
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    model_folder(locations.models_dir() / "mine")
    cached_model(tmp_path / "hub", "org/tiny-llama")
    odd = cached_model(tmp_path / "hub", "org/gpt")
    (odd / "config.json").write_text('{"model_type": "gpt2"}')


def test_the_table_names_everything_and_why_it_cannot_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    out = capsys.readouterr().out
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines() if not line.startswith(" ")}
    assert list(lines) == ["MODEL", "SmolLM2-135M-Instruct", "mine", "org/gpt", "org/tiny-llama"]
    assert lines["SmolLM2-135M-Instruct"] == ["to", "fetch", "llama", "yes"]
    assert lines["org/tiny-llama"][-2:] == ["llama", "yes"]
    assert lines["org/gpt"][-2:] == ["gpt2", "no"]
    assert "its model_type is gpt2 and it has learned positions" in " ".join(out.split())


def test_no_line_is_wider_than_80_columns_unless_a_name_is() -> None:
    long, problem = "organization-of-some-length/" + "a-model" * 10, "It cannot run, " + "because of that, " * 9
    rows = [
        Shelved("org/m", "hub", Path("/m"), 10**11, "granitemoehybrid", "compressed-tensors", None, problem),
        Shelved(long, "hub", Path("/m"), 5, None, None, None, None),
    ]
    lines = models.table(rows).splitlines()
    assert long in lines
    assert all(len(line) <= 80 for line in lines if line != long)


def test_nothing_in_a_name_reaches_the_terminal_as_a_command() -> None:
    row = Shelved("a\x1b[2J", "own", Path("/m"), 5, "llama\x07", None, None, "no \x1b[31m")
    assert "\x1b" not in models.table([row])
    assert "\x07" not in models.table([row])


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["name"] for row in rows] == ["SmolLM2-135M-Instruct", "mine", "org/gpt", "org/tiny-llama"]
    assert [row["runs"] for row in rows] == [True, True, False, True]
    assert rows[1]["path"] == str(locations.models_dir() / "mine")


def test_removing_asks_and_no_is_no(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(models, "is_terminal", lambda _stream: True)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert main(["models", "rm", "mine"]) == 1
    assert "Remove mine (" in capsys.readouterr().err
    assert (locations.models_dir() / "mine").is_dir()
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main(["models", "rm", "mine"]) == 0
    assert not (locations.models_dir() / "mine").exists()


def test_removing_without_a_terminal_needs_a_yes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main(["models", "rm", "mine"]) == 2
    assert "nobody can be asked here, so add --yes" in capsys.readouterr().err
    assert main(["models", "rm", "mine", "--yes"]) == 0
    assert not (locations.models_dir() / "mine").exists()


def test_the_hubs_cache_is_never_removed_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "rm", "org/tiny-llama", "--yes"]) == 2
    assert "hub's cache" in capsys.readouterr().err
    assert any((tmp_path / "hub").rglob("model.safetensors"))


def test_fetching_what_is_here_prints_its_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "fetch", "mine"]) == 0
    assert capsys.readouterr().out == f"{locations.models_dir() / 'mine'}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fetcj", "mine"], "does not know 'fetcj'; did you mean fetch?"),
        (["fetch"], "`sinkchat models fetch` takes one name"),
        (["rm", "a", "b"], "`sinkchat models rm` takes one name"),
        (["list", "mine"], "takes no name"),
        (["fetch", "./nowhere"], "There is no folder ./nowhere"),
    ],
)
def test_wrong_words_are_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", *words]) in (1, 2)
    assert said in capsys.readouterr().err
