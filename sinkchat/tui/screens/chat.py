"""The chat: puts the parts on the screen, and passes on what they say to each other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from sinkchat import locations
from sinkchat.errors import SinkchatError, UsageError
from sinkchat.models.progress import Progress
from sinkchat.tui import clipboard, commands, editor, engine_thread, runs
from sinkchat.tui.commands import Command
from sinkchat.tui.engine_thread import sentence
from sinkchat.tui.history import History, Recall
from sinkchat.tui.orders import Orders
from sinkchat.tui.readings import Readings
from sinkchat.tui.runs import Runs
from sinkchat.tui.screens.help import HelpScreen
from sinkchat.tui.screens.listening import ListeningScreen
from sinkchat.tui.scribe import Scribe
from sinkchat.tui.state_words import status
from sinkchat.tui.widgets.command_popup import CommandPopup
from sinkchat.tui.widgets.hint import Hint
from sinkchat.tui.widgets.panel import PANEL_NEEDS, Panel
from sinkchat.tui.widgets.prompt import Prompt
from sinkchat.tui.widgets.status_line import StatusLine
from sinkchat.tui.widgets.transcript import Transcript
from sinkchat.tui.widgets.waiting import Waiting
from sinkchat.tui.widgets.welcome import Welcome

if TYPE_CHECKING:
    from sinkchat.tui.app import SinkchatApp

STATUS_EVERY = 0.2
"""Seconds between two figures in the status line while the same goes on."""
QUIET_AFTER_KEY = 0.5
"""Seconds after a key in which the panel keeps still."""
TWICE = 1.0
"""Seconds within which a second Ctrl+C leaves."""


class ChatScreen(ListeningScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "Copy or stop", show=False, priority=True),
        Binding("escape", "stop", "Stop", show=False, priority=True),
        Binding("f1", "help", "Help", show=False),
        Binding("f2,ctrl+s", "toggle_sinks", "Sinks on or off", show=False, priority=True),
        Binding("f3", "toggle_panel", "Panel", show=False),
        Binding("f4", "toggle_thinking", "Thinking", show=False),
        Binding("ctrl+g", "edit", "Write in the editor", show=False, priority=True),
        Binding("ctrl+end", "newest", "Newest line", show=False, priority=True),
    ]

    def __init__(
        self, open_session: engine_thread.OpenSession, *, send_key: str, themes: list[str], trouble: str
    ) -> None:
        """`trouble` is what is said from the start, if anything."""
        super().__init__(open_session)
        self._trouble = trouble
        self.runs = Runs(self.engine)
        self.readings = Readings()
        self._orders = Orders(self, self.runs)
        self._history = History(locations.history_file())
        self._send_key, self._themes = send_key, themes
        self._opening: Progress | None = None
        self._hinted_at = ""
        """What was in the box when the hint was given: it stays until something else is."""
        self._next_status = 0.0
        self._shown_doing: tuple[runs.Phase, bool] | None = None
        self._interrupted_at = -TWICE

    @property
    def chat_app(self) -> SinkchatApp:
        return self.app  # type: ignore[return-value]

    def compose(self) -> ComposeResult:
        popup = CommandPopup(id="popup")
        with Horizontal(id="body"):
            with Vertical(id="chat"):
                yield Welcome(id="welcome")
                yield Transcript(id="transcript")
                yield popup
                yield Waiting(id="waiting")
                yield Hint(id="hint")
                yield Prompt(
                    popup, Recall(self._history.entries), send_key=self._send_key, themes=self._themes, id="prompt"
                )
            yield Panel(key="F2", id="panel")
        yield StatusLine(id="status")

    def on_mount(self) -> None:
        self.transcript = self.query_one(Transcript)
        self.transcript.display = False
        self.prompt = self.query_one(Prompt)
        self.panel = self.query_one(Panel)
        self.scribe = Scribe(self.transcript)
        self.prompt.placeholder = "Write a message, or / for commands"
        self.prompt.focus()
        self.hint(self._trouble, error=True)
        # The first picture comes before anything is loaded.
        self.call_after_refresh(self.engine.start)

    # -- what the engine says

    def show_all(self) -> None:
        self._write_down()
        if self.runs.busy:
            self.panel.offer(self.readings, self._quiet_until)
        else:  # the last word on a run is not a moment behind the status line
            self.panel.show(self.readings)

    def _quiet_until(self) -> float:
        return self.prompt.typed_at + QUIET_AFTER_KEY if self.runs.busy else 0.0

    def take(self, said: engine_thread.Said) -> None:
        if isinstance(said, engine_thread.Opening):
            self._opening = said.progress
            self.query_one(Welcome).opening(said.progress)
        elif isinstance(said, engine_thread.Opened):
            self.readings.opened(said.session.facts, said.session.state())
            self.query_one(Welcome).ready(said.session.facts, said.session.state())
        elif isinstance(said, engine_thread.OpenFailed):
            self.query_one(Welcome).failed(said.error)
            for work in reversed(self.runs.waiting):
                self.prompt.give_back(self.prompt.draft_of(work.text))
        elif isinstance(said, engine_thread.Measured):
            self.readings.memory = said.memory
        elif isinstance(said, engine_thread.Began) and said.job.kind in runs.WRITES:
            self.readings.reply_begins(goes_on=said.job.kind == "go on")
        elif isinstance(said, engine_thread.Happened):
            self.readings.take(said.event, said.at)
        elif isinstance(said, engine_thread.Ended) and said.error:
            self.scribe.notice(said.error, warning=True)
        self.runs.take(said)

    def _write_down(self) -> None:
        session = self.runs.session
        if session is not None:
            self.scribe.switching = self.runs.switching
            self.scribe.write(session.conversation)
            if session.warning:
                self.hint(session.warning, error=True)
        if self.readings.cache is not None:
            self.scribe.look(self.readings.cache)
        if self.transcript.passages and not self.transcript.display:
            self.query_one(Welcome).display = False
            self.transcript.display = True
        self.transcript.settle()
        self.query_one(Waiting).show([work.label for work in self.runs.waiting])
        self._show_status()

    def _show_status(self) -> None:
        """At once if something else goes on now, otherwise a few times a second."""
        now, doing = time.monotonic(), (self.runs.phase, self.runs.again is not None)
        if now < self._next_status and doing == self._shown_doing and self.runs.busy:
            return
        self._next_status, self._shown_doing = now + STATUS_EVERY, doing
        session = self.runs.session
        line = status(
            self.runs,
            self.readings,
            opening=self._opening,
            panel=self.panel.display,
            lines_below=0 if self.transcript.following else self.transcript.lines_below,
            endless=session is not None and session.endless,
        )
        self.query_one(StatusLine).show(line)

    # -- the panel

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < PANEL_NEEDS[1], "-short")
        self.panel.place(event.size)
        self.call_after_refresh(self._panel_placed)

    def _panel_placed(self) -> None:
        self.panel.show(self.readings)
        self._show_status()

    # -- what the person does

    def on_prompt_sent(self, event: Prompt.Sent) -> None:
        self.query_one(Hint).clear()
        self._history.add(event.text)
        if self._history.trouble:
            self.hint(self._history.trouble, error=True)
        try:
            if commands.is_command(event.text):
                self._orders.do(commands.parse(event.text))
            elif self.runs.phase == "failed":
                raise UsageError("There is no model to answer; /quit leaves.")
            else:
                self.runs.submit(runs.say(commands.literal(event.text)))
        except Exception as error:  # noqa: BLE001 -- a command that fails must not end the chat
            if event.draft is not None:
                self.prompt.give_back(event.draft)
            self.hint(sentence(error, "do that"), error=True)
            return
        self.transcript.follow()
        self._write_down()

    def on_mouse_up(self) -> None:
        # Whatever was clicked, what is typed next goes into the box.
        if self.focused is None:
            self.prompt.focus()

    def on_prompt_typed(self) -> None:
        if self.prompt.text != self._hinted_at:
            self.query_one(Hint).clear()

    def on_prompt_scrolled(self, event: Prompt.Scrolled) -> None:
        self.transcript.page(event.pages)

    def on_prompt_took_back(self) -> None:
        text = self.runs.take_back()
        if text is None:
            self.prompt.recall_older()
        else:
            self.prompt.give_back(self.prompt.draft_of(text))
            self._write_down()

    def on_prompt_left(self) -> None:
        if not self.runs.busy:
            self.leave()

    def on_command_popup_picked(self, event: CommandPopup.Picked) -> None:
        self.prompt.accept(event.suggestion)
        self.prompt.focus()

    def on_sink_switch_flipped(self) -> None:
        self.action_toggle_sinks()

    def on_transcript_followed(self) -> None:
        self._show_status()

    def pick(self, command: Command) -> None:
        """A command was chosen from a list: do it, or ask for what it needs."""
        if command.needs_argument:
            self.prompt.ask(f"/{command.name} ")
        else:
            self.on_prompt_sent(Prompt.Sent(f"/{command.name}"))

    def action_stop(self) -> None:
        popup = self.query_one(CommandPopup)
        if popup.display:
            popup.hide()
        else:
            self.query_one(Hint).clear()
            self.runs.stop()
            self._write_down()

    def action_interrupt(self) -> None:
        selected = self.prompt.selected_text or self.get_selected_text()
        if selected:
            self.copy_text(selected)
            self.clear_selection()
            return
        now = time.monotonic()
        if now - self._interrupted_at < TWICE:
            self.leave()
            return
        self._interrupted_at = now
        if self.runs.stop():
            self._write_down()
        else:
            self.hint("Press Ctrl+C again to leave.")

    def action_toggle_sinks(self) -> None:
        self.query_one(Hint).clear()
        try:
            self._orders.toggle_sinks()
        except SinkchatError as error:
            self.hint(str(error), error=True)

    def action_newest(self) -> None:
        self.transcript.follow()

    def action_help(self) -> None:
        self.show_help()

    def action_toggle_panel(self) -> None:
        self.toggle_panel()

    def action_toggle_thinking(self) -> None:
        self.toggle_thinking()

    def action_edit(self) -> None:
        try:
            with self.app.suspend():
                text = editor.edit(self.prompt.filled_in(), self.chat_app.terminal)
        except UsageError as error:
            self.hint(str(error), error=True)
            return
        self.prompt.set_text(text)

    # -- what the orders need

    def hint(self, text: str, *, error: bool = False) -> None:
        self._hinted_at = self.prompt.text
        self.query_one(Hint).say(text, error=error)

    def show_help(self) -> None:
        self.app.push_screen(HelpScreen())

    def toggle_panel(self) -> None:
        if self.panel.toggle(self.size):
            self.call_after_refresh(self._panel_placed)
        else:
            self.hint(f"The panel needs {PANEL_NEEDS[0]} columns and {PANEL_NEEDS[1]} rows.")

    def toggle_thinking(self) -> None:
        self.transcript.fold_thinking(not self.transcript.folds_thinking)
        shown = "folded" if self.transcript.folds_thinking else "shown"
        self.hint(f"What the model thinks before it answers is {shown}.")

    def choose_theme(self, name: str) -> None:
        self.chat_app.choose_theme(name)

    def leave(self) -> None:
        self.app.exit()

    def copy_text(self, text: str) -> None:
        self.aside(lambda: clipboard.copy(text, self.app.copy_to_clipboard))

    def aside(self, do: Callable[[], str]) -> None:
        async def run() -> None:
            try:
                self.hint(await asyncio.to_thread(do))
            except Exception as error:  # noqa: BLE001 -- what fails beside the chat must not end it
                self.hint(sentence(error, "do that"), error=True)

        self.run_worker(run())
