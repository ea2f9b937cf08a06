"""`ask` on the fake engine: the reply on stdout, everything else on stderr, and a journal that is whole."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkchat import locations
from sinkchat.chat.journal import Journal
from sinkchat.chat.reading import read_journal
from sinkchat.chat.records import Closed, RunEnded
from sinkchat.chat.session import ChatSession
from sinkchat.cli import ask, main
from sinkchat.models.progress import Progress, ProgressSink
from sinkchat.models.sampling import Sampling
from sinkchat.settings import Settings
from tests.fakes import STORY, FakeEngine, FakeTemplate

Opening = Callable[[Settings, ProgressSink, Path | None], ChatSession]


@pytest.fixture(autouse=True)
def _no_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)


def opening_of(engine: FakeEngine, folder: Path) -> Opening:
    def opening(settings: Settings, progress: ProgressSink, resuming: Path | None = None) -> ChatSession:
        progress(Progress("loading", 1, 2))
        return ChatSession(
            engine,
            FakeTemplate(),
            Journal.create(folder),
            max_reply_tokens=settings.max_reply_tokens,
            sampling=Sampling(),
        )

    return opening


def asked(tmp_path: Path, engine: FakeEngine | None = None, settings: Settings | None = None, **question: Any) -> int:
    opening = opening_of(engine or FakeEngine(), tmp_path / "sessions")
    return ask.run(ask.Question(("hello", "there"), **question), settings or Settings(), opening)


def journal(tmp_path: Path) -> list[Any]:
    (path,) = (tmp_path / "sessions").iterdir()
    reading = read_journal(path)
    assert not reading.damage
    assert not reading.torn
    return [entry.record for entry in reading.entries]


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_reply_alone_is_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(tmp_path, FakeEngine(window=1000)) == 0
    said = capsys.readouterr()
    assert said.out == STORY + "\n"
    assert said.err == "", "stderr is no terminal: no progress, no escapes"


def test_evictions_are_told_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(tmp_path, FakeEngine(window=16)) == 0
    said = capsys.readouterr()
    assert said.out == STORY + "\n"
    assert said.err.startswith("sinkchat: the window holds 16 of the ")


def test_what_the_model_says_cannot_move_the_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(tmp_path, FakeEngine(window=1000, reply="red \x1b[31m and \x07 bell\nnext")) == 0
    assert capsys.readouterr().out == "red ␛[31m and ␇ bell\nnext\n"


def test_json_lines_have_exactly_the_promised_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(tmp_path, FakeEngine(window=16, reply="naïve \U0001f600 end"), json=True) == 0
    out = capsys.readouterr().out
    assert out.isascii()
    first, *tokens, last = (json.loads(line) for line in out.splitlines())
    assert list(first) == ["event", "tokens", "position", "kv_entries", "evicted_total", "loss"]
    assert list(last) == [
        *("event", "reason", "tokens", "tokens_per_second", "kv_entries", "kv_bytes", "evicted_total"),
    ]
    for token in tokens:
        assert list(token) == [
            *("event", "id", "text", "position", "loss", "kv_entries", "evicted_total", "sink_share"),
        ]
    assert (first["event"], last["event"], last["reason"]) == ("prefilled", "finished", "stop")
    assert {token["event"] for token in tokens} == {"token"}
    assert "".join(token["text"] for token in tokens) == "naïve \U0001f600 end"
    assert last["tokens"] == len(tokens)


THOUGHTFUL = {"thinking": "Let me\x1b see.", "reply": "Yes, it is."}


def test_the_answer_alone_is_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(tmp_path, FakeEngine(**THOUGHTFUL)) == 0
    assert capsys.readouterr() == ("Yes, it is.\n", "")


def test_thinking_is_shown_on_stderr_when_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(tmp_path, FakeEngine(**THOUGHTFUL), show_thinking=True) == 0
    assert capsys.readouterr() == ("Yes, it is.\n", "Let me␛ see.\n")


def test_a_reply_that_is_cut_while_the_model_thinks_says_why_it_is_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(tmp_path, FakeEngine(**THOUGHTFUL), Settings(max_reply_tokens=2)) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "sinkchat: the model had not finished thinking, so there is no answer; raise --max-reply-tokens.\n"


def test_json_lines_say_which_tokens_are_thinking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(tmp_path, FakeEngine(**THOUGHTFUL), json=True) == 0
    tokens = [line for line in lines(capsys) if line["event"] == "token"]
    assert [line.get("part") for line in tokens] == ["thinking"] * 3 + [None] * 3


def test_each_token_line_speaks_of_the_moment_before_it_is_fed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked(tmp_path, FakeEngine(window=16), json=True)
    first, *tokens, last = lines(capsys)
    assert first["tokens"] == first["position"] == tokens[0]["position"]
    for before, after in itertools.pairwise(tokens):
        assert after["position"] == before["position"] + 1
    for line in (first, *tokens):
        assert line["kv_entries"] + line["evicted_total"] == line["position"]
        assert line["kv_entries"] <= 16
    assert last["kv_entries"] + last["evicted_total"] == tokens[-1]["position"] + 1


def test_ignore_eos_goes_on_to_the_cap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(tmp_path, settings=Settings(max_reply_tokens=200), json=True, ignore_eos=True) == 0
    last = lines(capsys)[-1]
    assert (last["reason"], last["tokens"]) == ("length", 200)


def test_a_number_that_is_none_is_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = FakeEngine()
    engine._loss = lambda token: float("nan")  # type: ignore[method-assign]
    asked(tmp_path, engine, json=True)
    assert all(line["loss"] is None for line in lines(capsys) if line["event"] == "token")


def test_a_failure_of_the_engine_is_the_last_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = FakeEngine()
    engine.fail_after = 12
    assert asked(tmp_path, engine, json=True) == 1
    said = capsys.readouterr()
    last = json.loads(said.out.splitlines()[-1])
    assert (last["event"], last["reason"], last["error"]) == ("finished", "error", "the device is out of memory")
    assert said.err == "sinkchat: the device is out of memory\n"
    assert isinstance(journal(tmp_path)[-1], Closed)


def test_a_failure_that_nobody_expected_is_the_last_line_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = FakeEngine()
    engine.raise_after = 14
    assert asked(tmp_path, engine, json=True) == 1
    said = capsys.readouterr()
    last = json.loads(said.out.splitlines()[-1])
    assert (last["event"], last["reason"]) == ("finished", "error")
    assert last["error"]
    assert "Traceback" not in said.err
    assert isinstance(journal(tmp_path)[-1], Closed)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_reply_in_order(
    number: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    engine = FakeEngine()
    feed, fed = engine._feed, []

    def interrupted_after_the_twentieth(token: int) -> None:
        feed(token)
        fed.append(token)
        if len(fed) == 20:
            os.kill(os.getpid(), number)

    engine._feed = interrupted_after_the_twentieth  # type: ignore[method-assign]
    assert asked(tmp_path, engine, json=True) == 130
    assert lines(capsys)[-1]["reason"] == "cancelled"
    assert 20 <= len(engine.fed) <= 22
    records = journal(tmp_path)
    assert isinstance(records[-1], Closed)
    (ended,) = [record for record in records if isinstance(record, RunEnded)]
    assert ended.reason == "cancelled"
    assert signal.getsignal(number) == before


def test_an_interrupt_while_the_model_loads_leaves_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def opening(settings: Settings, progress: ProgressSink, resuming: Path | None = None) -> ChatSession:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("went on loading")

    monkeypatch.setattr(ask, "open_session", opening)
    assert main.main(["ask", "hi"]) == 130
    assert capsys.readouterr().err == ""


class _ClosedPipe:
    def __init__(self, lines_read: int) -> None:
        self._left = lines_read

    def write(self, text: str) -> int:
        if not self._left:
            raise BrokenPipeError
        self._left -= 1
        return len(text)

    def flush(self) -> None:
        pass

    def fileno(self) -> int:
        raise OSError


def test_a_reader_that_has_seen_enough_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ask, "open_session", opening_of(FakeEngine(), tmp_path / "sessions"))
    monkeypatch.setattr(sys, "stdout", _ClosedPipe(3))
    assert main.main(["ask", "hi", "--json"]) == 0
    assert capsys.readouterr().err == ""
    assert isinstance(journal(tmp_path)[-1], Closed)


def test_a_wrong_prompt_is_told_before_a_model_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def opening(settings: Settings, progress: ProgressSink, resuming: Path | None = None) -> ChatSession:
        raise AssertionError("loaded a model for nothing")

    monkeypatch.setattr(ask, "open_session", opening)
    assert main.main(["ask"]) == 2
    assert main.main(["ask", "--prompt-file", "/no/such"]) == 2
    assert main.main([]) == 2, "without a terminal, sinkchat alone is a question"
    assert all(line.startswith("sinkchat: The prompt ") for line in capsys.readouterr().err.splitlines())


def test_a_session_is_named_to_go_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    resumed: list[Path | None] = []

    def opening(settings: Settings, progress: ProgressSink, resuming: Path | None = None) -> ChatSession:
        resumed.append(resuming)
        return opening_of(FakeEngine(), locations.sessions_dir())(settings, progress, resuming)

    monkeypatch.setattr(ask, "open_session", opening)
    assert main.main(["ask", "one"]) == 0
    (first,) = locations.sessions_dir().iterdir()
    assert main.main(["ask", "--continue", "two"]) == 0
    assert main.main(["--resume", first.name[:-6], "ask", "three"]) == 0
    assert resumed == [None, first, first]
    capsys.readouterr()
    assert main.main(["ask", "--resume", "no-such", "four"]) == 2
    assert capsys.readouterr().err.startswith("sinkchat: There is no session 'no-such' in ")
