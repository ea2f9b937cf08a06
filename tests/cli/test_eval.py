"""`sinkchat eval` and `sinkchat sinks`, over a tiny model: what they print, write, refuse, and exit with."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkchat.cli import main, measuring
from sinkchat.errors import SinkchatError
from sinkchat.lab import advice
from tests.lab import tiny

RUN = ["--window", "48", "--tokens", "200"]


@pytest.fixture(autouse=True)
def _tiny_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "load_model", lambda name, settings, progress, window: tiny.loaded())


@pytest.fixture
def text(tmp_path: Path) -> str:
    file = tmp_path / "keeper.txt"
    file.write_text(tiny.TEXT * 12)
    return str(file)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Esc is pressed after so many moments."""

    def after(moments: int) -> None:
        left = iter(range(moments))
        monkeypatch.setattr(measuring.EscapeKey, "pressed", lambda _self: next(left, None) is None)

    return after


def test_it_tells_what_was_found_and_writes_files(text, tmp_path, capsys) -> None:
    files = [tmp_path / name for name in ("out.json", "out.csv", "out.html")]
    flags = [word for file in files for word in (f"--{file.suffix[1:]}", str(file))]
    assert main.main(["eval", text, *RUN, *flags]) == 0
    out, err = capsys.readouterr()
    assert "4 sinks, window 48" in out
    assert "window 48, no sinks" in out
    assert "first eviction" in out
    assert "\x1b" not in out
    assert err.count("perplexity") == 3
    assert err.endswith(f"Written: {', '.join(map(str, files))}\n")
    document = json.loads(files[0].read_text())
    assert document["schema"] == "sinkchat-evaluation/1"
    assert document["command"] == ["sinkchat", "eval", text, *RUN], "to repeat it, wherever"
    assert [(run["policy"], run["sinks"]) for run in document["runs"]] == [("full", 0), ("window", 0), ("sinks", 4)]
    assert document["complete"]
    rows = list(csv.DictReader(io.StringIO(files[1].read_text())))
    assert len(rows) == sum(len(run["curve"]) for run in document["runs"])
    assert files[2].read_text().startswith("<!DOCTYPE html>")


def test_json_to_standard_output_is_all_that_is_there(text, capsys) -> None:
    assert main.main(["eval", text, *RUN, "--policies", "sinks", "--sinks", "1,2", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [run["sinks"] for run in document["runs"]] == [1, 2]


def test_flags_before_the_command_count(text, capsys) -> None:
    assert (
        main.main(["--window", "32,48", "eval", text, "--tokens", "200", "--policies", "window", "--json", "-"]) == 0
    )
    assert [run["window"] for run in json.loads(capsys.readouterr().out)["runs"]] == [32, 48]


def test_the_text_may_come_from_standard_input(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((tiny.TEXT * 12).encode())))
    assert main.main(["eval", "-", *RUN, "--policies", "sinks", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["text"]["name"] == "standard input"


def test_without_a_text_it_is_the_one_that_python_carries(capsys) -> None:
    assert main.main(["eval", *RUN, "--policies", "sinks", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["text"]["name"] == "pydoc_data.topics"


def test_what_was_measured_is_told_before_what_was_found(text, capsys) -> None:
    assert main.main(["eval", text, *RUN, "--policies", "sinks"]) == 0
    first = " ".join(capsys.readouterr().out.split("\n\n")[0].split())
    assert " on cpu: 200 of the " in first
    assert first.endswith(f"tokens of {text}")


def test_seeds_of_nothing_that_is_written_are_refused(text, capsys) -> None:
    assert main.main(["eval", text, *RUN, "--seeds", "1,2"]) == 2
    assert "--generate N" in capsys.readouterr().err


# Verdicts


def test_a_verdict_is_an_exit_code_and_a_sentence(text, capsys) -> None:
    assert main.main(["eval", text, *RUN, "--fail-above", "1000"]) == 0
    assert "at most 1000 times the full cache's" in capsys.readouterr().err
    assert main.main(["eval", text, *RUN, "--fail-above", "0.01"]) == 3
    err = capsys.readouterr().err
    assert "more than 0.01 times the full cache's" in err
    assert "4 sinks, window 48" in err


def test_a_baseline_is_held_to_itself(text, tmp_path, capsys) -> None:
    earlier = str(tmp_path / "earlier.json")
    run = ["eval", text, *RUN, "--policies", "sinks"]
    assert main.main([*run, "--json", earlier]) == 0
    assert main.main([*run, "--fail-above", "1.0001", "--baseline", earlier]) == 0
    assert main.main([*run, "--fail-above", "0.9999", "--baseline", earlier]) == 3
    assert "the baseline's" in capsys.readouterr().err
    other = ["eval", text, "--window", "48", "--tokens", "150", "--policies", "sinks"]
    assert main.main([*other, "--fail-above", "2", "--baseline", earlier]) == 2
    assert "number of tokens read is 200" in capsys.readouterr().err


# Interruption


def test_esc_keeps_what_is_done_and_resume_goes_on(text, tmp_path, capsys, interrupted, monkeypatch) -> None:
    file = tmp_path / "out.json"
    run = ["eval", text, *RUN, "--json", str(file)]
    with monkeypatch.context():
        interrupted(4)
        assert main.main(run) == 130
    out, err = capsys.readouterr()
    assert "go on with --resume" in err
    assert " tokens, ended early, " in err
    assert "full" in out, "what was done is told"
    kept = json.loads(file.read_text())
    assert not kept["complete"]
    assert 1 <= len(kept["runs"]) < 3
    monkeypatch.setattr(measuring.EscapeKey, "pressed", lambda _self: False)
    assert main.main([*run, "--resume"]) == 0
    whole = json.loads(file.read_text())
    assert whole["complete"]
    assert [run["tokens"] for run in whole["runs"]] == [200, 200, 200]
    assert main.main([*run, "--resume"]) == 0
    assert json.loads(file.read_text())["runs"] == whole["runs"]


def test_a_resume_of_nothing_begins(text, tmp_path) -> None:
    file = tmp_path / "new.json"
    assert main.main(["eval", text, *RUN, "--policies", "sinks", "--json", str(file), "--resume"]) == 0
    assert file.exists()


# Sinks


def test_sinks_are_counted_and_heads_are_shown(text, tmp_path, capsys) -> None:
    file = tmp_path / "sinks.json"
    assert main.main(["sinks", text, *RUN, "--sinks", "0,1,4", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "above the best, nats" in out
    assert "ith a window of 48" in out
    document = json.loads(file.read_text())
    assert [(run["policy"], run["sinks"]) for run in document["runs"]] == [
        ("full", 0),
        ("window", 0),
        ("sinks", 1),
        ("sinks", 4),
    ]


def test_the_most_sinks_of_a_sweep_are_not_called_enough(text, capsys, monkeypatch) -> None:
    def the_most(evaluation, advise=advice.advise):
        found = advise(evaluation)
        return dataclasses.replace(found, chosen=found.compared[-1])

    monkeypatch.setattr(advice, "advise", the_most)
    assert main.main(["sinks", text, *RUN, "--sinks", "0,1,4"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "no fewer than 4 sinks" in out
    assert "more may do better" in out
    assert "enough" not in out


def test_a_sweep_that_ended_early_advises_nothing(text, capsys, interrupted) -> None:
    """Without sinks is all that was read: that none are needed is not known."""
    interrupted(22)
    assert main.main(["sinks", text, *RUN, "--sinks", "0,4"]) == 130
    out = " ".join(capsys.readouterr().out.split())
    assert "above the best, nats" in out
    assert "nothing is said of how many are enough" in out
    assert "needs no sinks" not in out


def test_sinks_that_are_ended_early_tell_what_they_can(text, capsys, interrupted) -> None:
    interrupted(1)
    assert main.main(["sinks", text, *RUN]) == 130
    assert "ended early" in capsys.readouterr().err


def test_sinks_that_go_on_with_what_kept_no_losses_may_be_ended_early_too(
    text, tmp_path, capsys, interrupted
) -> None:
    file = str(tmp_path / "out.json")
    same = [text, *RUN, "--sinks", "0,4", "--json", file]
    assert main.main(["eval", *same, "--policies", "full,sinks"]) == 0
    interrupted(0)
    assert main.main(["sinks", *same, "--resume"]) == 130
    assert "ended early" in capsys.readouterr().err


# What is refused


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["eval", "missing.txt"], "missing.txt"),
        (["eval", "a.txt", "b.txt"], "reads one text"),
        (["eval", "--window", "x"], "--window must be a whole number"),
        (["eval", "--window", "256,,512"], "--window has an empty place"),
        (["eval", "--window", "0"], "--window must be a whole number of at least 1"),
        (["eval", "--sinks", "-1"], "--sinks"),
        (["eval", "--sinks", "0" * 20 + "9" * 20], "from 0 to 1,000,000,000,000, or several"),
        (["eval", "--seeds", "9" * 5000, "--generate", "1"], "--seeds must be a whole number from 0 to 1,000"),
        (["eval", "--tokens", "5,6"], "--tokens must be a whole number of at least 2, not '5,6'"),
        (["eval", "--window", "8", "--sinks", "8"], "window of 9"),
        (["eval", "--window", "8192"], "trained for"),
        (["eval", "--policies", "full,ring"], "ring"),
        (["eval", "--tokens", "1"], "--tokens must be a whole number of at least 2"),
        (["eval", "--tokens", "100", "--window", "512"], "the window holds 512"),
        (["eval", "--tokens", "99999999"], "fewer than the 99,999,999"),
        (["eval", "--fail-above", "0"], "--fail-above must be a number above 0"),
        (["eval", "--fail-above", "2", "--policies", "sinks"], "add full to --policies"),
        (["eval", "--baseline", "x.json"], "give --fail-above"),
        (["eval", "--fail-above", "2", "--baseline", "x.json"], "x.json"),
        (["eval", "--resume"], "name it with --json"),
        (["eval", "--csv", "-"], "Only --json"),
        (["eval", "--html", "no/such/folder/x.html"], "no/such/folder"),
        (["eval", "--html", "/proc/x.html"], "/proc/x.html cannot be written"),
        (["eval", "--csv", ""], "name cannot be empty"),
        (["eval", ""], "name cannot be empty"),
        (["eval", "--generate", "9", "--prompt", " "], "--prompt has no words"),
        (["eval", "--json", "x.out", "--csv", "x.out"], "two formats"),
        (["eval", "--temperature", "1"], "--temperature"),
        (["--temperature", "1", "eval"], "does not take --temperature"),
        (["eval", "--generate", "0"], "--generate"),
        (["sinks", "--window", "64,128"], "--window"),
        (["sinks", "--positions", "absolute"], "--positions"),
        (["sinks", "--sinks", "4"], "two or more"),
        (["sinks", "--policies", "full"], "--policies"),
    ],
)
def test_wrong_use_is_one_sentence_and_leaves_no_file(argv, said, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} <= {"state"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b" \n ", "white space"),
        (b"a\0b", "binary"),
        (b"\xff\xfe", "not UTF-8"),
        (b"a", "one token"),
        (b"the sea read him back", "the window holds 512"),
    ],
)
def test_a_text_that_shows_nothing_is_one_sentence(content, said, capsys, tmp_path) -> None:
    file = tmp_path / "text"
    file.write_bytes(content)
    assert main.main(["eval", str(file)]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_no_file_is_written_over_unasked(text, tmp_path, capsys) -> None:
    file = tmp_path / "out.html"
    file.write_text("mine")
    run = ["eval", text, *RUN, "--policies", "sinks", "--html", str(file)]
    assert main.main(run) == 2
    assert "--force" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert main.main([*run, "--force"]) == 0
    assert file.read_text() != "mine"


def test_a_link_to_where_nothing_can_be_is_no_file(tmp_path, capsys) -> None:
    (tmp_path / "link.json").symlink_to("no such folder/x.json")
    assert main.main(["eval", "--json", str(tmp_path / "link.json")]) == 2
    assert "There is no folder" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--force", "--resume"])
def test_the_text_is_never_written_over(text, tmp_path, capsys, flag) -> None:
    before = Path(text).read_text()
    (tmp_path / "link.csv").symlink_to(text)
    run = ["eval", text, *RUN, "--json", str(tmp_path / "out.json"), flag]
    assert main.main([*run, "--csv", str(tmp_path / "link.csv")]) == 2
    assert "is the text that is to be read" in capsys.readouterr().err
    assert Path(text).read_text() == before


# What cannot be written


class _Gone(io.StringIO):
    """Standard output whose reader has left, or whose disk is full."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self._error = error

    def write(self, text: str) -> int:
        raise self._error

    def fileno(self) -> int:
        raise OSError


def test_files_and_verdict_do_not_need_a_reader_of_standard_output(text, tmp_path, capsys, monkeypatch) -> None:
    file = tmp_path / "out.html"
    run = ["eval", text, *RUN, "--fail-above", "0.01", "--html", str(file)]
    with monkeypatch.context() as context:
        context.setattr(sys, "stdout", _Gone(BrokenPipeError()))
        assert main.main(run) == 3
    assert "more than 0.01 times" in capsys.readouterr().err
    assert file.exists()


@pytest.mark.parametrize("stdout", [None, _Gone(OSError(28, "No space left on device"))])
def test_files_are_written_where_standard_output_cannot_be(text, tmp_path, capsys, monkeypatch, stdout) -> None:
    file = tmp_path / "out.html"
    with monkeypatch.context() as context:
        context.setattr(sys, "stdout", stdout)
        assert main.main(["eval", text, *RUN, "--html", str(file)]) == 1
    assert "output" in capsys.readouterr().err
    assert file.exists()


def test_a_disk_that_fills_up_costs_its_file_alone(text, tmp_path, capsys, monkeypatch) -> None:
    from sinkchat.lab.files import document

    def full(evaluation: object, path: object) -> None:
        raise SinkchatError(f"{path} cannot be written (No space left on device); take another name.")

    monkeypatch.setattr(document, "write", full)
    names = [str(tmp_path / name) for name in ("out.json", "out.html")]
    assert main.main(["eval", text, *RUN, "--json", names[0], "--html", names[1]]) == 1
    out, err = capsys.readouterr()
    assert "4 sinks, window 48" in out
    assert err.count("No space left") == 2, "once when it happened, once at the end"
    assert f"Written: {names[1]}\n" in err


def test_a_file_name_moves_nothing_in_the_terminal(text, tmp_path, capsys) -> None:
    name = str(tmp_path / "red\x1b[31m.csv")
    assert main.main(["eval", text, *RUN, "--policies", "sinks", "--csv", name]) == 0
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert "red␛[31m.csv" in err


def test_a_resume_of_something_else_is_refused_and_kept(text, tmp_path, capsys) -> None:
    file = tmp_path / "out.json"
    file.write_text("{}")
    assert main.main(["eval", text, *RUN, "--json", str(file), "--resume"]) == 2
    assert file.read_text() == "{}"


def test_a_device_that_fails_is_told_and_the_rest_is_kept(text, tmp_path, capsys, monkeypatch) -> None:
    import sinkchat.lab.evaluate as module

    read = module.read

    def failing(loaded: Any, rule: Any, ids: Any, watching: Any) -> Any:
        if rule.policy == "window":
            from tests.engine.listening import OUT_OF_MEMORY

            raise OUT_OF_MEMORY
        return read(loaded, rule, ids, watching)

    monkeypatch.setattr(module, "read", failing)
    file = tmp_path / "out.json"
    assert main.main(["eval", text, *RUN, "--json", str(file)]) == 1
    assert "window 48, no sinks" in capsys.readouterr().err
    assert [run["policy"] for run in json.loads(file.read_text())["runs"]] == ["full", "sinks"]
