"""Keeps the transcript in step with the conversation: every message and every change of the cache, in order.

It reads the session's live record, which only grows, from the screen's thread. A session that is resumed is written
down in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sinkchat.chat.conversation import Conversation
from sinkchat.chat.happening import Eviction, PolicyChange, Upheaval
from sinkchat.chat.message import Message, TokenRecord
from sinkchat.chat.printable import visible
from sinkchat.engine.events import CacheState
from sinkchat.tui import figures
from sinkchat.tui.notices import describe, halved
from sinkchat.tui.text.passage import Passage, Sight, Voice
from sinkchat.tui.text.printing import Printed, Printer
from sinkchat.tui.widgets.transcript import Transcript

_VOICES: dict[str, Voice] = {"system": "system", "user": "person", "file": "file", "assistant": "reply"}


@dataclass
class _Written:
    """A message as far as it is in the transcript."""

    passage: Passage
    printer: Printer = field(default_factory=Printer)
    tokens: int = 0
    """Tokens that were given to the printer."""
    marked: int = 0
    """Tokens that the passages know."""
    split: bool = False
    """Something came between: what is said next goes into another passage."""


class Scribe:
    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._written: dict[int, _Written] = {}
        self._begun = 0  # messages that were looked at
        self._open: list[int] = []  # messages that may still change
        self._upheavals = 0
        self.sequence = 0
        self.switching = False
        """A reply is interrupted only for a change of the cache, and goes on at once: it is not marked as stopped."""

    def write(self, conversation: Conversation) -> None:
        """Everything that is new."""
        while True:
            # One that comes in between would be placed behind tokens that it came before.
            upheavals = len(conversation.upheavals)
            messages = len(conversation.messages)
            counts = [len(message.tokens) for message in conversation.messages[:messages]]
            if upheavals == len(conversation.upheavals):
                break
        for upheaval in conversation.upheavals[self._upheavals : upheavals]:
            self._upheavals += 1
            last = -1 if upheaval.message is None else upheaval.message
            self._messages(conversation.messages[: last + 1], counts, upheaval)
            self._tell(upheaval)
        self._messages(conversation.messages[:messages], counts, None)

    def notice(self, text: str, *, warning: bool = False) -> None:
        """Something that happened and is no part of the conversation."""
        self._split()
        passage = Passage("warning" if warning else "notice", visible(text), sequence=self.sequence)
        self._transcript.add(passage)

    def look(self, cache: CacheState) -> None:
        """Move the horizon to where this state of the cache has it."""
        self._transcript.look(Sight(self.sequence, cache.sink_entries, cache.horizon))

    # -- one message at a time

    def _messages(self, messages: Sequence[Message], counts: Sequence[int], before: Upheaval | None) -> None:
        for message in messages[self._begun :]:
            self._open.append(message.number)
            self._begun += 1
        for number in list(self._open):
            if number >= len(messages):
                continue
            message = messages[number]
            until = self._until(message, counts, before)
            self._message(message, until)
            if message.taken_back and number in self._written:
                self._withdraw(self._written[number].passage)
            if message.ended is not None and number < self._begun - 1 and until == len(message.tokens):
                self._open.remove(number)

    def _until(self, message: Message, counts: Sequence[int], before: Upheaval | None) -> int:
        """How many of the message's tokens to write: those before the upheaval."""
        count = counts[message.number] if message.number < len(counts) else 0
        if message.role == "system" and message.words is not None and count < (message.tokens_total or count + 1):
            return 0  # where its words stand among its tokens is known when all are there
        if before is None or message.sequence != before.sequence:
            return count
        edge = _edge(before, message)
        while count and message.tokens[count - 1].position >= edge:
            count -= 1
        return count

    def _message(self, message: Message, until: int) -> None:
        written = self._written.get(message.number)
        if written is None:
            if not until and message.role == "assistant":
                return
            voice = _voice(message, message.tokens[:until])
            if voice is None:
                return
            written = self._begin(message, voice)
        changed = False
        for voice, run in _runs(message, message.tokens[written.tokens : until], written.passage.voice):
            if written.split or voice != written.passage.voice:
                self._turn_over(message, written, voice)
            written.tokens += len(run)
            changed |= self._take(message, written, written.printer.push(_texts(message, run)))
        if until == len(message.tokens) and self._settle(message, written):
            changed = True
        if changed:
            self._transcript.changed(written.passage)

    def _turn_over(self, message: Message, written: _Written, voice: Voice) -> None:
        """Go on in another passage."""
        self._take(message, written, written.printer.flush())
        written.passage.finish()
        self._transcript.changed(written.passage)
        written.passage, written.split = written.passage.continued(voice), False
        self._add(written.passage)

    def _add(self, passage: Passage) -> None:
        if passage.voice == "thinking":
            passage.fold(self._transcript.folds_thinking)
        self._transcript.add(passage)

    def _begin(self, message: Message, voice: Voice) -> _Written:
        words = visible(message.words) if message.words is not None and _stands(voice) else ""
        label = visible(message.name or "") if voice == "file" else "system prompt" if voice == "system" else ""
        written = _Written(Passage(voice, words, label=label, sequence=message.sequence))
        self._written[message.number] = written
        self._add(written.passage)
        return written

    def _take(self, message: Message, written: _Written, printed: Printed) -> bool:
        passage = written.passage
        if printed.lengths:
            passage.mark(message.tokens[written.marked].position, printed.lengths)
            written.marked += len(printed.lengths)
        if message.words is None or not _stands(passage.voice):
            passage.add(printed.text)
        return bool(printed.lengths)

    def _settle(self, message: Message, written: _Written) -> bool:
        """What there is to say below the message. True if that is new."""
        passage = written.passage
        changed = False
        if message.ended is not None:
            changed = self._take(message, written, written.printer.flush())
            passage.finish()
        if passage.voice == "person":
            total = message.tokens_total
            unread = passage.read_up_to() if total is not None and 0 < passage.tokens < total else None
            changed |= unread != passage.unread_from
            passage.unread_from = unread
        return passage.note(self._footer(message)) or changed

    def _withdraw(self, last: Passage) -> None:
        for passage in last.parts:
            if not passage.withdrawn:
                passage.withdrawn = True
                passage.note("taken back" if passage is last else "")
                self._transcript.changed(passage)

    def _footer(self, message: Message) -> str:
        if message.taken_back:
            return "taken back"
        if message.role != "assistant":
            total = message.tokens_total
            if message.reason is None or total is None or not message.cut_short:
                return ""
            why = f": {visible(message.error)}" if message.error else ""
            return f"{message.tokens_read:,} of {total:,} tokens read{why}"
        said = figures.plural(len(message.tokens), "token")
        if message.reason == "cancelled" and not self.switching:
            return f"stopped after {said}"
        if message.reason == "length":
            return f"cut at {said}, the most for one reply; /continue goes on"
        if message.reason == "error":
            return f"broke off after {said}: {visible(message.error or 'the engine failed')}"
        if message.loops and message.reason is None:
            loop = message.loops[-1]
            piece = "one token" if loop.period == 1 else f"the same {loop.period:,}"
            return f"the last {loop.period * loop.repeats:,} tokens repeat {piece}; Esc stops"
        return ""

    # -- changes of the cache

    def _tell(self, upheaval: Upheaval) -> None:
        if isinstance(upheaval, Eviction):
            self.notice(halved(upheaval))
            return
        if upheaval.cause == "clear":
            self.sequence = upheaval.sequence + 1
        if text := describe(upheaval):
            self.notice(text)

    def _split(self) -> None:
        for number in self._open:
            if number in self._written and self._written[number].passage.voice in ("thinking", "reply", "file"):
                self._written[number].split = True


def _edge(upheaval: Upheaval, message: Message) -> int:
    """Position of the first token behind it. A token of a reply is said before room is made for it."""
    if isinstance(upheaval, PolicyChange):
        return upheaval.position
    return upheaval.at_position + (message.role == "assistant")


def _stands(voice: Voice) -> bool:
    """Whether the words of this voice are shown before they are read."""
    return voice in ("person", "system")


def _texts(message: Message, run: Sequence[TokenRecord]) -> list[str]:
    """What each token adds to the message. Of a system prompt the frame adds nothing: its tokens count, but their
    text is the template's."""
    texts = [token.text for token in run]
    if message.role != "system" or message.words is None:
        return texts
    start = "".join(texts).rfind(message.words)
    if start < 0:
        return texts
    end, at = start + len(message.words), 0
    for number, text in enumerate(texts):
        texts[number] = text[max(0, start - at) : max(0, end - at)]
        at += len(text)
    return texts


def _voice(message: Message, tokens: Sequence[TokenRecord]) -> Voice | None:
    """Whose voice a message begins in; None for a reply of which nothing can be read yet."""
    if message.role != "assistant":
        return _VOICES[message.role]
    first = next((token for token in tokens if token.text), None)
    if first is None:
        return None if message.ended is None else "reply"
    return "thinking" if first.part == "thinking" else "reply"


def _runs(message: Message, tokens: Sequence[TokenRecord], now: Voice) -> Iterator[tuple[Voice, list[TokenRecord]]]:
    """Tokens by the voice that they belong to; `now` is that of those before. One without a text, such as a mark
    around thinking, changes nothing."""
    run: list[TokenRecord] = []
    for token in tokens:
        voice = now
        if message.role == "assistant" and token.text:
            voice = "thinking" if token.part == "thinking" else "reply"
        if voice != now and run:
            yield now, run
            run = []
        now = voice
        run.append(token)
    if run:
        yield now, run
