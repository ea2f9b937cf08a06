"""Progress is one line on a terminal and nothing anywhere else; signals ask before they insist."""

from __future__ import annotations

import io
import os
import signal
import sys

import pytest

from sinkchat.cli import chat
from sinkchat.cli.interrupt import Interrupt
from sinkchat.cli.opening import drawn_as
from sinkchat.cli.terminal import ProgressLine, is_terminal, sentence
from sinkchat.errors import UsageError
from sinkchat.models.progress import Progress
from sinkchat.models.sampling import Sampling
from sinkchat.settings import Settings


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        (Progress("loading the tokenizer", 0, None), "Loading the tokenizer ..."),
        (Progress("fetching", 12_000_000, 93_000_000, "B"), "Fetching: 12.0 of 93.0 MB"),
        (Progress("reading the prompt", 512, 6000, "tokens"), "Reading the prompt: 512 of 6,000 tokens"),
        (Progress("converting", 3, 272), "Converting: 3 of 272"),
        (Progress("fetching", 5_000_000, None, "B"), "Fetching: 5.0 MB"),
    ],
)
def test_progress_is_said_in_words_and_figures(progress: Progress, said: str) -> None:
    assert sentence(progress) == said


def test_without_a_terminal_progress_is_silent() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream)
    line.show(Progress("loading", 1, 2))
    line.clear()
    assert stream.getvalue() == ""


def test_the_line_is_taken_away_before_anything_else_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = _Terminal()
    line = ProgressLine(stream)
    line.show(Progress("a stage with a very long name", 1, 2))
    line.clear()
    line.clear()
    assert stream.getvalue() == "\r\x1b[2KA stage with a very\r\x1b[2K"


def test_within_a_stage_the_line_is_not_written_for_every_step() -> None:
    stream = _Terminal()
    line = ProgressLine(stream)
    for step in range(10_000):
        line.show(Progress("loading", step, 10_000))
    assert stream.getvalue().count("\r") < 100


def test_a_stream_that_is_closed_or_missing_is_no_terminal() -> None:
    closed = _Terminal()
    closed.close()
    assert not is_terminal(None)
    assert not is_terminal(io.StringIO())


def test_the_first_signal_asks_and_the_second_insists() -> None:
    with Interrupt() as interrupt:
        interrupt.patient = True
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.asked
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupt():
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_a_person_sets_takes_the_place_of_the_models_own_way_to_draw() -> None:
    own = Sampling(temperature=0.7, top_p=0.9, min_p=None, seed=None)
    drawn = drawn_as(own, Settings(temperature=0.0, min_p=0.1, seed=5))
    assert drawn == Sampling(temperature=0.0, top_p=0.9, min_p=0.1, seed=5)
    assert drawn_as(own, Settings()) == own


@pytest.mark.parametrize("name", ["dumb", "unknown"])
def test_on_a_terminal_that_cannot_be_drawn_on_there_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("TERM", name)
    monkeypatch.setattr(sys, "stderr", _Terminal())
    with pytest.raises(UsageError, match=f"TERM is {name}.*sinkchat ask"):
        chat.run(Settings())


def test_progress_ends_with_its_terminal_and_the_work_goes_on() -> None:
    class Gone(_Terminal):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    line = ProgressLine(Gone())
    line.show(Progress("loading", 1, 2))
    line.show(Progress("reading", 1, 2))
    line.clear()


def test_progress_is_as_wide_as_its_own_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output may lead into a file, and the terminal be narrow."""

    class Narrow(_Terminal):
        def fileno(self) -> int:
            return 2

    monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((12, 5)))
    stream = Narrow()
    ProgressLine(stream).show(Progress("a stage with a very long name", 1, 2))
    assert stream.getvalue() == "\r\x1b[2KA stage wit"
