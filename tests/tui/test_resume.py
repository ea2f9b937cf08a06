"""A session that is opened again, on the screen."""

from __future__ import annotations

from pathlib import Path

from sinkchat.chat.journal import Journal
from sinkchat.chat.session import ChatSession
from sinkchat.models.progress import ProgressSink
from tests.fakes import FakeEngine, FakeTemplate
from tests.tui.conftest import Chat, Play


def test_a_session_that_is_opened_again_shows_its_newest_line(play: Play, folders: Path) -> None:
    told = FakeEngine(reply=" ".join(f"word-{number}" for number in range(900)))
    journal = Journal.create(folders / "sessions")
    session = ChatSession(told, FakeTemplate(), journal, sampling=told.sampling)
    for _ in session.say("tell me all of them"):
        pass
    session.close()

    def open_again(_progress: ProgressSink) -> ChatSession:
        engine = FakeEngine()
        return ChatSession(engine, FakeTemplate(), Journal.open(journal.path), sampling=engine.sampling)

    async def scenario(chat: Chat) -> None:
        await chat.until(lambda: chat.transcript.following and "word-899" in "\n".join(chat.lines()))
        assert chat.transcript.lines_below == 0

    play(scenario, open_session=open_again)
