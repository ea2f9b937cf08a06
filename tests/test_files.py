"""No file is waited for, and none is read without end, whoever put it there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sinkchat import locations
from sinkchat.chat.reading import read_journal
from sinkchat.chat.sessions import list_sessions
from sinkchat.cli.prompt import gather
from sinkchat.cli.resolved import resolve
from sinkchat.errors import JournalError, ModelError, UsageError
from sinkchat.files import expanded, open_regular, read_regular
from sinkchat.models.fetch import Package
from sinkchat.models.find import find
from sinkchat.models.small import _checked
from sinkchat.tui.history import History
from sinkchat.tui.textfile import complete_path, read_text
from sinkchat.tui.themes import load_themes

pytestmark = pytest.mark.timeout(20)


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def endless(path: Path) -> Path:
    path.symlink_to("/dev/zero")
    return path


@pytest.fixture(params=[pipe, endless, Path.mkdir], ids=["pipe", "endless", "folder"])
def make(request: pytest.FixtureRequest) -> Callable[[Path], object]:
    return request.param


def test_only_regular_files_are_opened(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "strange")
    with pytest.raises(OSError, match=r"not a regular file|[Dd]irectory"):
        open_regular(tmp_path / "strange")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_regular(tmp_path / "file", 5) == b"12345"
    with pytest.raises(OSError, match="more than"):
        read_regular(tmp_path / "file", 4)


def test_what_reads_files_on_its_own_passes_over_strange_ones(tmp_path: Path, make: Callable[[Path], object]) -> None:
    for name in ("a.toml", "b.jsonl", "history"):
        make(tmp_path / name)
    assert len(load_themes([tmp_path]).problems) == 1
    assert list_sessions(tmp_path) == ()
    assert History(tmp_path / "history").entries == []
    with pytest.raises(JournalError):
        read_journal(tmp_path / "b.jsonl")
    with pytest.raises(UsageError):
        read_text(str(tmp_path / "history"))
    with pytest.raises(ModelError):
        _checked(tmp_path / "history", lambda _progress: None, Package("", "", "", 0, "", "", 0))


def test_what_has_no_end_is_no_prompt_and_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: it has more than 64 MiB"):
        gather((), str(endless(tmp_path / "prompt")))
    with pytest.raises(UsageError, match="cannot be read: it has more than 1 MiB"):
        resolve({}, {}, endless(tmp_path / "config.toml"))


def test_a_prompt_may_come_through_a_pipe(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"What is a pipe?\n")
    os.close(writing)
    assert gather((), f"/dev/fd/{reading}") == "What is a pipe?"
    os.close(reading)


def test_the_home_of_nobody_is_a_name_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nobody = "~nobody-of-that-name/x"
    assert expanded(nobody) == Path(nobody)
    assert expanded("~/x") == Path.home() / "x"
    with pytest.raises(UsageError, match="There is no file"):
        read_text(nobody)
    assert complete_path(nobody) == []
    with pytest.raises(UsageError, match="cannot be read"):
        gather((), nobody)
    with pytest.raises(ModelError, match="There is no folder"):
        find(nobody)
    assert resolve({"small_model_file": nobody}, {}, None).settings.small_model_file == Path(nobody)
    monkeypatch.setenv("SINKCHAT_DATA_DIR", nobody)
    assert locations.data_dir() == tmp_path / nobody
