"""The switch that takes the sinks away and brings them back."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from sinkchat.cache.policy import Policy


class SinkSwitch(Static):
    """On under `sinks`, off under `window`, half-way under `recompute`; under `full` there is nothing to switch."""

    class Flipped(Message):
        """Somebody clicked."""

    def __init__(self, *, key: str, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._key = key
        self._policy: Policy | None = None

    def show(self, policy: Policy) -> None:
        if policy != self._policy:
            self._policy = policy
            self.refresh()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Flipped())

    def render(self) -> Content:
        knob, color, words = {
            "sinks": ("━━█", "$sink", "sinks kept"),
            "window": ("█━━", "$horizon", "sinks taken away"),
            "full": ("━━━", "$muted", "everything kept"),
            "recompute": ("━█━", "$recent", "older half leaves"),
            None: ("━━━", "$muted", "sinks"),
        }[self._policy]
        gap = " " * max(1, self.size.width - len(knob) - 2 - len(words) - len(self._key))
        return Content.assemble((knob, color), "  ", (words, "$foreground"), gap, (self._key, "$muted"))
