"""What is to be done in a moment is done, however short the moment is and whatever runs in between."""

from __future__ import annotations

import time

import pytest

from sinkchat.tui.later import after
from tests.tui.conftest import Chat, Play


@pytest.mark.parametrize("seconds", [1e-9, 1e-6, 1e-3])
def test_a_moment_that_is_over_before_it_began_is_not_missed(play: Play, seconds: float) -> None:
    async def scenario(chat: Chat) -> None:
        done: list[int] = []
        for number in range(50):
            after(seconds, chat.screen, lambda number=number: done.append(number))
        await chat.until(lambda: len(done) == 50)
        assert sorted(done) == list(range(50))

    play(scenario)


def test_the_screen_goes_on_listening_when_its_next_look_is_due_at_once(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(chat: Chat) -> None:
        # The next look is always a hair away: the wait for it is over when it begins.
        monkeypatch.setattr(
            type(chat.screen),
            "_next_look",
            property(lambda _screen: time.monotonic() + 1e-6, lambda _screen, _value: None),
            raising=False,
        )
        await chat.say("hello")
        assert "began again" in chat.said

    play(scenario)
