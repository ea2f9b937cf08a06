"""A file that cannot be read is refused with one sentence that says why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sinkchat.errors import UsageError
from sinkchat.tui.textfile import LARGEST, read_text


def test_a_text_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a file.txt"
    path.write_bytes("\ufeffÜber\r\nden\rFluss".encode())
    assert read_text(f" '{path}' ") == ("Über\nden\nFluss", path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b"\x7fELF\0\0", "binary"),
        (b"caf\xe9", "not UTF-8 text: byte 3"),
        (b"x" * (LARGEST + 1), "at most 4 MiB"),
    ],
)
def test_what_is_no_readable_text_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=reason) as refused:
        read_text(str(path))
    assert str(path) in str(refused.value)


def test_missing_files_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no file"):
        read_text(str(tmp_path / "nothing"))
    with pytest.raises(UsageError, match="is a folder"):
        read_text(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="no regular file"):
        read_text(str(tmp_path / "pipe"))


def test_a_home_folder_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "x.txt").write_text("here")
    assert read_text("~/x.txt")[0] == "here"
