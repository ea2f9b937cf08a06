"""What was typed is kept, whole, and two chats do not mix it up."""

from __future__ import annotations

from multiprocessing import get_context
from pathlib import Path

from sinkchat.tui.history import KEPT, LONGEST, History, Recall


def test_entries_of_many_lines_survive(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history"
    for text in ("one", "two\nlines", "\x1b[2J 漢字"):
        History(path).add(text)
    assert History(path).entries == ["one", "two\nlines", "\x1b[2J 漢字"]
    assert path.stat().st_mode & 0o077 == 0


def test_repetitions_blanks_and_pasted_files_are_not_kept(tmp_path: Path) -> None:
    history = History(tmp_path / "history")
    for text in ("one", "one", "   ", "x" * (LONGEST + 1)):
        history.add(text)
    assert History(tmp_path / "history").entries == ["one"]


def test_a_damaged_line_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text('"one"\n"tw\n{"no": 1}\n"three"\n')
    assert History(path).entries == ["one", "three"]


def test_a_file_that_cannot_be_written_costs_only_the_history(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.mkdir()
    history = History(path)
    history.add("one")
    assert history.entries == ["one"]
    assert str(path) in history.trouble


def test_a_file_that_grew_large_is_cut_to_its_newest_entries(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = History(path)
    for number in range(300):
        history.add(f"{number} " + "x" * 15_000)
    assert path.stat().st_size < 5 * 1024 * 1024
    assert History(path).entries[-1].startswith("299 ")
    assert len(History(path).entries) <= KEPT


def test_two_chats_write_whole_entries(tmp_path: Path) -> None:
    path = tmp_path / "history"
    context = get_context("spawn")
    writers = [context.Process(target=_write, args=(path, name)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    entries = History(path).entries
    assert sorted(entries) == sorted(f"{name} {number}" for name in "ab" for number in range(100))


def _write(path: Path, name: str) -> None:
    history = History(path)
    for number in range(100):
        history.add(f"{name} {number}")


def test_the_walk_goes_back_and_forth_and_ends_at_what_was_being_typed() -> None:
    recall = Recall(["one", "two"])
    assert recall.newer() is None
    assert recall.older("draft") == "two"
    assert recall.older("two") == "one"
    assert recall.older("one") is None
    assert recall.newer() == "two"
    assert recall.newer() == "draft"
    assert recall.newer() is None
