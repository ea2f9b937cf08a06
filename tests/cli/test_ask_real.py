"""`ask` on the real small model, as a person or a script runs it."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sinkchat import locations
from sinkchat.chat.reading import read_journal
from sinkchat.chat.records import Closed, RunEnded
from sinkchat.cli import main

pytestmark = pytest.mark.real_model

PLAIN = ("--quant", "none", "--device", "cpu")
"""The same on every machine."""


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where other work shares the cores, two threads of so small a model mostly wait for each other."""
    import torch

    torch.set_num_threads(1)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def _no_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_a_bounded_cache_holds_its_window_from_the_first_eviction_on(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["ask", "--json", "--window", "64", "--ignore-eos", "--max-reply-tokens", "200", "--seed", "3", *PLAIN]
    assert main.main([*argv, "Tell me a story."]) == 0
    first, *tokens, last = lines(capsys.readouterr().out)
    assert (first["event"], last["event"]) == ("prefilled", "finished")
    assert [token["event"] for token in tokens] == ["token"] * 200
    assert (last["reason"], last["tokens"]) == ("length", 200)
    for line in (first, *tokens):
        assert line["kv_entries"] + line["evicted_total"] == line["position"]
        assert line["loss"] > 0
    for before, after in itertools.pairwise(tokens):
        assert after["position"] == before["position"] + 1
    full = [token for token in tokens if token["evicted_total"]]
    assert len(full) > 100
    assert {token["kv_entries"] for token in full} == {64}
    assert last["kv_entries"] == 64
    assert last["evicted_total"] == tokens[-1]["evicted_total"] + 1
    assert all(0 < token["sink_share"] < 1 for token in tokens)
    assert last["tokens_per_second"] > 0
    # bfloat16 keys and values, 30 layers, 3 heads of 64, 64 entries and at most as many again to work with.
    assert 2 * 2 * 30 * 3 * 64 * 64 <= last["kv_bytes"] <= 8 * 30 * 3 * 64 * 64 * 2


def test_a_prompt_longer_than_the_window_is_read_whole(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = places / "long.txt"
    file.write_text("The keeper lit the lamp at dusk, as he had done for thirty years. " * 40)
    argv = ["ask", "--json", "--window", "96", "--max-reply-tokens", "3", "--prompt-file", str(file), *PLAIN]
    assert main.main(argv) == 0
    said = capsys.readouterr()
    prefilled = lines(said.out)[0]
    assert prefilled["tokens"] == prefilled["position"] > 400
    assert prefilled["kv_entries"] == 96
    assert prefilled["evicted_total"] == prefilled["position"] - 96
    assert "were evicted, and the model no longer sees them" in said.err


def test_the_same_seed_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    def reply(seed: str) -> str:
        argv = ["ask", "--seed", seed, "--max-reply-tokens", "24", "--temperature", "1.5", *PLAIN]
        assert main.main([*argv, "Tell me a story."]) == 0
        return capsys.readouterr().out

    assert reply("7") == reply("7") != reply("8")


def test_a_question_through_a_pipe_is_answered_in_plain_text() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sinkchat.cli.main", "--max-reply-tokens", "12", "--temperature", "0", *PLAIN],
        check=False,
        input="What is the capital of France?\n",
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Paris" in done.stdout
    assert done.stdout.endswith("\n")
    assert "\x1b" not in done.stdout


def test_an_interrupt_ends_with_130_and_a_journal_that_is_whole() -> None:
    argv = ["ask", "--json", "--ignore-eos", "--max-reply-tokens", "0", *PLAIN, "Tell me a story."]
    running = subprocess.Popen(
        [sys.executable, "-m", "sinkchat.cli.main", *argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )
    assert running.stdout is not None
    for line in running.stdout:
        if json.loads(line)["event"] == "token":
            break
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (130, "")
    assert lines(out)[-1]["reason"] == "cancelled"
    (path,) = locations.sessions_dir().iterdir()
    reading = read_journal(path)
    assert not reading.damage
    assert not reading.torn
    records = [entry.record for entry in reading.entries]
    assert isinstance(records[-1], Closed)
    assert [record.reason for record in records if isinstance(record, RunEnded)] == ["cancelled"]


def test_what_was_asked_is_saved_and_exported(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["ask", "--max-reply-tokens", "4", *PLAIN, "Hello there, friend."]) == 0
    reply = capsys.readouterr().out
    assert main.main(["sessions"]) == 0
    assert "Hello there, friend." in capsys.readouterr().out
    for format in ("md", "json", "txt"):
        file = places / f"out.{format}"
        assert main.main(["export", "latest", str(file), "--format", format]) == 0
        assert capsys.readouterr().out == f"{file}\n"
        text = file.read_text(encoding="utf-8")
        assert "Hello there, friend." in text
        assert reply.strip() in text


def test_a_session_goes_on_where_it_ended(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["ask", "--json", "--window", "64", "--seed", "1", *PLAIN]
    assert main.main([*argv, "--max-reply-tokens", "40", "--ignore-eos", "Tell me a story."]) == 0
    ended = lines(capsys.readouterr().out)[-1]
    assert main.main([*argv, "--max-reply-tokens", "2", "--continue", "Go on."]) == 0
    first, *_ = lines(capsys.readouterr().out)
    assert first["event"] == "prefilled"
    assert first["position"] == ended["kv_entries"] + ended["evicted_total"] + first["tokens"]
    assert first["kv_entries"] == 64
    assert len(list(locations.sessions_dir().iterdir())) == 1


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--window", "4"], "the window is 4 (--window)"),
        (["--device", "abacus"], "abacus"),
        (["--window", "900000000000"], "900"),
    ],
)
def test_what_cannot_be_is_one_sentence(argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["ask", "hi", *PLAIN[:2], *argv]) in (1, 2)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert sentence in said.err
    assert "failed that should not have" not in said.err
