"""`sinkchat ask`: one prompt, one reply on standard output, and everything else on standard error."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sinkchat.cli.interrupt import Interrupt
from sinkchat.cli.log import keep_log
from sinkchat.cli.opening import open_session
from sinkchat.cli.prompt import gather
from sinkchat.cli.reply import JsonReply, PlainReply, Reply
from sinkchat.cli.terminal import ProgressLine, complain
from sinkchat.engine.events import CacheState, ChunkRead, Event, Finished, Prefilled, Token
from sinkchat.models.progress import Progress, ProgressSink
from sinkchat.settings import Settings

if TYPE_CHECKING:
    from sinkchat.chat.session import ChatSession

Opening = Callable[[Settings, ProgressSink, "Path | None"], "ChatSession"]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and how the reply is wanted."""

    words: Sequence[str] = ()
    prompt_file: str | None = None
    json: bool = False
    ignore_eos: bool = False
    show_thinking: bool = False
    """On standard error, before the reply."""
    resuming: Path | None = None
    """The journal of a session to go on with."""


def run(question: Question, settings: Settings, opening: Opening | None = None) -> int:
    """Print the reply as it comes; returns the exit code: 130 when it was interrupted, 1 when the engine failed.

    The prompt is read first, so that a wrong one is told before a model is loaded.
    """
    prompt = gather(question.words, question.prompt_file)
    keep_log()
    with Interrupt() as interrupt:
        line = ProgressLine()
        try:
            session = (opening or open_session)(settings, line.show, question.resuming)
        finally:
            line.clear()
        with contextlib.closing(session):
            interrupt.patient = True
            ended, answered = _print(session, prompt, question, interrupt, line)
    return _tell(ended, answered)


def _print(
    session: ChatSession, prompt: str, question: Question, interrupt: Interrupt, line: ProgressLine
) -> tuple[Finished, bool]:
    """Run the turn to its end, whatever happens: only a finished turn leaves the journal whole. Returns how it ended,
    and whether the model came to its answer."""
    reply: Reply = JsonReply() if question.json else PlainReply(show_thinking=question.show_thinking)
    ended: Finished | None = None
    answered = True
    session.ignore_stops = question.ignore_eos
    with contextlib.closing(session.say(prompt)) as events:
        try:
            for event in events:
                if interrupt.asked:
                    session.cancel()
                _show_progress(event, line)
                reply.show(event)
                if isinstance(event, Token):
                    answered = event.part == "answer"
                if isinstance(event, Finished):
                    ended = event
        except (BrokenPipeError, KeyboardInterrupt):
            raise
        except Exception as error:
            line.clear()
            reply.fail(str(error), session.state())
            raise
    if ended is None:
        raise RuntimeError("the engine ended without saying why")
    return ended, answered


def _show_progress(event: Event, line: ProgressLine) -> None:
    if isinstance(event, ChunkRead):
        line.show(Progress("reading the prompt", event.done, event.total, "tokens"))
    elif isinstance(event, (Prefilled, Token, Finished)):
        line.clear()


def _tell(ended: Finished, answered: bool) -> int:
    """Say on stderr what the reply itself does not show; returns the exit code."""
    if ended.reason == "error":
        complain(ended.error or "the model failed without saying why.")
        return 1
    if not answered:
        way_out = "; raise --max-reply-tokens." if ended.reason == "length" else "."
        complain(f"the model had not finished thinking, so there is no answer{way_out}")
    if said := _unseen(ended.cache):
        complain(said)
    return 130 if ended.reason == "cancelled" else 0


def _unseen(cache: CacheState) -> str:
    gone = cache.evicted_total - cache.readmitted_total
    if not gone:
        return ""
    return (
        f"the window holds {cache.kv_entries} of the {cache.position} tokens; "
        f"{gone} were evicted, and the model no longer sees them."
    )
