"""Whatever is written, however long the chat and however small the terminal, the screen holds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.geometry import Size
from textual.selection import SELECT_ALL
from textual.widgets import Static

from sinkchat.chat.journal import Journal
from sinkchat.chat.session import ChatSession
from sinkchat.models.progress import ProgressSink
from sinkchat.tui import runs
from sinkchat.tui.text.stack import KEPT_LINES
from sinkchat.tui.widgets.line_chart import LineChart
from sinkchat.tui.widgets.panel import Panel, chart_lines
from sinkchat.tui.widgets.status_line import StatusLine
from tests.fakes import FakeEngine, FakeTemplate, words
from tests.tui.conftest import Chat, Play

HOSTILE = (
    "[bold red]x[/] [/nothing] [[[ \x1b[2J\x1b]52;c;eA==\x07 \u202egnp\u2066 a\u200bb \r\x00 "
    "漢字かな 👩\u200d👩\u200d👧 ❤\ufe0f 🇩🇪 مرحبا שלום `${x}` $primary @click=quit"
)


def test_nothing_that_is_written_reaches_the_terminal_as_anything_but_text(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        words(HOSTILE)
        await chat.say(HOSTILE)
        await chat.say(f"/system {HOSTILE}")
        await chat.send(f"/theme {HOSTILE}")
        await chat.send("/system")
        await chat.press("f1", "escape")
        shown = "\n".join(chat.lines())
        for control in "\x1b\x07\u202e\u2066\u200b\r\x00":
            assert control not in shown
        assert "[bold red]x[/] [/nothing] [[[" in shown
        assert "$primary @click=quit" in shown

    play(scenario, FakeEngine(reply=HOSTILE, window=512), size=(140, 50))


@pytest.mark.parametrize("size", [(140, 42), (100, 30), (80, 24), (40, 12), (20, 5), (8, 3), (2, 2)])
def test_every_size_draws_lines_of_exactly_its_width(play: Play, size: tuple[int, int]) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("# Tell me\n- of the [sea] 漢字漢字漢字 👩\u200d👧")
        await chat.type("/")
        lines = chat.lines()
        assert len(lines) == size[1]
        assert {cell_len(line) for line in lines} == {size[0]}

    play(scenario, FakeEngine(reply=HOSTILE), size=size)


def test_resizing_up_and_down_in_the_middle_of_a_reply_tears_nothing(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.send("go")
        for width, height in ((100, 30), (30, 8), (160, 50), (20, 5), (120, 36)):
            await chat.pilot.resize_terminal(width, height)
            await chat.pilot.pause(0.02)
            assert {cell_len(line) for line in chat.lines()} == {width}
        chat.engine.token_delay = 0.0
        await chat.idle()
        assert chat.transcript.following
        assert "again." in "\n".join(chat.lines())

    play(scenario, FakeEngine(token_delay=0.02))


def test_two_hundred_messages_mount_no_more_widgets_than_two(play: Play, tmp_path: Path) -> None:
    engine = FakeEngine(reply="word " * 40)

    def open_long_chat(_progress: ProgressSink) -> ChatSession:
        session = ChatSession(engine, FakeTemplate(), Journal.create(tmp_path), sampling=engine.sampling)
        for number in range(99):
            for _event in session.say(f"message {number}"):
                pass
        return session

    async def scenario(chat: Chat) -> None:
        before = len(list(chat.screen.walk_children()))
        await chat.say("one more")
        assert len(chat.transcript.passages) == 200
        assert len(list(chat.screen.walk_children())) == before
        assert chat.transcript.laid_out_lines <= 2 * KEPT_LINES

    play(scenario, engine, open_session=open_long_chat)


def test_scrolling_up_lets_go_of_the_newest_line_and_ctrl_end_takes_it_again(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        for number in range(6):
            await chat.say(f"message {number}")
        await chat.press("pageup", "pageup")
        top = chat.transcript.scroll_y
        seen = chat.lines()[:5]
        assert not chat.transcript.following
        await chat.say_without_following("another")
        assert chat.transcript.scroll_y == top
        assert chat.lines()[:5] == seen
        assert any("below" in line for line in chat.lines())
        await chat.press("ctrl+end")
        assert chat.transcript.following
        assert chat.transcript.scroll_y == chat.transcript.max_scroll_y

    play(scenario, FakeEngine(reply="word\n\n" * 12, window=512), size=(80, 24))


def test_scrolling_up_brings_the_oldest_message_back(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        for number in range(40):
            chat.screen.runs.submit(runs.say(f"message {number}"))
        await chat.idle()
        assert not chat.transcript._stack.whole
        for _ in range(400):
            await chat.press("pageup")
            if chat.transcript.scroll_y == 0 and chat.transcript._stack.whole:
                break
        assert "message 0" in "\n".join(chat.lines())

    play(scenario, FakeEngine(reply="word\n\n" * 60, window=64), size=(80, 40))


def test_a_selection_is_copied_as_it_was_written(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("one two three four five six seven eight nine ten\nsecond line")
        text, _end = chat.transcript.get_selection(SELECT_ALL) or ("", "")
        assert "one two three four five six seven eight nine ten\nsecond line" in text

    play(scenario, size=(40, 30))


def test_the_panel_gives_way_under_a_hundred_columns_and_its_sum_stays(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("hello")
        panel = chat.screen.query_one(Panel)
        assert panel.display
        await chat.pilot.resize_terminal(99, 30)
        await chat.pilot.pause(0.05)
        assert not panel.display
        assert "sinks 32/32" in chat.screen.query_one(StatusLine).render().plain
        await chat.press("f3")
        await chat.pilot.pause(0.05)
        assert panel.display
        await chat.pilot.resize_terminal(60, 30)
        await chat.press("f3")
        assert "needs 70 columns" in chat.hint

    play(scenario)


@pytest.mark.parametrize("height", range(1, 60))
def test_the_panel_fits_its_height(height: int) -> None:
    lines, spread = chart_lines(height)
    needed = 16 + 2 * lines + (6 if spread else 0)
    assert needed <= height or (lines == 0 and not spread)


def test_the_panel_says_what_the_engine_did(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("one two three")
        await chat.say("four five six")
        state = chat.session.state()
        await chat.until(lambda: f"evicted {state.evicted_total:,}" in " ".join(_panel(chat).split()))
        panel = _panel(chat)
        assert "4 sinks + 28 recent = 32 of 32" in panel
        assert "float32 · cpu" in panel
        assert "strongest: layer 1, head 2" in panel
        assert "50.0 tokens/s" in panel
        assert "sinks kept" in panel
        await chat.say("/policy window")
        await chat.until(lambda: "share of the oldest 4" in _panel(chat))
        assert "sinks taken away" in _panel(chat)

    play(scenario)


def test_before_anything_is_known_the_panel_shows_dashes_and_no_zeros(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.until(lambda: "fake-model" in _panel(chat))
        panel = _panel(chat)
        assert "– nats" in panel
        assert "– tokens/s" in panel
        assert "0.0" not in panel.replace("0.00", "").replace("100%", "")

    play(scenario)


def test_the_panel_is_made_of_narrow_glyphs(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("one two three")
        await chat.say("/policy window")
        await chat.say("four")
        await chat.pilot.pause(0.3)
        assert all(cell_len(glyph) == 1 for glyph in _panel(chat) if glyph != "\n")

    play(scenario)


def test_the_panel_keeps_still_while_somebody_types(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.send("go")
        await chat.until(lambda: chat.state.startswith("writing"))
        await chat.press("a")
        await chat.pilot.pause(0.25)
        await chat.press("b")
        shown = _panel(chat)
        tokens = chat.screen.readings.reply_tokens
        for letter in "cdefgh":
            await chat.press(letter)
        assert chat.screen.readings.reply_tokens > tokens
        assert _panel(chat) == shown
        await chat.press("escape")

    play(scenario, FakeEngine(reply="word " * 2000, token_delay=0.002))


def test_at_rest_nothing_is_drawn_and_no_timer_runs(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("hello")
        await chat.pilot.pause(0.8)
        drawn: list[Size] = []
        for widget in chat.screen.walk_children():
            if isinstance(widget, Static | LineChart):
                widget.render = lambda widget=widget: drawn.append(widget.size) or type(widget).render(widget)  # type: ignore[method-assign]
        await asyncio.sleep(0.5)
        assert not drawn
        timers = [timer for node in (chat.app, chat.screen, *chat.screen.walk_children()) for timer in node._timers]
        assert not [timer for timer in timers if timer._active.is_set() and timer._repeat is None]

    play(scenario)


def _panel(chat: Chat) -> str:
    region = chat.screen.query_one(Panel).content_region
    return "\n".join(line[region.x : region.right] for line in chat.lines()[region.y : region.bottom])
