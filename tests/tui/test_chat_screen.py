"""What a person does in the chat, and what they then see."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from textual import events

from sinkchat.chat.session import ChatSession
from sinkchat.errors import ModelError
from sinkchat.models.progress import Progress, ProgressSink
from sinkchat.settings import Settings
from tests.fakes import STORY, FakeEngine
from tests.tui.conftest import Chat, Play


def test_a_message_is_answered(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("Who is there?")
        assert "person: Who is there?" in chat.said
        assert f"reply: {STORY}" in chat.said
        assert chat.state == "idle"
        assert chat.screen.prompt.text == ""

    play(scenario, FakeEngine(window=64))


@pytest.mark.parametrize("key", ["ctrl+j", "alt+enter", "shift+enter"])
def test_a_new_line_key_makes_a_line_and_sends_nothing(play: Play, key: str) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.press("a", key, "b")
        assert chat.screen.prompt.text == "a\nb"
        await chat.press("enter")
        await chat.idle()
        assert "person: a\nb" in chat.said

    play(scenario)


def test_the_send_key_can_be_chosen(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.press("a", "enter", "b", "ctrl+j")
        await chat.idle()
        assert "person: a\nb" in chat.said

    play(scenario, settings=Settings(send_key="ctrl+j"))


def test_what_is_sent_while_the_model_loads_waits_and_is_then_said(play: Play) -> None:
    loaded = threading.Event()
    opened: list[ChatSession] = []

    async def scenario(chat: Chat) -> None:
        await chat.until(lambda: "43 %" in "\n".join(chat.lines()))
        assert chat.state == "loading 43 %"
        await chat.send("one")
        await chat.send("two")
        assert chat.waiting.splitlines() == ["waits: one", "waits: two"]
        await chat.press("up")
        assert chat.screen.prompt.text == "two"
        assert chat.waiting == "waits: one"
        await chat.type("")
        loaded.set()
        await chat.ready()
        await chat.idle()
        assert "person: one" in chat.said
        assert "person: two" not in chat.said
        assert chat.waiting == ""

    from sinkchat.chat.journal import Journal
    from tests.fakes import FakeTemplate

    engine = FakeEngine()

    def open_slowly(progress: ProgressSink) -> ChatSession:
        progress(Progress("loading the model", 43, 100))
        loaded.wait(15)
        session = ChatSession(engine, FakeTemplate(), Journal.create(Path(journals)), sampling=engine.sampling)
        opened.append(session)
        return session

    import tempfile

    with tempfile.TemporaryDirectory() as journals:
        play(scenario, engine, open_session=open_slowly, wait=False)


def test_a_model_that_cannot_be_loaded_leaves_a_sentence_and_a_box_to_quit_from(play: Play) -> None:
    def fail(_progress: ProgressSink) -> ChatSession:
        raise ModelError("There is no model nowhere; check its name.")

    async def scenario(chat: Chat) -> None:
        await chat.until(lambda: chat.state == "no model")
        assert "There is no model nowhere; check its name." in "\n".join(chat.lines())
        await chat.send("hello")
        assert "no model" in chat.hint
        await chat.send("/quit")
        await chat.until(lambda: not chat.app.is_running)

    play(scenario, open_session=fail, wait=False)


def test_what_waited_for_a_model_that_never_came_goes_back_into_the_box(play: Play) -> None:
    go = threading.Event()

    def fail(_progress: ProgressSink) -> ChatSession:
        go.wait(15)
        raise ModelError("There is no model nowhere; check its name.")

    async def scenario(chat: Chat) -> None:
        await chat.send("a long thought")
        go.set()
        await chat.until(lambda: chat.state == "no model")
        assert chat.screen.prompt.text == "a long thought"
        assert chat.waiting == ""

    play(scenario, open_session=fail, wait=False)


def test_a_click_anywhere_leaves_the_box_ready_to_be_typed_into(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("hello")
        for place in ((5, 5), (115, 20), (30, 35)):
            await chat.pilot.click(offset=place)
            await chat.press("x")
        assert chat.screen.prompt.text == "xxx"

    play(scenario)


def test_the_switch_on_the_panel_takes_the_sinks_away(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("hello")
        await chat.pilot.click("#switch")
        await chat.idle()
        assert chat.session.state().policy == "window"

    play(scenario)


def test_escape_stops_and_the_reply_is_marked(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.send("go")
        await chat.until(lambda: chat.state.startswith("writing"))
        await chat.press("escape")
        await chat.idle()
        assert chat.state == "stopped"
        assert "[stopped after " in chat.said

    play(scenario, FakeEngine(reply=STORY * 50, token_delay=0.002))


def test_continue_goes_on_in_the_same_reply(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.send("go")
        await chat.until(lambda: chat.state.startswith("writing"))
        await chat.press("escape")
        await chat.idle()
        chat.engine.token_delay = 0.0
        await chat.say("/continue")
        assert "stopped after" not in chat.said
        assert f"reply: {STORY * 3}" in chat.said

    play(scenario, FakeEngine(reply=STORY * 3, token_delay=0.01, window=512))


def test_ctrl_c_stops_a_reply_and_leaves_only_when_pressed_twice(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.send("go")
        await chat.until(lambda: chat.state.startswith("writing"))
        await chat.press("ctrl+c")
        await chat.idle()
        assert chat.app.is_running
        assert chat.state == "stopped"
        chat.screen._interrupted_at = -10.0
        await chat.press("ctrl+c")
        assert chat.app.is_running
        assert "again" in chat.hint
        await chat.press("ctrl+c")
        await chat.until(lambda: not chat.app.is_running)

    play(scenario, FakeEngine(reply=STORY * 50, token_delay=0.002))


def test_ctrl_c_copies_what_is_selected_and_stops_nothing(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    async def scenario(chat: Chat) -> None:
        await chat.type("copy me")
        chat.screen.prompt.select_all()
        await chat.press("ctrl+c")
        await chat.until(lambda: chat.hint)
        assert chat.app.clipboard == "copy me"
        assert "7 characters" in chat.hint
        assert chat.app.is_running

    play(scenario)


def test_what_is_sent_while_a_reply_is_written_waits_for_its_end(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.send("first")
        await chat.until(lambda: chat.state.startswith("writing"))
        await chat.send("second")
        assert chat.waiting == "waits: second"
        assert "second" not in chat.said
        chat.engine.token_delay = 0.0
        await chat.idle()
        assert chat.said.index("person: first") < chat.said.index("reply: ") < chat.said.index("person: second")

    play(scenario, FakeEngine(reply=STORY * 5, token_delay=0.01, window=512))


def test_taking_the_sinks_away_interrupts_a_reply_and_the_reply_goes_on_behind_the_notice(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.send("go")
        await chat.until(lambda: chat.session.state().evicted_total > 5)
        await chat.press("f2")
        await chat.until(lambda: "policy window" in chat.said)
        chat.engine.token_delay = 0.0
        await chat.idle()
        passages = [passage for passage in chat.transcript.passages if passage.voice in ("reply", "notice")]
        assert [passage.voice for passage in passages] == ["reply", "notice", "reply"]
        assert passages[0].text + passages[2].text == STORY * 5
        assert "4 entries evicted" in passages[1].text
        assert "stopped" not in chat.said

    play(scenario, FakeEngine(reply=STORY * 5, token_delay=0.003, window=32))


def test_a_switch_that_comes_as_the_reply_ends_does_not_lengthen_it(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("go")
        await chat.press("f2")
        await chat.idle()
        assert "policy window" in chat.said
        assert chat.said.count("reply: ") == 1

    play(scenario)


def test_endless_writes_past_the_end_of_turn_until_escape(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.send("/endless")
        await chat.send("go")
        story = len(STORY.split())
        await chat.until(lambda: chat.screen.readings.reply_tokens > 3 * story)
        await chat.press("escape")
        await chat.idle()
        assert not chat.session.endless
        assert "[stopped after " in chat.said

    play(scenario, FakeEngine(token_delay=0.001))


def test_endless_in_the_middle_of_a_reply_takes_its_end_away(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.send("go")
        await chat.until(lambda: chat.state.startswith("writing"))
        await chat.send("/endless")
        chat.engine.token_delay = 0.0005
        await chat.until(lambda: chat.screen.readings.reply_tokens > 2 * len(STORY.split()))
        await chat.press("escape")
        await chat.idle()
        assert chat.said.count("reply: ") == 1

    play(scenario, FakeEngine(token_delay=0.02))


def test_a_file_is_read_and_shown_as_it_is_read(play: Play, tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text("one two three\nfour [five] six")

    async def scenario(chat: Chat) -> None:
        await chat.say(f"/read {path}")
        assert "file: one two three\nfour [five] six" in chat.said
        assert chat.screen.readings.mean_loss("read").tokens >= 6

    play(scenario)


def test_a_file_that_is_stopped_says_how_much_of_it_was_read(play: Play, tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("word " * 500)

    async def scenario(chat: Chat) -> None:
        await chat.send(f"/read {path}")
        await chat.until(lambda: chat.state.startswith("reading 2"))
        await chat.press("escape")
        await chat.idle()
        assert " tokens read]" in chat.said

    play(scenario, FakeEngine(chunk_delay=0.02))


def test_taking_the_sinks_away_while_a_file_is_read_lets_the_rest_be_read(play: Play, tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    words = [f"word{number}" for number in range(400)]
    path.write_text(" ".join(words))

    async def scenario(chat: Chat) -> None:
        await chat.send(f"/read {path}")
        await chat.until(lambda: chat.session.state().position > 100)
        await chat.press("f2")
        chat.engine.chunk_delay = 0.0
        await chat.until(lambda: "policy window" in chat.said)
        await chat.idle()
        read = " ".join(passage.text for passage in chat.transcript.passages if passage.voice == "file")
        assert read.split() == words

    play(scenario, FakeEngine(chunk_delay=0.01))


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("/polcy sinks", "did you mean /policy?"),
        ("/policy", "/policy needs <sinks|window|full|recompute>"),
        ("/policy sink", "did you mean sinks?"),
        ("/window many", "a whole number"),
        ("/read /nowhere/at/all", "There is no file"),
        ("/read /", "is a folder"),
        ("/theme harbor", "did you mean harbour?"),
        ("/copy", "no reply"),
    ],
)
def test_what_cannot_be_done_is_answered_in_one_sentence_and_stays_in_the_box(
    play: Play, typed: str, answer: str
) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.type(typed)
        await chat.press("escape", "enter")
        assert answer in chat.hint
        assert chat.screen.prompt.text == typed

    play(scenario)


def test_two_slashes_send_one(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("//policy is a word")
        assert "person: /policy is a word" in chat.said

    play(scenario)


def test_the_popup_completes_a_command_and_its_argument(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.type("/pol")
        await chat.press("tab")
        assert chat.screen.prompt.text == "/policy "
        await chat.press("down", "enter")
        await chat.idle()
        assert chat.session.state().policy == "window"

    play(scenario)


def test_a_refused_change_is_said_in_the_transcript(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("hello")
        await chat.say("/sinks 500")
        assert "warning: " in chat.said
        assert "do not fit" in chat.said

    play(scenario)


def test_a_bug_in_the_engine_does_not_end_the_chat(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        chat.engine.raise_after = 12
        await chat.say("first")
        assert "the device is gone" in chat.said
        await chat.say("second")
        assert f"reply: {STORY}" in chat.said

    play(scenario, FakeEngine(window=128))


def test_clear_starts_a_new_sequence_and_everything_above_is_out_of_sight(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("first")
        await chat.say("/clear")
        assert "new sequence" in chat.said
        old = next(passage for passage in chat.transcript.passages if passage.voice == "person")
        assert old.cut(chat.transcript.sight) == len(old.text)
        await chat.say("second")
        new = [passage for passage in chat.transcript.passages if passage.voice == "person"][-1]
        assert new.cut(chat.transcript.sight) == 0
        assert any("horizon · nothing above is in sight" in line for line in chat.lines())

    play(scenario, FakeEngine(window=512), size=(120, 60))


def test_retry_takes_the_reply_back(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("go")
        await chat.say("/retry")
        assert chat.said.count("[taken back]") == 1
        assert chat.said.count("reply: ") == 2

    play(scenario, FakeEngine(window=512))


def test_export_writes_the_conversation(play: Play, tmp_path: Path) -> None:
    target = tmp_path / "chat.md"

    async def scenario(chat: Chat) -> None:
        await chat.say("Who is there?")
        await chat.send(f"/export {target}")
        await chat.until(lambda: "Exported" in chat.hint)
        assert "Who is there?" in target.read_text()
        await chat.send(f"/export {target}")
        await chat.until(lambda: "is there already" in chat.hint)

    play(scenario)


def test_a_large_paste_is_a_placeholder_that_is_sent_in_full(play: Play) -> None:
    text = "line of text\n" * 80_000

    async def scenario(chat: Chat) -> None:
        chat.screen.prompt.post_message(events.Paste(text))
        await chat.until(lambda: chat.screen.prompt.text)
        assert chat.screen.prompt.text == "[pasted: 1,040,000 characters]"
        assert chat.screen.prompt.filled_in() == text

    play(scenario)


def test_a_paste_of_a_few_lines_stays_one_message(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        chat.screen.prompt.post_message(events.Paste("one\r\ntwo\rthree"))
        await chat.until(lambda: chat.screen.prompt.text)
        assert chat.screen.prompt.text == "one\ntwo\nthree"
        await chat.press("enter")
        await chat.idle()
        assert chat.said.count("person: ") == 1

    play(scenario)


def test_history_comes_back_with_up_and_is_kept_for_the_next_chat(play: Play) -> None:
    async def first(chat: Chat) -> None:
        await chat.say("one")
        await chat.say("two\nlines")

    async def second(chat: Chat) -> None:
        await chat.press("up")
        assert chat.screen.prompt.text == "two\nlines"
        await chat.press("up", "up")
        assert chat.screen.prompt.text == "one"
        await chat.press("down")
        assert chat.screen.prompt.text == "two\nlines"
        await chat.press("down")
        assert chat.screen.prompt.text == ""

    play(first)
    play(second)


def test_leaving_waits_neither_for_a_load_nor_for_a_token(play: Play) -> None:
    stuck = threading.Event()

    def hang(_progress: ProgressSink) -> ChatSession:
        stuck.wait(60)
        raise ModelError("never mind")

    async def scenario(chat: Chat) -> None:
        await chat.press("ctrl+q")
        await chat.until(lambda: not chat.app.is_running)
        assert not chat.screen.engine.stop(0.01)
        stuck.set()

    play(scenario, open_session=hang, wait=False)


def test_keys_do_their_work_in_the_order_in_which_they_are_pressed(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        for key in ("a", "b", "c", "left", "left", "X", "home", "Y", "end", "Z", "backspace", "enter"):
            chat.app.simulate_key(key)
        await chat.until(lambda: "person: " in chat.said)
        assert "person: YaXbc" in chat.said

    play(scenario)


def test_a_hint_stays_until_something_else_is_in_the_box(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        for key in ("slash", "x", "y", "z"):
            chat.app.simulate_key({"slash": "/"}.get(key, key))
        chat.app.simulate_key("enter")
        await chat.until(lambda: "no command /xyz" in chat.hint)
        await chat.pilot.pause(0.05)
        assert "no command /xyz" in chat.hint
        await chat.press("a")
        assert chat.hint == ""

    play(scenario)


def test_going_on_with_a_text_that_was_cut_short_is_reading_and_not_writing(play: Play, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("The sea came up the steps. " * 100)

    async def scenario(chat: Chat) -> None:
        await chat.send(f"/read {tmp_path / 'book.txt'}")
        await chat.until(lambda: chat.screen.runs.progress.done)
        await chat.press("escape")
        await chat.idle()
        await chat.send("/continue")
        await chat.until(lambda: chat.state.startswith("reading"))
        await chat.until(lambda: chat.screen.runs.progress.done)
        # A change of the cache does not wait for the end of a long text, which is read on behind it.
        await chat.send("/policy window")
        await chat.until(lambda: chat.session.state().policy == "window")
        (message,) = [message for message in chat.session.conversation.messages if message.role == "file"]
        assert message.cut_short or message.ended is None
        await chat.idle()
        assert not message.cut_short

    play(scenario, FakeEngine(window=4096, chunk=4, chunk_delay=0.02))


def test_what_is_said_while_the_screen_is_left_finds_no_screen_and_harms_nothing(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.say("hello")
        await chat.app._shutdown()
        chat.screen._look()

    play(scenario)
