"""A prompt comes from words, a file or a pipe; what is no text is refused with a reason."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from sinkchat.cli.prompt import gather
from sinkchat.errors import UsageError


class _Stdin(io.TextIOWrapper):
    def __init__(self, raw: bytes, *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(raw), encoding="utf-8")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def piped(monkeypatch: pytest.MonkeyPatch, raw: bytes, *, terminal: bool = False) -> None:
    monkeypatch.setattr(sys, "stdin", _Stdin(raw, terminal=terminal))


def test_words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, b"never read", terminal=True)
    assert gather(["why", "not?"], None) == "why not?"


def test_a_pipe_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, "naïve?\r\nyes\r\n".encode())
    assert gather([], None) == "naïve?\nyes"


def test_what_is_piped_is_added_to_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, b"a text\n")
    assert gather(["Summarise:"], None) == "Summarise:\n\na text"


def test_an_empty_pipe_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, b"")
    assert gather(["hi"], None) == "hi"


def test_a_file_of_any_length_and_standard_input_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    piped(monkeypatch, b"never read")
    file = tmp_path / "long.txt"
    text = "one line of many\n" * 100_000
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert gather([], str(file)) == text[:-1]
    assert gather(["Read:"], str(file)).startswith("Read:\n\none line")


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, b"from the pipe")
    assert gather([], "-") == "from the pipe"
    piped(monkeypatch, b"from the pipe")
    assert gather(["-"], None) == "from the pipe"


def test_a_terminal_is_read_only_when_there_is_no_other_prompt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(monkeypatch, b"typed", terminal=True)
    assert gather([], None) == "typed"
    assert "Ctrl+D" in capsys.readouterr().err


def test_no_standard_input_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert gather(["hi"], None) == "hi"
    with pytest.raises(UsageError, match=r"^The prompt is empty"):
        gather([], None)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\x7fELF\0\0", "is binary, not text; give UTF-8 text"),
        ("naïve".encode("latin-1"), r"is not UTF-8 text \(byte 3\)"),
        (b"  \n\n", "is empty"),
        (b"", "is empty"),
    ],
)
def test_what_is_no_text_is_refused_with_the_reason(
    raw: bytes, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "prompt"
    file.write_bytes(raw)
    with pytest.raises(UsageError, match=f"^The prompt file .*prompt {reason}"):
        gather([], str(file))
    piped(monkeypatch, raw)
    with pytest.raises(UsageError, match=reason):
        gather([], None)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^The prompt file /no/such cannot be read: No such file"):
        gather([], "/no/such")
    with pytest.raises(UsageError, match="Is a directory"):
        gather([], str(tmp_path))


def test_words_that_are_no_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, b"")
    with pytest.raises(UsageError, match="not UTF-8"):
        gather(["caf\udce9"], None)
