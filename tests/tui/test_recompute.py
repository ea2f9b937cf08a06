"""Under `recompute` the screen says when the older half of a full window left, and what that cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sinkchat.chat.happening import Eviction, PolicyChange
from sinkchat.engine.events import CacheState
from sinkchat.settings import Settings
from sinkchat.tui.notices import describe, halved
from sinkchat.tui.scribe import Scribe
from sinkchat.tui.widgets import gauge
from sinkchat.tui.widgets.panel import FIXED, PANEL_NEEDS, SECTIONS, chart_lines, share_name
from sinkchat.tui.widgets.transcript import Transcript
from tests.fakes import STORY, FakeEngine
from tests.tui.conftest import Chat, Play

FULL = "the window was full: the older half left"


def engine(**settings: object) -> FakeEngine:
    return FakeEngine(**{"policy": "recompute", "window": 24, **settings})  # type: ignore[arg-type]


def _state(**fields: object) -> CacheState:
    return replace(engine().state(), **fields)  # type: ignore[arg-type]


# -- the transcript


def test_a_line_stands_in_the_reply_where_the_window_was_full(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("Tell me of the sea.")
        notices = [passage.text for passage in chat.transcript.passages if passage.voice == "notice"]
        assert notices[0] == f"{FULL} (positions 4 to 13), 10 tokens run again"
        assert len(notices) == sum(gone.cause == "recompute" for gone in chat.session.conversation.evictions)
        replies = [passage for passage in chat.transcript.passages if passage.voice == "reply"]
        assert "".join(passage.text for passage in replies) == STORY * 2
        assert replies[1].first == 25  # the token at 24 was said, and room was made for it
        assert chat.state == "idle"

    play(scenario, engine(reply=STORY * 2))


def test_code_that_it_cuts_is_still_code_behind_it(play: Play) -> None:
    reply = "So:\n\n```python\n" + "\n".join(f"x * {number} * y" for number in range(30)) + "\n```\n\nDone *now*."

    async def scenario(chat: Chat) -> None:
        await chat.say("Tell me of the sea.")
        replies = [passage for passage in chat.transcript.passages if passage.voice == "reply"]
        assert len(replies) > 3
        assert "".join(passage.text for passage in replies) == reply
        rows = [row for passage in replies for stanza in passage.stanzas for row in stanza.rows]
        assert all(row.kind == "code" for row in rows if "* y" in row.cell.text)
        assert [row.kind for row in rows if "Done now." in row.cell.text] == ["prose"]

    play(scenario, engine(reply=reply))


def test_the_words_of_a_person_are_not_cut_by_it(play: Play) -> None:
    text = " ".join(f"word{number}" for number in range(60))

    async def scenario(chat: Chat) -> None:
        await chat.say(text)
        assert [passage.text for passage in chat.transcript.passages if passage.voice == "person"] == [text]
        assert FULL in chat.said

    play(scenario, engine())


def test_what_was_written_while_it_happened_reads_as_what_is_opened_again(play: Play, tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("word " * 60)

    async def scenario(chat: Chat) -> None:
        await chat.say("Tell me of the sea.")
        await chat.say("/policy sinks")
        await chat.say(f"/read {path}")
        await chat.say("/policy recompute")
        await chat.say("And then?")
        live = [(passage.voice, passage.text) for passage in chat.transcript.passages]
        again = Transcript()
        Scribe(again).write(chat.session.conversation)
        assert [(passage.voice, passage.text) for passage in again.passages] == live

    play(scenario, engine(reply=STORY * 2, token_delay=0.0005))


def test_the_horizon_is_where_the_newer_half_begins(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        for text in (
            "Tell me of the sea.",
            "And then what came?",
            "/policy window",
            "And then?",
            "/policy recompute",
        ):
            await chat.say(text)
        await chat.say("And then?")
        sight, kept = chat.transcript.sight, set(chat.engine._kept)
        assert sight.horizon == chat.session.state().horizon == chat.engine._kept[4]
        for passage in chat.transcript.passages:
            start = 0
            for number in range(passage.tokens):
                end = passage._ends[number]
                seen = start >= passage.cut(sight) or end <= passage.kept(sight)
                assert passage.first is not None
                assert start == end or seen == (passage.first + number in kept)
                start = end
        assert sum("horizon" in line for line in chat.lines()) == 1

    play(scenario, engine(), size=(120, 100))


# -- while it runs


def test_while_the_newer_half_runs_again_the_status_counts_it_and_then_the_reply_goes_on(play: Play) -> None:
    states: list[str] = []

    async def scenario(chat: Chat) -> None:
        await chat.send("Tell me of the sea.")
        await chat.until(lambda: chat.state.startswith("writing"))
        chat.engine.chunk_delay = 0.3
        await chat.until(lambda: states.append(chat.state) or chat.state.startswith("running again 2 of 10"))
        assert chat.screen.runs.writes
        assert chat.screen.runs.phase == "writing"
        chat.engine.chunk_delay = 0.0
        await chat.until(lambda: chat.state.startswith("writing"))
        chat.engine.token_delay = 0.0
        await chat.idle()
        assert "running again" in states
        assert not any(state.startswith("changing") for state in states)
        assert chat.session.conversation.messages[-1].reason == "stop"

    play(scenario, engine(chunk=2, reply=STORY * 2, token_delay=0.02))


def test_while_a_text_is_read_it_is_no_end_of_the_reading(play: Play) -> None:
    text = " ".join(f"word{number}" for number in range(60))

    async def scenario(chat: Chat) -> None:
        await chat.send(text)
        await chat.until(lambda: chat.state.startswith("running again"))
        await chat.press("f2")  # a person's own words are not cut
        await chat.until(lambda: chat.state.startswith("reading"))
        chat.engine.chunk_delay = 0.0
        await chat.until(lambda: "policy sinks" in chat.said)
        await chat.idle()
        person = chat.session.conversation.messages[0]
        assert (person.reason, person.text, person.tokens_read) == (None, text, 60)
        reply = [passage.text for passage in chat.transcript.passages if passage.voice == "reply"]
        assert "".join(reply) == STORY

    play(scenario, engine(chunk=4, chunk_delay=0.05, token_delay=0.001))


def test_escape_while_it_runs_stops_the_reply(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.send("Tell me of the sea.")
        await chat.until(lambda: chat.state.startswith("writing"))
        chat.engine.chunk_delay = 0.1
        await chat.until(lambda: chat.state.startswith("running again"))
        await chat.press("escape")
        await chat.idle()
        assert chat.state == "stopped"
        assert "[stopped after " in chat.said
        chat.engine.chunk_delay = 0.0
        await chat.say("/continue")
        assert chat.state == "idle"

    play(scenario, engine(chunk=2, reply=STORY * 2, token_delay=0.02))


# -- the panel


def test_the_panel_counts_what_ran_again(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.until(lambda: "recomputed                     0 tokens" in "\n".join(chat.lines()))
        await chat.say("Tell me of the sea.")
        state = chat.session.state()
        screen = "\n".join(chat.lines())
        assert "recompute · cache positions" in screen
        assert f"4 sinks + {state.kv_entries - 4} recent = {state.kv_entries} of 24" in screen
        assert f"{state.recomputed_total} tokens, last 10" in screen
        assert "sink share" in screen
        assert "older half leaves" in screen
        await chat.say("/policy sinks")
        assert f"{state.recomputed_total} tokens, last 10" in "\n".join(chat.lines())
        await chat.say("/clear")
        assert "recomputed" not in "\n".join(chat.lines())

    play(scenario, engine())


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (100, 30)])
def test_the_line_more_leaves_the_panel_whole(play: Play, size: tuple[int, int]) -> None:
    async def scenario(chat: Chat) -> None:
        if not chat.screen.panel.display:
            await chat.press("f3")
        await chat.say("Tell me of the sea.")
        assert any("older half leaves" in line and "F2" in line for line in chat.lines()[:-1])
        await chat.press("f2")
        await chat.idle()
        assert any("sinks kept" in line and "F2" in line for line in chat.lines()[:-1])

    play(scenario, engine(), size=size)


def test_under_the_other_policies_there_is_no_such_line(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("Tell me of the sea.")
        assert "recomputed" not in "\n".join(chat.lines())

    play(scenario, FakeEngine(window=24))


def test_charts_give_way_to_a_line_more() -> None:
    for height in range(PANEL_NEEDS[1], 60):
        for further in range(3):
            lines, spread = chart_lines(height, further)
            assert not lines or FIXED + further + 2 * lines + (SECTIONS if spread else 0) <= height


def test_a_narrow_screen_counts_it_in_the_status_line(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("Tell me of the sea.")
        state = chat.session.state()
        assert f"recompute {state.kv_entries}/24" in chat.lines()[-1]
        assert f"recomputed {state.recomputed_total}" in chat.lines()[-1]

    play(scenario, engine(), size=(90, 24))


# -- the rules


def test_f2_leads_to_the_sinks_and_back_no_further_than_to_the_window(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("Tell me of the sea.")
        for policy in ("sinks", "window", "sinks"):
            await chat.press("f2")
            await chat.idle()
            assert chat.session.state().policy == policy
        await chat.say("/policy recompute")
        assert chat.session.state().policy == "recompute"

    play(scenario, engine())


def test_the_screen_says_at_the_start_what_the_policy_does(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        screen = "\n".join(chat.lines())
        assert "4 sinks + 20 recent = 24 entries" in screen
        assert "the older half leaves and the newer half is read again" in screen

    play(scenario, engine(), settings=Settings(policy="recompute"))


def test_the_first_tokens_are_kept_so_their_share_is_the_sinks() -> None:
    assert share_name(_state()) == "sink share"
    assert share_name(_state(policy="window")) == "share of the oldest 4"
    assert gauge.words(_state(kv_entries=14, sink_entries=4), 8192) == "4 sinks + 10 recent = 14 of 24"


def test_a_window_that_was_full_is_told_in_one_line() -> None:
    gone = Eviction(0, 1, 4, 2047, 2044, "recompute", 4096, 4096, 2044)
    assert halved(gone) == f"{FULL} (positions 4 to 2,047), 2,044 tokens run again"
    assert halved(replace(gone, last=4, count=1, run_again=1)) == f"{FULL} (position 4), 1 token run again"
    assert halved(replace(gone, last=4, count=1, run_again=0)) == f"{FULL} (position 4)"


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        ("sinks", "recompute", "its older half leaves, and the newer half runs again"),
        ("window", "recompute", "its older half leaves, and the newer half runs again"),
        ("recompute", "window", "nothing is kept for good now"),
        ("recompute", "sinks", "stay"),
    ],
)
def test_a_switch_says_what_it_means(was: str, now: str, words: str) -> None:
    before = _state(policy=was, position=100, kv_entries=24, sink_entries=0 if was == "window" else 4)
    after = replace(before, policy=now, sink_entries=0 if now == "window" else 4)  # type: ignore[arg-type]
    line = describe(PolicyChange(0.0, 0, None, 100, before, after, "policy", True))
    assert line.startswith(f"policy {now}: ")
    assert line.endswith(words)
