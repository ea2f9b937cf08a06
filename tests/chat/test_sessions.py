"""The sessions on disk, found in a moment."""

from __future__ import annotations

import shutil
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest

from sinkchat.chat.conversation import Conversation
from sinkchat.chat.reading import read_journal
from sinkchat.chat.sessions import find_session, list_sessions, newest_session
from sinkchat.engine.events import Token
from sinkchat.errors import UsageError
from tests.chat.conftest import OpenChat, drain
from tests.fakes import FakeEngine


def as_id(folder: Path, path: Path, name: str) -> Path:
    return path.rename(folder / f"{name}.jsonl")


@pytest.fixture
def three(folder: Path, open_chat: OpenChat) -> list[str]:
    names = ["20260101-000000-aaaa", "20260101-000000-abbb", "20260301-120000-cccc"]
    for name in names:
        chat = open_chat(system="be brief")
        drain(chat.say(f"hello\nfrom {name[-4:]}"))
        chat.close()
        as_id(folder, folder / f"{chat.id}.jsonl", name)
    return names


def test_the_newest_comes_first_with_its_first_words(folder: Path, three: list[str]) -> None:
    listed = list_sessions(folder)
    assert [session.id for session in listed] == three[::-1]
    assert listed[0].first_words == "hello from cccc"
    assert listed[0].model == "fake-model"
    assert abs((datetime.now(timezone.utc) - listed[0].started).total_seconds()) < 60


def test_its_counts_are_the_conversations_own(folder: Path, open_chat: OpenChat) -> None:
    chat = open_chat(FakeEngine(window=16), system="be brief")

    def check() -> None:
        totals = Conversation.from_records(read_journal(folder / f"{chat.id}.jsonl").entries).totals
        (listed,) = list_sessions(folder)
        assert (listed.messages, listed.tokens) == (totals.messages, totals.tokens)

    drain(chat.say("hello"))
    check()
    drain(chat.read("a file of some words " * 20, "notes.txt"))
    check()
    drain(chat.clear())
    events = chat.say("and")
    for event in events:
        check()  # in the middle of a prompt and of a reply too
        if isinstance(event, Token) and event.text == " keeper":
            break
    events.close()
    drain(chat.change(policy="window"))
    check()
    chat.close()
    check()


def test_a_first_message_of_any_length_is_shown_by_its_beginning(folder: Path, open_chat: OpenChat) -> None:
    chat = open_chat(FakeEngine(chunk=512), system="rule " * 5_000)
    drain(chat.say("many words " * 5_000))
    chat.close()
    (listed,) = list_sessions(folder)
    assert listed.first_words == ("many words " * 8)[:79].rstrip() + "…"


def test_a_session_in_which_nothing_was_said_is_not_listed(folder: Path, open_chat: OpenChat) -> None:
    open_chat()
    assert list_sessions(folder) == ()
    with pytest.raises(UsageError, match="no session"):
        newest_session(folder)


def test_what_is_no_journal_is_passed_over(folder: Path, three: list[str]) -> None:
    (folder / "notes.jsonl").write_text("not a journal\n")
    (folder / "empty.jsonl").write_text("")
    (folder / "torn.jsonl").write_bytes(b'{"v":1,"n":0')
    (folder / "folder.jsonl").mkdir()
    assert [session.id for session in list_sessions(folder)] == three[::-1]
    assert newest_session(folder).stem == three[-1]


def test_a_folder_that_is_not_there_has_no_sessions(tmp_path: Path) -> None:
    assert list_sessions(tmp_path / "nowhere") == ()


def test_the_beginning_of_an_id_is_enough(folder: Path, three: list[str]) -> None:
    assert find_session(folder, "20260301").stem == three[2]
    assert find_session(folder, three[0]).stem == three[0]
    with pytest.raises(UsageError, match="fits 20260101-000000-aaaa, 20260101-000000-abbb; give more"):
        find_session(folder, "202601")
    with pytest.raises(UsageError, match=r"no session '2027'.*`sinkchat sessions`"):
        find_session(folder, "2027")
    with pytest.raises(UsageError, match="no session"):
        find_session(folder, "../sessions/2026")


def test_hundreds_of_long_sessions_are_listed_at_once(folder: Path, open_chat: OpenChat) -> None:
    chat = open_chat(FakeEngine(window=16), max_reply_tokens=0)
    for turn in range(40):
        drain(chat.say(f"turn {turn}"))
    chat.close()
    path = folder / f"{chat.id}.jsonl"
    for number in range(300):
        shutil.copy(path, folder / f"20250101-000000-{number:04x}.jsonl")
    start = time.perf_counter()
    assert len(list_sessions(folder)) == 301
    assert time.perf_counter() - start < 1.5
