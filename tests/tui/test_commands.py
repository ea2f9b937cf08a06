"""One table of commands: whatever offers one, offers all, and each does something."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkchat.errors import UsageError
from sinkchat.tui import commands
from sinkchat.tui.commands import COMMANDS
from sinkchat.tui.orders import Orders, last_code
from sinkchat.tui.suggestions import suggest


def test_every_command_has_an_order_and_every_order_a_command() -> None:
    orders = {name for name in vars(Orders) if not name.startswith("_")} - {"do", "toggle_sinks"}
    assert {command.order for command in COMMANDS} == orders


def test_names_and_aliases_are_told_apart() -> None:
    names = [name for command in COMMANDS for name in (command.name, *command.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["quit", "exit", "bye"])
def test_all_ways_to_leave_leave(name: str) -> None:
    assert commands.parse(f"/{name}").command.order == "quit"


def test_an_argument_is_everything_behind_the_name() -> None:
    asked = commands.parse("/system  You are brief.\nAnd kind. ")
    assert asked.argument == "You are brief.\nAnd kind."
    assert commands.parse("/system\nYou are brief.").argument == "You are brief."


@pytest.mark.parametrize(("typed", "meant"), [("/plicy", "/policy"), ("/exprt", "/export"), ("/WINDW 3", "/window")])
def test_a_misspelt_command_is_answered_with_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean {meant}"):
        commands.parse(typed)


def test_an_unknown_command_points_to_the_list() -> None:
    with pytest.raises(UsageError, match="/help lists them all"):
        commands.parse("/zzzzzz")


@pytest.mark.parametrize("text", ["/quit now, please", "/clear the table", "/rebuild 3", "/endless love"])
def test_a_command_that_takes_nothing_is_not_done_for_a_sentence_that_begins_like_it(text: str) -> None:
    with pytest.raises(UsageError, match=r"takes nothing behind it.*written with two"):
        commands.parse(text)


def test_two_slashes_are_a_message() -> None:
    assert not commands.is_command("//etc/hosts")
    assert commands.literal("//etc/hosts") == "/etc/hosts"
    assert commands.literal("a//b") == "a//b"


def test_suggestions_are_fuzzy_and_best_first() -> None:
    names = [suggestion.name for suggestion in suggest("/po", ())]
    assert names[:2] == ["/policy", "/positions"]
    assert "/export" in names
    assert [suggestion.name for suggestion in suggest("/rbld", ())] == ["/rebuild"]
    assert [suggestion.name for suggestion in suggest("/exi", ())] == ["/quit"]


def test_the_letters_that_match_are_named() -> None:
    suggestion = suggest("/rbld", ())[0]
    assert "".join(suggestion.name[letter] for letter in suggestion.letters) == "rbld"


def test_arguments_are_suggested() -> None:
    assert [s.insert for s in suggest("/policy w", ())] == ["/policy window"]
    assert [s.insert for s in suggest("/theme ", ("dusk", "paper"))] == ["/theme dusk", "/theme paper"]
    assert suggest("/window ", ()) == []
    assert suggest("hello /po", ()) == []


def test_paths_are_suggested_for_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "night").mkdir()
    (tmp_path / ".hidden").write_text("x")
    monkeypatch.chdir(tmp_path)
    assert [s.insert for s in suggest("/read n", ())] == ["/read night/", "/read notes.txt"]
    assert [s.runs for s in suggest("/read n", ())] == [False, True]
    assert [s.insert for s in suggest(f"/read {tmp_path}/no", ())] == [f"/read {tmp_path}/notes.txt"]
    assert suggest("/read nowhere/", ()) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a\n```py\nx = 1\n```\nb\n```\ny\n```\n", "y\n"),
        ("a\n```py\nx = 1\n", ""),
        ("no code", ""),
        ("```\none\n```\nand ```\ntwo, still open", "one\n"),
    ],
)
def test_the_last_code_block_is_found(text: str, code: str) -> None:
    assert last_code(text) == code
