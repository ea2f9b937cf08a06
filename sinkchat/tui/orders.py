"""What each command does. The methods are named as the table of commands names them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, get_args

from sinkchat.cache.policy import Policy, Positions
from sinkchat.chat.export import FORMATS, export
from sinkchat.chat.session import ChatSession
from sinkchat.errors import UsageError
from sinkchat.settings import did_you_mean
from sinkchat.tui import runs
from sinkchat.tui.commands import Asked
from sinkchat.tui.figures import plural
from sinkchat.tui.runs import Runs, Work
from sinkchat.tui.textfile import read_text


class Stage(Protocol):
    """What the orders need of the screen."""

    def hint(self, text: str, *, error: bool = False) -> None: ...

    def show_help(self) -> None: ...

    def toggle_panel(self) -> None: ...

    def toggle_thinking(self) -> None: ...

    def choose_theme(self, name: str) -> None: ...

    def leave(self) -> None: ...

    def copy_text(self, text: str) -> None: ...

    def aside(self, do: Callable[[], str]) -> None:
        """Do something that takes a moment, and show the sentence that it returns."""
        ...


class Orders:
    def __init__(self, stage: Stage, work: Runs) -> None:
        self._stage = stage
        self._runs = work

    def do(self, asked: Asked) -> None:
        """Raises `UsageError` for an argument that cannot be."""
        order: Callable[[str], None] = getattr(self, asked.command.order)
        order(asked.argument)

    # -- the cache

    def policy(self, argument: str) -> None:
        policy = _one_of(argument, get_args(Policy), "policy")
        self._change(f"/policy {policy}", policy=policy)

    def positions(self, argument: str) -> None:
        positions = _one_of(argument, get_args(Positions), "way to place a query")
        self._change(f"/positions {positions}", positions=positions)

    def window(self, argument: str) -> None:
        self._change(f"/window {argument}", window=_number(argument, "window", least=1))

    def sinks(self, argument: str) -> None:
        self._change(f"/sinks {argument}", sinks=_number(argument, "sinks", least=0))

    def toggle_sinks(self) -> None:
        """Take the sinks away, or bring them back; from `full` and `recompute` it leads to `sinks`."""
        session = self._ready()
        self.policy("window" if session.state().policy == "sinks" else "sinks")

    def rebuild(self, _argument: str) -> None:
        self._ready()
        self._runs.interrupt(Work("change", lambda session: session.rebuild(), "/rebuild"))

    def _change(self, label: str, **change: object) -> None:
        self._runs.interrupt(
            Work("change", lambda session: session.change(**change), label)  # type: ignore[arg-type]
        )

    # -- turns

    def endless(self, _argument: str) -> None:
        session = self._ready()
        if self._runs.writes:
            session.endless = True
            self._runs.interrupt(Work("change", runs.nothing, "/endless"))
            self._stage.hint("Endless: it writes past every end of turn, until Esc.")
        elif session.endless:
            session.endless = False
            self._stage.hint("Replies end again.")
        else:
            session.endless = True
            if session.conversation.messages and session.conversation.messages[-1].role == "assistant":
                self._runs.submit(runs.go_on())
            self._stage.hint("Endless: the reply does not end until Esc.")

    def read(self, argument: str) -> None:
        text, path = read_text(argument)
        self._runs.submit(runs.read(text, path.name))

    def go_on(self, _argument: str) -> None:
        self._ready()
        self._runs.submit(runs.go_on())

    def retry(self, _argument: str) -> None:
        self._ready()
        self._runs.submit(runs.retry())

    def stop(self, _argument: str) -> None:
        if not self._runs.stop():
            self._stage.hint("Nothing is being read or written.")

    def system(self, argument: str) -> None:
        if argument:
            self._runs.replace(Work("clear", lambda session: session.clear(system=argument), "/system"))
            return
        prompt = self._ready().system
        self._stage.hint(f"The system prompt is: {prompt}" if prompt else "There is no system prompt of yours.")

    def clear(self, _argument: str) -> None:
        self._ready()
        self._runs.replace(Work("clear", lambda session: session.clear(), "/clear"))

    # -- taking things with you

    def copy(self, argument: str) -> None:
        reply = last_reply(self._ready())
        if argument and argument != "code":
            raise UsageError(
                f"/copy copies the last reply, or with `code` its last code block, but not {argument!r}."
            )
        text = last_code(reply) if argument == "code" else reply
        if not text:
            raise UsageError("There is no code block to copy." if argument else "There is no reply to copy yet.")
        self._stage.copy_text(text)

    def export(self, argument: str) -> None:
        conversation = self._ready().conversation
        words = argument.split()
        format = words.pop() if words and words[-1] in FORMATS else None
        path = " ".join(words) or None

        def write() -> str:
            target = export(conversation, path, format)  # type: ignore[arg-type]
            return f"Exported {plural(len(conversation.messages), 'message')} to {_short(target)}."

        self._stage.aside(write)

    # -- the screen

    def theme(self, argument: str) -> None:
        self._stage.choose_theme(argument)

    def panel(self, _argument: str) -> None:
        self._stage.toggle_panel()

    def thinking(self, _argument: str) -> None:
        self._stage.toggle_thinking()

    def help(self, _argument: str) -> None:
        self._stage.show_help()

    def quit(self, _argument: str) -> None:
        self._stage.leave()

    def _ready(self) -> ChatSession:
        if self._runs.session is None:
            reason = "was not loaded" if self._runs.phase == "failed" else "is still loading"
            raise UsageError(f"The model {reason}.")
        return self._runs.session


def last_reply(session: ChatSession) -> str:
    """The text of the newest reply as it was said, or nothing."""
    for message in reversed(session.conversation.messages):
        if message.role == "assistant" and message.tokens and not message.taken_back:
            return "".join([token.text for token in list(message.tokens) if token.part == "answer"]).strip()
    return ""


def last_code(text: str) -> str:
    """What stands in the last fenced block of a text, or nothing."""
    blocks = text.split("```")
    if len(blocks) < 3:
        return ""
    block = blocks[-2] if len(blocks) % 2 else blocks[-3]
    return block.partition("\n")[2]


def _one_of(argument: str, known: tuple[str, ...], what: str) -> str:
    if argument not in known:
        raise UsageError(f"There is no {what} {argument}; {did_you_mean(argument, known)}")
    return argument


def _number(argument: str, what: str, *, least: int) -> int:
    plain = argument.replace(",", "").replace("_", "")
    if not plain.isascii() or not plain.isdigit() or int(plain) < least:
        raise UsageError(f"/{what} takes a whole number of at least {least}, but not {argument!r}.")
    return int(plain)


def _short(path: Path) -> str:
    """The path as one would type it here."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
