"""Commands, keys, and what the words on the screen mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from sinkchat.tui.commands import COMMANDS

KEYS: tuple[tuple[str, str], ...] = (
    ("Enter", 'send; with `send_key = "ctrl+j"` in the settings, a new line'),
    ("Ctrl+J, Alt+Enter", "a new line"),
    ("Esc", "stop reading or writing"),
    ("Ctrl+C", "copy what is selected, or stop; twice within a second, leave"),
    ("F2, Ctrl+S", "take the sinks away, or bring them back; from any other policy, to sinks"),
    ("F3", "show or hide the panel"),
    ("F4", "show or fold all thinking; a click on its line does so for one"),
    ("Page Up, Page Down", "scroll; Ctrl+End goes to the newest line"),
    ("Up, Down", "at the edges of the box: what was sent before, or what waits"),
    ("Ctrl+G", "write in $EDITOR"),
    ("Ctrl+P", "all commands"),
    ("Tab", "complete a command"),
    ("Ctrl+Q", "leave"),
)

WORDS: tuple[tuple[str, str], ...] = (
    ("window", "The most entries the cache may hold, sinks included. It never holds more."),
    (
        "sinks",
        "The first tokens of the sequence, kept for good. They are no memory: they hold attention that has to "
        "go somewhere.",
    ),
    ("recent", "The newest tokens. When one comes, the oldest leaves."),
    (
        "recompute",
        "The policy of most chat programs. When the window is full the older half of the recent tokens leaves at "
        "once, and the newer half runs through the model again; the sinks stay.",
    ),
    ("horizon", "The oldest token that the model can still see. What is above it is dimmed: it is gone."),
    (
        "evicted",
        "Entries that left, and the end of what they said. Sinks that come back are re-admitted.",
    ),
    (
        "sink share",
        "How much of all attention lands on the sinks, mean over the heads. Without sinks: on as many of the oldest "
        "entries.",
    ),
    ("strongest", "The head that gives the sinks most. Below it: the entry besides them that takes most."),
    (
        "loss",
        "How surprised the model is by the next token, in nats. Perplexity (ppl) is e to the mean loss. Compare "
        "it on text that the model reads: its own writing tells little.",
    ),
)


class HelpScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,f1,q,enter", "dismiss", "Close", show=False)]

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help"):
            for title, rows in (("keys", KEYS), ("words", WORDS), ("commands", _commands())):
                yield Static(title, classes="title", markup=False)
                for name, help_ in rows:
                    with Horizontal():
                        yield Static(name, classes="name", markup=False)
                        yield Static(help_, classes="help", markup=False)

    def on_mount(self) -> None:
        page = self.query_one("#help", VerticalScroll)
        page.border_subtitle = "Up and Down scroll, Esc closes"
        page.focus()


def _commands() -> Sequence[tuple[str, str]]:
    rows = []
    for command in COMMANDS:
        names = "".join(f" or /{alias}" for alias in command.aliases)
        key = f" ({command.key})" if command.key else ""
        rows.append((f"/{command.name} {command.hint}".rstrip(), f"{command.help}{key}{names and ';' + names}"))
    rows.append(("//text", "A message that starts with a slash"))
    return rows
