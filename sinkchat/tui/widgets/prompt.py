"""The box where one writes: it sends, remembers, completes commands and takes large pastes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import Keys
from textual.message import Message
from textual.widgets import TextArea

from sinkchat.chat.printable import visible
from sinkchat.tui.history import Recall
from sinkchat.tui.suggestions import Suggestion, suggest
from sinkchat.tui.widgets.command_popup import CommandPopup

LARGE_PASTE = 8000
"""Characters of a paste that is shown as a placeholder, so that the box stays quick."""
LARGE_LINES = 60

# Most terminals send Alt+Enter as ESC CR, which Textual would take for Enter: a message would be sent by the key
# that is meant to make a new line. F24 stands for it; no keyboard has one.
_ALT_ENTER = "f24"
ANSI_SEQUENCES_KEYS["\x1b\r"] = (Keys.F24,)  # type: ignore[index]

_NEW_LINE = ("ctrl+j", "alt+enter", "shift+enter", _ALT_ENTER)


@dataclass(frozen=True, slots=True)
class Draft:
    """What stood in the box, and the pastes behind its placeholders."""

    text: str
    pastes: dict[str, str]

    def filled_in(self) -> str:
        """The text with the pastes in place of their placeholders."""
        if not self.pastes:
            return self.text
        # In one pass, since what was pasted may read like a placeholder.
        return re.sub("|".join(map(re.escape, self.pastes)), lambda found: self.pastes[found[0]], self.text)


class Prompt(TextArea):
    class Sent(Message):
        """Somebody sent what was in the box, which is empty now; placeholders are filled in."""

        def __init__(self, text: str, draft: Draft | None = None) -> None:
            self.text = text
            self.draft = draft
            """For `give_back`, where the text is refused; None if it was not in the box."""
            super().__init__()

    class Scrolled(Message):
        """Somebody wants to see another page of the transcript."""

        def __init__(self, pages: float) -> None:
            self.pages = pages
            super().__init__()

    class TookBack(Message):
        """Up in an empty box: the latest message that is waiting, or the history."""

    class Typed(Message):
        """There is something new in the box."""

    class Left(Message):
        """Ctrl+D in an empty box."""

    def __init__(
        self, popup: CommandPopup, recall: Recall, *, send_key: str, themes: Sequence[str], id: str | None = None
    ) -> None:
        super().__init__(
            id=id,
            soft_wrap=True,
            show_line_numbers=False,
            tab_behavior="focus",
            highlight_cursor_line=False,
            compact=True,
        )
        self.cursor_blink = False  # nothing on the screen moves by itself
        self.typed_at = 0.0
        """Seconds of `time.monotonic` at the latest key."""
        self._popup = popup
        self._recall = recall
        self._theme_names = themes
        self._send_key = send_key
        self._suggested = ""
        self._pastes: dict[str, str] = {}
        self._pasted = 0  # placeholders that were made so far: no two are the same
        self._aside: Draft | None = None
        self._recalled = ""

    def set_text(self, text: str) -> None:
        """Replaces what is in the box; the cursor goes to its end. Large or strange text stands behind a
        placeholder."""
        if _large(text):
            # What is behind a placeholder holds none itself.
            draft = self.draft_of(Draft(text, self._pastes).filled_in())
            self._pastes.update(draft.pastes)
            text = draft.text
        self._put(text)

    def _put(self, text: str) -> None:
        self.text = text
        self.move_cursor(self.document.end)

    def filled_in(self) -> str:
        """The text with the pastes in place of their placeholders."""
        return self._draft().filled_in()

    def _draft(self) -> Draft:
        return Draft(self.text, dict(self._pastes))

    async def _on_key(self, event: events.Key) -> None:
        self.typed_at = time.monotonic()
        action = self._action(event.key)
        if action is None and (event.is_printable or event.key not in self._bindings.key_to_bindings):
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        if action is not None:
            action()
            return
        # A text box's own keys would take a longer way than letters do, and be overtaken by them.
        for binding in self._bindings.get_bindings_for_key(event.key):
            await self.run_action(binding.action)

    def _action(self, key: str) -> Callable[[], object] | None:
        """What a key does here that it does not do in any other text box."""
        popup = self._popup
        if popup.selected is not None:
            if key in ("up", "down"):
                return lambda: popup.move(1 if key == "down" else -1)
            if key == "tab":
                return self._complete
            if key == "enter":
                return self._complete_and_send
        if key == self._send_key:
            return self._send
        if key in _NEW_LINE or key == "enter":
            return lambda: self.insert("\n")
        if key in ("pageup", "pagedown"):
            return lambda: self.post_message(self.Scrolled(1 if key == "pagedown" else -1))
        if key == "up" and self._cursor_line() == 0:
            return self._older
        if key == "down" and self._cursor_line() == self.wrapped_document.height - 1:
            return self._newer
        if key == "ctrl+d" and not self.text:
            return lambda: self.post_message(self.Left())
        return None

    def _cursor_line(self) -> int:
        """The line of the box that the cursor is in, wrapped ones counted."""
        return self.wrapped_document.location_to_offset(self.cursor_location).y

    # -- sending

    def _send(self) -> None:
        draft = self._draft()
        text = draft.filled_in().strip("\n")
        if not text.strip():
            return
        # At once: what is typed from now on is the next message, however late this one is taken.
        self.empty()
        self.post_message(self.Sent(text, draft))

    def empty(self) -> None:
        """What was in the box is sent; what was put aside for it comes back."""
        self._popup.hide()
        self._pastes.clear()
        self.set_text("")
        self._recall.leave()
        if self._aside is not None:
            aside, self._aside = self._aside, None
            self.give_back(aside)

    def give_back(self, draft: Draft) -> None:
        """Put a text that was sent, or waits, into the box again, before what was typed meanwhile."""
        typed = self.text
        self._pastes.update(draft.pastes)
        self._put(f"{draft.text}\n{typed}" if typed else draft.text)
        self._as_recalled()

    def draft_of(self, text: str) -> Draft:
        """A text as it is shown in the box: one that is too large stands behind a placeholder."""
        if not _large(text):
            return Draft(text, {})
        placeholder = self._placeholder(text)
        return Draft(placeholder, {placeholder: text})

    def ask(self, text: str) -> None:
        """Begin a command, to be completed by hand; what is in the box now comes back when it is sent."""
        if self.text:
            self._aside = self._draft()
        self.set_text(text)
        self.suggest()
        self.focus()

    # -- commands

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        if self.text != self._recalled:
            self._recall.leave()
            self._recalled = ""
        if self.text:
            self.post_message(self.Typed())
        self.suggest()

    def suggest(self) -> None:
        self._suggested = self.text
        if self.text == self._recalled:
            self._popup.hide()  # Up and Down go on through the history
            return
        at_end = self.cursor_location == self.document.end
        self._popup.show(suggest(self.text, self._theme_names) if at_end and len(self.text) < 500 else ())

    def _catch_up(self) -> None:
        """Keys can come faster than the popup follows: it must not complete what is no longer there."""
        if self._suggested != self.text:
            self.suggest()

    def accept(self, suggestion: Suggestion) -> None:
        self.set_text(suggestion.insert)
        self.suggest()

    def _complete(self) -> None:
        self._catch_up()
        if (suggestion := self._popup.selected) is not None:
            self.accept(suggestion)

    def _complete_and_send(self) -> None:
        self._catch_up()
        suggestion = self._popup.selected
        if suggestion is None:
            self._send()
            return
        if suggestion.insert.strip() != self.text.strip():
            self.accept(suggestion)
        if suggestion.runs:
            self._send()

    # -- history

    def _older(self) -> None:
        if not self.text:
            self.post_message(self.TookBack())
        else:
            self.recall_older()

    def recall_older(self) -> None:
        self._show_recalled(self._recall.older(self.text))

    def _newer(self) -> None:
        self._show_recalled(self._recall.newer())

    def _show_recalled(self, entry: str | None) -> None:
        if entry is not None:
            self.set_text(entry)
            self._as_recalled()

    def _as_recalled(self) -> None:
        """Nobody has typed this now: nothing is suggested for it."""
        self._recalled = self.text
        self._popup.hide()

    # -- pasting

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.typed_at = time.monotonic()
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        draft = self.draft_of(text)
        self._pastes.update(draft.pastes)
        self.replace(draft.text, *self.selection)

    def _placeholder(self, text: str) -> str:
        what = ", control characters among them" if visible(text) != text else ""
        self._pasted += 1
        number = f" {self._pasted}" if self._pasted > 1 else ""
        return f"[pasted{number}: {len(text):,} characters{what}]"


def _large(text: str) -> bool:
    """Whether a text would make the box slow, or the terminal do things."""
    return len(text) > LARGE_PASTE or text.count("\n") > LARGE_LINES or visible(text) != text
