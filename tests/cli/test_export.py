"""Saved sessions are listed, and written to files that were not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sinkchat import locations
from sinkchat.chat.journal import Journal
from sinkchat.chat.session import ChatSession
from sinkchat.cli import main
from sinkchat.models.sampling import Sampling
from tests.fakes import STORY, FakeEngine, FakeTemplate


def saved(text: str) -> str:
    """A session in which this was said; its id."""
    journal = Journal.create(locations.sessions_dir())
    session = ChatSession(FakeEngine(), FakeTemplate(), journal, sampling=Sampling())
    list(session.say(text))
    session.close()
    return session.id


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def test_sessions_lists_what_is_saved_with_its_first_words(capsys: pytest.CaptureFixture[str]) -> None:
    ids = [saved("one two three"), saved("red \x1b[31m words")]
    assert main.main(["sessions"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[0] for line in lines) == sorted(ids)
    shown = "\n".join(lines)
    assert "one two three" in shown
    assert "red ␛[31m words" in shown
    assert "fake-model" in shown


def test_export_without_arguments_writes_the_latest_session_as_markdown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    session = saved("hello there")
    assert main.main(["export"]) == 0
    file = Path(f"sinkchat-{session}.md")
    assert capsys.readouterr().out == f"{file}\n"
    text = file.read_text(encoding="utf-8")
    assert "hello there" in text
    assert STORY.split(".")[0] in text


def test_the_format_is_what_the_file_ends_in_unless_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    session = saved("hello there")
    assert main.main(["export", session, "out.json"]) == 0
    assert json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert main.main(["export", session, "out", "--format", "json"]) == 0
    assert json.loads(Path("out").read_text(encoding="utf-8"))
    assert main.main(["export", session, "--format", "txt"]) == 0
    assert Path(f"sinkchat-{session}.txt").is_file()


def test_one_word_that_ends_like_a_file_is_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    saved("hello there")
    assert main.main(["export", "out.txt"]) == 0
    assert "hello there" in Path("out.txt").read_text(encoding="utf-8")


def test_a_session_is_named_by_the_start_of_its_id_or_by_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    session = saved("hello there")
    assert main.main(["export", session[:12], "one.md"]) == 0
    assert main.main(["export", str(locations.sessions_dir() / f"{session}.jsonl"), "two.md"]) == 0
    assert Path("one.md").read_text() == Path("two.md").read_text()


def test_a_file_is_never_replaced_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    saved("hello there")
    Path("mine.md").write_text("precious")
    assert main.main(["export", "latest", "mine.md"]) == 2
    assert capsys.readouterr().err == "sinkchat: mine.md exists; name another one, or replace it with --force.\n"
    assert Path("mine.md").read_text() == "precious"
    assert main.main(["export", "latest", "mine.md", "--force"]) == 0
    assert "hello there" in Path("mine.md").read_text()


def test_a_dash_is_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    saved("hello there")
    assert main.main(["export", "-", "--format", "txt"]) == 0
    assert "hello there" in capsys.readouterr().out
    assert list(Path().iterdir()) == []


def test_what_is_damaged_is_told_and_the_rest_is_exported(capsys: pytest.CaptureFixture[str]) -> None:
    session = saved("hello there")
    path = locations.sessions_dir() / f"{session}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[-3] = lines[-3].replace(b'"', b"'", 1)
    path.write_bytes(b"".join(lines))
    assert main.main(["export", session, "out.md"]) == 0
    said = capsys.readouterr()
    assert f"line {len(lines) - 2} is damaged" in said.err
    assert "hello there" in Path("out.md").read_text()


@pytest.mark.parametrize(
    ("argv", "code", "sentence"),
    [
        (["no-such"], 2, "There is no session 'no-such' in "),
        (["latest", "out.pdf"], 2, "out.pdf does not say how to write it"),
        (["latest", "nowhere/out.md"], 2, "There is no folder nowhere"),
        (["a", "b", "c"], 2, "One session and one file"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(
    argv: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    saved("hello there")
    assert main.main(["export", *argv]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"sinkchat: {sentence}")
    assert said.err.count("\n") == 1


def test_there_is_nothing_to_export_yet(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["export"]) == 2
    assert capsys.readouterr().err.startswith("sinkchat: There is no session in ")
