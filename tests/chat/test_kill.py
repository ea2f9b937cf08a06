"""kill -9 at any moment: whatever the program had shown is in the journal, and the session goes on from there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sinkchat.chat.conversation import Conversation
from sinkchat.chat.journal import Journal
from sinkchat.chat.reading import read_journal
from sinkchat.chat.records import TokenSaid
from sinkchat.chat.session import ChatSession
from tests.chat.conftest import drain
from tests.fakes import FakeEngine, FakeTemplate

# Shows every token as soon as it is told, unbuffered, as a screen would.
PROGRAM = """
import os, sys
from pathlib import Path
from sinkchat.chat.journal import Journal
from sinkchat.chat.session import ChatSession
from sinkchat.engine.events import Token
from tests.fakes import FakeEngine, FakeTemplate

chat = ChatSession(FakeEngine(window=16), FakeTemplate(), Journal.create(Path(sys.argv[1])))
for turn in range(10**9):
    for event in chat.say(f"turn {turn} with a few words in it"):
        if isinstance(event, Token):
            os.write(1, b"%d %d\\n" % (event.cache.position, event.id))
"""

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("delay", [0.0, 0.03, 0.11])
def test_nothing_that_was_shown_is_lost(folder: Path, delay: float) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert program.stdout is not None
    shown = program.stdout.readline()
    time.sleep(delay)
    program.send_signal(signal.SIGKILL)
    shown += program.stdout.read()
    program.stdout.close()
    program.wait()

    (path,) = folder.iterdir()
    reading = read_journal(path)
    assert not reading.damage
    said = [f"{e.record.position} {e.record.id}" for e in reading.entries if isinstance(e.record, TokenSaid)]
    lines = shown.decode().splitlines()
    assert lines
    assert said[: len(lines)] == lines
    assert len(said) <= len(lines) + 1  # written, and killed before it was shown

    before = Conversation.from_records(reading.entries)
    journal = Journal.open(path)
    engine = FakeEngine(window=16)
    chat = ChatSession(engine, FakeTemplate(), journal)
    drain(chat.resume())
    ids = [token.id for token in before.sequence.tokens]
    assert engine.fed[: len(ids)] == ids
    drain(chat.say("still there?"))
    chat.close()
    assert not read_journal(path).damage
