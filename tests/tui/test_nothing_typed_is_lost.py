"""Whatever is typed and however fast: it is sent, or it is still in the box."""

from __future__ import annotations

import pytest
from textual import events

from sinkchat.chat.session import ChatSession
from sinkchat.errors import ModelError
from sinkchat.models.progress import ProgressSink
from sinkchat.tui import orders
from sinkchat.tui.commands import named
from sinkchat.tui.screens.chat import ChatScreen
from tests.fakes import FakeEngine
from tests.tui.conftest import Chat, Play


def typed_at_once(chat: Chat, text: str) -> None:
    """As from a person, or a program, that does not wait for the screen."""
    for letter in text:
        chat.app.simulate_key("enter" if letter == "\n" else "space" if letter == " " else letter)


async def paste(chat: Chat, text: str) -> None:
    chat.screen.prompt.post_message(events.Paste(text))
    await chat.pilot.pause(0.02)


def asked(chat: Chat) -> list[str | None]:
    return [message.words for message in chat.session.conversation.messages if message.role == "user"]


def test_keys_right_behind_enter_are_the_next_message(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        typed_at_once(chat, "one\ntwo\nthree")
        await chat.until(lambda: len(asked(chat)) == 2)
        await chat.idle()
        assert asked(chat) == ["one", "two"]
        assert chat.screen.prompt.text == "three"

    play(scenario)


def test_a_refused_text_comes_back_before_what_was_typed_meanwhile(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await paste(chat, "x" * 9000)
        chat.screen.prompt._put(f"/windw {chat.screen.prompt.text}")
        await chat.pilot.pause(0.02)
        typed_at_once(chat, "\nmore")
        await chat.until(lambda: "There is no command" in chat.hint)
        box = chat.screen.prompt
        assert box.text == "/windw [pasted: 9,000 characters]\nmore"
        assert box.filled_in() == f"/windw {'x' * 9000}\nmore"

    play(scenario)


def test_up_and_then_letters_keep_both(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await chat.send("first")
        await chat.send("waiting")
        assert "waiting" in chat.waiting
        chat.app.simulate_key("up")
        typed_at_once(chat, "new")
        await chat.until(lambda: chat.waiting == "")
        await chat.pilot.pause(0.05)
        # Whichever came first: nothing is gone.
        assert sorted(chat.screen.prompt.text.replace("\n", "")) == sorted("waitingnew")

    play(scenario, FakeEngine(reply="word " * 200, token_delay=0.02))


def test_a_command_from_the_palette_leaves_the_draft(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        await paste(chat, "y" * 9000)
        for name in ("panel", "policy"):
            command = named(name)
            assert command is not None
            chat.screen.pick(command)
            await chat.pilot.pause(0.02)
        assert chat.screen.prompt.text == "/policy "
        typed_at_once(chat, "full\n")
        await chat.until(lambda: chat.session.state().policy == "full")
        assert chat.screen.prompt.filled_in() == "y" * 9000

    play(scenario)


def test_what_waits_for_a_model_that_cannot_be_loaded_comes_back(play: Play) -> None:
    screens: list[ChatScreen] = []

    def open_session(_progress: ProgressSink) -> ChatSession:
        while not (screens and len(screens[0].runs.waiting) == 2):
            pass
        raise ModelError("There is no such model.")

    async def scenario(chat: Chat) -> None:
        screens.append(chat.screen)
        typed_at_once(chat, "one\ntwo\nthree")
        await chat.until(lambda: chat.screen.runs.phase == "failed")
        await chat.until(lambda: chat.screen.prompt.text == "one\ntwo\nthree")

    play(scenario, open_session=open_session, wait=False)


def test_the_history_is_walked_past_commands(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        for text in ("hello", "/panel", "/stop"):
            await chat.say(text)
        shown = []
        for _ in range(3):
            await chat.press("up")
            await chat.pilot.pause(0.02)
            shown.append(chat.screen.prompt.text)
        assert shown == ["/stop", "/panel", "hello"]

    play(scenario)


def test_escapes_from_the_history_stand_behind_a_placeholder_and_are_sent_as_they_were(play: Play) -> None:
    async def scenario(chat: Chat) -> None:
        chat.screen._history.add("red \x1b[31m")
        await chat.press("up")
        assert "\x1b" not in chat.screen.prompt.text
        await chat.press("enter")
        await chat.idle()
        assert asked(chat) == ["red \x1b[31m"]

    play(scenario)


def test_a_command_that_fails_unexpectedly_is_told_and_does_not_end_the_chat(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise ValueError("never thought of")

    monkeypatch.setattr(orders, "read_text", fail)
    monkeypatch.setattr(orders, "export", fail)

    async def scenario(chat: Chat) -> None:
        await chat.send("/read it")
        await chat.until(lambda: "never thought of" in chat.hint)
        assert chat.screen.prompt.text == "/read it"
        await chat.send("/export it")
        await chat.until(lambda: "Could not do that: never thought of; the log" in chat.hint)
        await chat.say("Are you there?")
        assert "person: Are you there?" in chat.said

    play(scenario)
