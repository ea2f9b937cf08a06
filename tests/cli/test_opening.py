"""What cannot be is told before the minutes that a model may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkchat.cli.opening import open_session
from sinkchat.errors import JournalError, ModelError
from sinkchat.models import find
from sinkchat.settings import Settings


def test_a_folder_that_takes_no_session_is_told_before_a_model_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").write_text("in the way")
    monkeypatch.setenv("SINKCHAT_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(find, "find", lambda *_, **__: pytest.fail("a model was looked for"))
    with pytest.raises(JournalError, match="No session can be kept"):
        open_session(Settings(), lambda _progress: None)


def test_a_model_that_is_not_there_leaves_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINKCHAT_DATA_DIR", str(tmp_path))
    with pytest.raises(ModelError):
        open_session(Settings(model=str(tmp_path / "nothing")), lambda _progress: None)
    assert list((tmp_path / "sessions").iterdir()) == []
