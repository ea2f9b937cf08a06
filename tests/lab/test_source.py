"""The text is read whole, or refused with a sentence that names it, the reason and the way out."""

from __future__ import annotations

import hashlib
import io
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinkchat.errors import UsageError
from sinkchat.lab import source
from sinkchat.lab.source import check_length, read_text

pytestmark = pytest.mark.timeout(20)


def refused(where: str) -> str:
    with pytest.raises(UsageError) as caught:
        read_text(where)
    return str(caught.value)


def piped(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_with_no_name_it_is_english_that_python_carries() -> None:
    text = read_text(None)
    assert text.name == "pydoc_data.topics"
    assert "assert" in text.text
    assert len(text.text) > 300_000
    assert text == read_text(None)
    assert text.sha256 == hashlib.sha256(text.text.encode()).hexdigest()


def test_it_begins_with_the_first_topic() -> None:
    from pydoc_data.topics import topics

    assert read_text(None).text.startswith(topics[min(topics)])


def test_a_python_without_that_text_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(UsageError, match=r"without pydoc_data\.topics; name a text file"):
        read_text(None)


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    content = "Zwölf Boxkämpfer\r\njagen\tViktor\x1b.\n\n".encode()
    (tmp_path / "text").write_bytes(content)
    text = read_text(str(tmp_path / "text"))
    assert text.text.encode() == content
    assert text.name == str(tmp_path / "text")
    assert text.sha256 == hashlib.sha256(content).hexdigest()


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\xef\xbb\xbfa b")
    text = read_text(str(tmp_path / "text"))
    assert text.text == "a b"
    assert text.sha256 == hashlib.sha256(b"a b").hexdigest()


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, b"from a pipe\n")
    text = read_text("-")
    assert (text.name, text.text) == ("standard input", "from a pipe\n")


def test_standard_input_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert refused("-").startswith("There is no standard input")
    closed = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdin", closed)
    closed.buffer.close()
    assert refused("-").startswith("Standard input cannot be read")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert refused(str(tmp_path / "none")).startswith(f"There is no file {tmp_path / 'none'};")


def test_a_folder_is_told(tmp_path: Path) -> None:
    assert refused(str(tmp_path)) == f"{tmp_path} is a folder; name a text file in it."


@pytest.mark.parametrize("name", ["a\0b", "/dev/null/text"])
def test_a_name_that_cannot_be_one_is_told(name: str) -> None:
    assert "cannot be read" in refused(name)


def test_neither_a_pipe_nor_a_device_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        assert refused(str(tmp_path / name)).startswith(f"{tmp_path / name} is no regular file;")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b" \n\t\r\n", "has only white space in it"),
        ("\u2003\u00a0".encode(), "has only white space in it"),
        (b"text\0more", "is binary, not text (the byte at offset 4 is 0)"),
        (b"\xef\xbb\xbfa\0", "is binary, not text (the byte at offset 4 is 0)"),
        (b"caf\xe9 au lait", "is not UTF-8 text (the byte at offset 3 does not fit)"),
        (b"\xef\xbb\xbfcaf\xe9", "is not UTF-8 text (the byte at offset 6 does not fit)"),
        (b"half a \xe2\x82", "is not UTF-8 text (the byte at offset 7 does not fit)"),
    ],
)
def test_what_is_no_text_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, reason: str
) -> None:
    (tmp_path / "file").write_bytes(content)
    assert refused(str(tmp_path / "file")).startswith(f"{tmp_path / 'file'} {reason}")
    piped(monkeypatch, content)
    assert refused("-").startswith(f"Standard input {reason}")


def test_a_text_that_is_too_large_is_told_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(source.LARGEST + 1)
    assert "has more than 1,000,000,000 bytes" in refused(str(tmp_path / "sparse"))


def test_a_pipe_without_end_is_not_read_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LARGEST", 10)
    piped(monkeypatch, b"eleven byte")
    assert refused("-").startswith("Standard input has more than 10 bytes")
    piped(monkeypatch, b"ten bytes!")
    assert read_text("-").text == "ten bytes!"


def refused_length(tokens: int, wanted: int | None, window: int | None) -> str:
    with pytest.raises(UsageError) as caught:
        check_length("poem.txt", tokens, wanted, window)
    return str(caught.value)


def test_a_text_of_one_token_is_told() -> None:
    assert "poem.txt is one token" in refused_length(1, None, 256)
    assert "poem.txt has no tokens" in refused_length(0, None, 256)
    assert "give --tokens 2 or more" in refused_length(500, 1, 256)


def test_fewer_tokens_than_were_asked_for_are_told_with_how_many_there_are() -> None:
    sentence = refused_length(1_500, 20_000, 256)
    assert "has 1,500 tokens, fewer than the 20,000 that were asked for" in sentence
    assert "give --tokens 1500 or less" in sentence


def test_a_text_that_is_not_longer_than_the_window_is_not_silently_flat() -> None:
    sentence = refused_length(512, None, 512)
    assert "poem.txt has 512 tokens and the window holds 512: nothing would ever be evicted" in sentence
    assert "flat for no reason" in sentence
    assert "a text of 514 tokens or more, or --window 510 or less" in sentence
    assert "nothing would be read after the first eviction" in refused_length(513, None, 512)


def test_too_few_tokens_of_a_long_text_are_told_with_the_number_that_is_needed() -> None:
    sentence = refused_length(100_000, 300, 512)
    assert sentence.startswith("300 tokens are to be read and the window holds 512")
    assert "give --tokens 514 or more, or --window 298 or less" in sentence


def test_a_tiny_text_is_not_told_to_take_no_window() -> None:
    assert "--window" not in refused_length(2, None, 4)


@given(st.integers(2, 50), st.none() | st.integers(2, 50), st.none() | st.integers(1, 50))
def test_what_it_tells_to_give_is_enough(tokens: int, wanted: int | None, window: int | None) -> None:
    try:
        check_length("poem.txt", tokens, wanted, window)
    except UsageError:
        assert (wanted or tokens) > tokens or window is not None
        if window is not None:
            check_length("poem.txt", max(tokens, window + 2), window + 2, window)
    else:
        assert tokens >= (wanted or tokens) >= (window or 0) + 2 * (window is not None)
