"""Nothing that was written is lost or changed, and what is not as it was written is named."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sinkchat.chat import records
from sinkchat.chat.journal import Journal
from sinkchat.chat.line import FIRST, Entry, read_line, write_line
from sinkchat.chat.reading import Reading, read_journal
from sinkchat.chat.records import MessageBegun, Record, TokenSaid, TornLine
from sinkchat.errors import JournalError

FIGURE = st.floats(allow_nan=False)
SHARES = st.none() | st.lists(st.lists(FIGURE, max_size=3).map(tuple), max_size=3).map(tuple)
# Half characters that would join into a whole one are joined before they get here.
WORDS = st.text(st.characters(exclude_categories=("Cs",)) | st.sampled_from("\udc80\n\r\x00\x1b\u2028"), max_size=20)


def _any_record() -> st.SearchStrategy[Record]:
    st.register_type_strategy(float, FIGURE)
    st.register_type_strategy(str, WORDS)
    return st.one_of([st.builds(kind) for kind in records.KINDS.values()])


def written(folder: Path, count: int = 6) -> Path:
    journal = Journal.create(folder)
    for number in range(count):
        journal.append(token(number))
    journal.close()
    return journal.path


def token(number: int) -> TokenSaid:
    return TokenSaid(0, 100 + number, f" word{number}", number, 1.5, None, number, 0)


def said(reading: Reading) -> list[int]:
    return [entry.record.position for entry in reading.entries if isinstance(entry.record, TokenSaid)]


@given(record=_any_record(), time=st.integers(0, 10**13).map(lambda ms: ms / 1000), before=st.just(FIRST))
def test_every_record_is_read_as_it_was_written(record: Record, time: float, before: str) -> None:
    entry = Entry(3, time, record)
    raw, checksum = write_line(entry, before)
    line = read_line(raw[:-1])
    assert line is not None
    assert (line.entry, line.before, line.checksum) == (entry, before, checksum)
    assert raw.isascii()
    assert raw.count(b"\n") == 1


def test_figures_that_are_not_finite_are_read_back() -> None:
    raw, _ = write_line(Entry(0, 0.0, TokenSaid(0, 1, "", 0, float("inf"), float("-inf"), 0, 0)), FIRST)
    json.loads(raw, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    line = read_line(raw[:-1])
    assert line is not None
    assert isinstance(line.entry.record, TokenSaid)
    assert (line.entry.record.loss, line.entry.record.sink_share) == (float("inf"), float("-inf"))


def test_a_line_is_on_the_file_when_append_returns(folder: Path) -> None:
    journal = Journal.create(folder)
    for number in range(3):
        entry = journal.append(MessageBegun(number, "user", "hello\n\x1b[2J", None))
        assert read_journal(journal.path).entries[-1] == entry
    journal.close()


def test_a_journal_is_for_its_owner_alone(folder: Path) -> None:
    path = written(folder)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_ids_sort_by_time_and_differ(folder: Path) -> None:
    journals = [Journal.create(folder) for _ in range(20)]
    assert len({journal.id for journal in journals}) == 20
    assert all(len(journal.id) == len("20261129-184530-3fa2") for journal in journals)
    for journal in journals:
        journal.close()


@settings(max_examples=200, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_one_changed_byte_is_found_in_its_line_and_nothing_else_is_lost(place: float, flip: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = written(Path(name))
        content = bytearray(path.read_bytes())
        index = int(place * len(content))
        line = content[:index].count(b"\n")
        assume(index < len(content) - 1)  # without its last end a journal is whole
        content[index] ^= flip
        path.write_bytes(content)
        reading = read_journal(path)
        assert {damage.line for damage in reading.damage} <= {line + 1, line + 2}
        assert line + 1 in {damage.line for damage in reading.damage}
        assert said(reading) == [number for number in range(6) if number != line]


@pytest.mark.parametrize("lost", range(5))
def test_a_lost_line_is_noticed_by_the_next(folder: Path, lost: int) -> None:
    path = written(folder)
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[lost]
    path.write_bytes(b"".join(lines))
    reading = read_journal(path)
    assert [str(damage) for damage in reading.damage] == [f"line {lost + 1} comes after 1 that are missing"]
    assert said(reading) == [number for number in range(6) if number != lost]


def test_a_doubled_and_a_foreign_line_are_noticed(folder: Path, tmp_path: Path) -> None:
    path = written(folder)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], lines[2], *lines[3:]]))
    reading = read_journal(path)
    assert [str(damage) for damage in reading.damage] == ["line 4 stands where it does not belong"]
    assert said(reading) == list(range(6))
    other = written(tmp_path / "other").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], other[3], *lines[4:]]))
    assert "line 4 does not follow the one before" in [str(damage) for damage in read_journal(path).damage]


@pytest.mark.parametrize("kept", [1, 40, -1])
def test_a_last_line_that_was_cut_short_is_no_damage(folder: Path, kept: int) -> None:
    path = written(folder)
    lines = path.read_bytes().splitlines(keepends=True)
    torn = lines[-1][:kept]
    path.write_bytes(b"".join(lines[:-1]) + torn)
    reading = read_journal(path)
    assert not reading.damage
    # Only the line's end is missing: then the record itself is whole.
    assert said(reading) == list(range(6 if kept == -1 else 5))


@settings(deadline=None)
@given(cut=st.integers(0, 2000), again=st.integers(0, 300))
def test_a_torn_journal_goes_on_and_keeps_every_byte(cut: int, again: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = written(Path(name))
        for keep in (cut, again):
            content = path.read_bytes()
            path.write_bytes(content[: max(0, len(content) - keep)])
            before = path.read_bytes()
            whole = said(read_journal(path))
            journal = Journal.open(path)
            journal.append(token(len(whole)))
            journal.close()
            assert path.read_bytes().startswith(before)
            reading = read_journal(path)
            assert not reading.damage
            assert said(reading) == [*whole, len(whole)]
        assert not read_journal(path).torn


def test_what_was_torn_is_noted(folder: Path) -> None:
    path = written(folder)
    path.write_bytes(path.read_bytes()[:-10])
    torn = path.read_bytes().splitlines()[-1]
    Journal.open(path).close()
    assert read_journal(path).entries[-1].record == TornLine(len(torn))
    assert path.read_bytes().splitlines()[-1].startswith(torn)


def test_a_damaged_journal_is_not_resumed_and_the_way_out_is_named(folder: Path) -> None:
    path = written(folder)
    path.write_bytes(path.read_bytes().replace(b"word2", b"wXrd2"))
    with pytest.raises(JournalError, match=r"line 3 is damaged .*`sinkchat export 2\d+-\d+-[0-9a-f]{4}`"):
        Journal.open(path)
    assert said(read_journal(path)) == [0, 1, 3, 4, 5]


def test_a_journal_of_a_newer_version_is_refused(folder: Path) -> None:
    path = written(folder, 1)
    line = read_line(path.read_bytes()[:-1])
    assert line is not None
    import sinkchat.chat.line as module

    version = module.VERSION
    try:
        module.VERSION = version + 1  # type: ignore[misc]
        raw, _ = write_line(line.entry, FIRST)
    finally:
        module.VERSION = version  # type: ignore[misc]
    path.write_bytes(raw)
    with pytest.raises(JournalError, match="newer sinkchat"):
        read_journal(path)


def test_two_programs_do_not_write_one_journal(folder: Path) -> None:
    path = written(folder)
    first = Journal.open(path)
    with pytest.raises(JournalError, match="open in another sinkchat"):
        Journal.open(path)
    first.close()
    Journal.open(path).close()


def test_it_can_be_read_while_it_is_written(folder: Path) -> None:
    journal = Journal.create(folder)
    journal.append(token(0))
    assert said(read_journal(journal.path)) == [0]
    journal.close()


def test_a_folder_that_cannot_be_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match=r"No session can be kept in .*SINKCHAT_DATA_DIR"):
        Journal.create(tmp_path / "file" / "sessions")


@contextmanager
def files_limited_to(size: int) -> Iterator[Callable[[], None]]:
    """The disk is full for files of that size; what is given makes room."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_on_a_full_disk_the_chat_goes_on_and_nothing_is_lost_when_there_is_room_again(folder: Path) -> None:
    journal = Journal.create(folder)
    with files_limited_to(1000) as make_room:
        for number in range(20):
            journal.append(token(number))
        journal.sync()
        assert journal.warning is not None
        assert "the chat goes on" in journal.warning
        assert journal.path.stat().st_size == 1000
        make_room()
        journal.append(token(20))
    assert journal.warning is None
    journal.close()
    reading = read_journal(journal.path)
    assert not reading.damage
    assert said(reading) == list(range(21))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_records_that_never_found_room_are_told_at_the_end(folder: Path, temporary: Path) -> None:
    journal = Journal.create(folder)
    with files_limited_to(500):
        for number in range(5):
            journal.append(token(number))
        with pytest.raises(JournalError, match=r"The last \d records of session .* are not in .*; they are lost"):
            journal.close()
    assert not read_journal(journal.path).damage
    assert list(temporary.iterdir()) == []


def test_a_session_whose_disk_stays_full_is_kept_whole_elsewhere(
    folder: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.create(folder)
    journal.append(token(0))

    def full(_descriptor: int, _content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    for number in range(1, 5):
        journal.append(token(number))
    with pytest.raises(JournalError) as raised:
        journal.close()
    monkeypatch.undo()
    (kept,) = temporary.iterdir()
    assert f"`--resume {kept}`" in str(raised.value)
    assert kept.stat().st_mode & 0o077 == 0
    reading = read_journal(kept)
    assert not reading.damage
    assert said(reading) == list(range(5))
    Journal.open(kept).close()


def test_a_closed_journal_takes_no_record(folder: Path) -> None:
    journal = Journal.create(folder)
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="is closed"):
        journal.append(token(0))


def test_a_line_is_one_write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.create(folder)
    writes: list[bytes] = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, content: writes.append(bytes(content)) or write(file, content))
    journal.append(token(0))
    journal.append(token(1))
    monkeypatch.undo()
    assert [line.count(b"\n") for line in writes] == [1, 1]
    journal.close()
