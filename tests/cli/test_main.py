"""What any command does at its edges: exit codes, failures, pipes, and what it prints about itself."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import tomli

from sinkchat import locations
from sinkchat.cli import config, main
from sinkchat.cli.resolved import resolve
from sinkchat.settings import Settings


def sinkchat(*argv: str, stdout: int = subprocess.PIPE, **environ: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, with output that is buffered as for any program."""
    return subprocess.run(
        [sys.executable, "-m", "sinkchat.cli.main", *argv],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONUNBUFFERED": "", **environ},
    )


def test_help_and_version_exit_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["--help"], ["ask", "--help"], ["--version"]):
        assert main.main(argv) == 0
    assert capsys.readouterr().out.endswith(f"sinkchat {version('sinkchat')}\n")


@pytest.mark.parametrize("argv", [["--windw", "3"], ["hello"], ["--policy", "sink"], ["export", "a", "b", "c"]])
def test_wrong_use_is_one_sentence_on_stderr_and_exit_code_2(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(argv) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("sinkchat: ")
    assert said.err.count("\n") == 1


def test_what_a_file_says_cannot_move_the_cursor(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = places / "my.toml"
    file.write_text('policy = "\\u001b[31mred"\n')
    assert main.main(["--config", str(file)]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_an_unexpected_failure_is_a_sentence_and_its_traceback_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> int:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(config, "run", broken)
    assert main.main(["config", "show"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "sinkchat: Something failed that should not have (ZeroDivisionError: of all things); "
        f"the details are in {locations.log_file()}.\n"
    )
    log = locations.log_file().read_text()
    assert "Traceback" in log
    assert "ZeroDivisionError: of all things" in log


def test_an_unexpected_failure_is_told_even_without_a_log(
    places: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (places / "state").write_text("a file where the folder should be")
    monkeypatch.setattr(config, "run", lambda *_: 1 // 0)
    assert main.main(["config", "show"]) == 1
    said = capsys.readouterr().err
    assert "the log file could not be written" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["config", "show"]], ids=" ".join)
def test_a_reader_that_has_gone_is_no_failure(argv: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = sinkchat(*argv, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_disk_that_is_full_is_a_sentence() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    done = sinkchat("config", "show", stdout=full)
    os.close(full)
    assert done.returncode == 1
    assert done.stderr == "sinkchat: The output cannot be written: No space left on device.\n"


def test_an_encoding_that_cannot_show_a_character_shows_its_number() -> None:
    done = sinkchat("config", "show", "--system", "naïve", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert 'system = "na\\xefve"  # --system' in done.stdout


def test_config_show_is_a_configuration_that_says_where_each_value_is_from(
    places: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SINKCHAT_WINDOW", "256")
    assert main.main(["config", "show", "--sinks", "8", "--system", 'Say "no"\n\x1b[31m\u202e', "--pin-system"]) == 0
    shown = capsys.readouterr().out
    assert "window = 256  # SINKCHAT_WINDOW\n" in shown
    assert "sinks = 8  # --sinks\n" in shown
    assert 'policy = "sinks"  # default\n' in shown
    assert "# temperature is not set\n" in shown
    assert str(locations.sessions_dir()) in shown
    assert "\x1b" not in shown
    file = places / "again.toml"
    file.write_text(shown)
    again = resolve({}, {}, file).settings
    assert (again.window, again.sinks, again.pin_system) == (256, 8, True)
    assert again.system == 'Say "no"\n\x1b[31m\u202e'


def test_config_example_is_the_documented_file(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["config", "example"]) == 0
    text = capsys.readouterr().out
    assert text == locations.example_config().read_text(encoding="utf-8")
    assert tomli.loads(text) == {}
    assert resolve({}, {}).settings == Settings()


def test_config_path_names_the_file_that_is_read(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["config", "path"]) == 0
    assert capsys.readouterr().out == f"{places / 'config' / 'config.toml'}\n"


def test_asking_about_settings_writes_nothing(places: Path) -> None:
    for argv in (["config", "show"], ["config", "path"], ["config", "example"], ["sessions"]):
        assert main.main(argv) == 0
    assert list(places.iterdir()) == []


def test_there_are_no_sessions_yet(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["sessions"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"sinkchat: there is no session in {locations.sessions_dir()} yet.\n")
