"""A conversation in words and figures: what the Markdown and the plain text both say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sinkchat.chat.conversation import Conversation
from sinkchat.chat.happening import Eviction, PolicyChange
from sinkchat.chat.message import Loop, Message
from sinkchat.chat.records import Opened
from sinkchat.models.sampling import Sampling

_ENDS = {"stop": "ended by itself", "length": "stopped at its cap", "cancelled": "stopped", "error": "failed"}
_SPEAKERS = {"system": "System prompt", "user": "Person", "file": "File", "assistant": "Model"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a message, and what happened behind it."""

    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class _Happened:
    """Sorts by where it is shown, then by when it happened."""

    offset: int
    position: int
    rank: int
    words: str


def title(conversation: Conversation) -> str:
    return f"sinkchat session {conversation.session or 'of unknown id'}"


def heading(message: Message) -> str:
    name = f" {message.name}" if message.name else ""
    return f"{_SPEAKERS[message.role]}{name}, {clock(message.started)}"


def preamble(conversation: Conversation) -> Iterator[tuple[str, str]]:
    """Names and values for the head of the document."""
    if conversation.openings:
        opening = conversation.openings[0]
        yield "begun", moment(opening.time)
        yield from _opened(opening.record)
    for later in conversation.openings[1:]:
        rules = "; ".join(f"{name} {value}" for name, value in _opened(later.record))
        yield "resumed", f"{moment(later.time)}, {rules}"
    for damage in conversation.damage:
        yield "damaged", f"the journal's {damage}; what stands around it is whole"


def _opened(record: Opened) -> Iterator[tuple[str, str]]:
    facts, cache = record.facts, record.cache
    revision = f", revision {facts.revision}" if facts.revision else ""
    yield "model", f"{facts.name}{revision}, {facts.family}"
    yield "run as", f"quantization {facts.quant}, {facts.dtype}, on {facts.device}"
    yield "cache", f"policy {cache.policy}, positions {cache.positions}, {cache.sinks} sinks, window {cache.window:,}"
    yield "sampling", sampling(record.sampling)
    yield "program", f"sinkchat {record.program}"


def sampling(drawn: Sampling) -> str:
    parts = [f"temperature {drawn.temperature:g}"]
    parts += [
        f"{name} {value:g}"
        for name, value in (("top-p", drawn.top_p), ("top-k", drawn.top_k), ("min-p", drawn.min_p))
        if value
    ]
    if drawn.repetition_penalty not in (None, 1):
        parts.append(f"repetition penalty {drawn.repetition_penalty:g} over {drawn.repetition_window} tokens")
    parts.append("no seed" if drawn.seed is None else f"seed {drawn.seed}")
    return ", ".join(parts)


def pieces(conversation: Conversation, message: Message) -> list[Piece]:
    """The message's text, parted where something happened inside it; what happened after it is in the last."""
    happened = [
        _Happened(message.offset(change.position), change.position, 1, note(change))
        for change in conversation.policy_changes
        if (change.message, change.sequence) == (message.number, message.sequence) and change.cause != "clear"
    ]
    happened += [
        _Happened(_left_at(message, gone), gone.at_position, 0 if gone.cause == "token" else 2, eviction(gone))
        for gone in conversation.evictions
        if (gone.message, gone.sequence) == (message.number, message.sequence)
    ]
    happened += [_Happened(message.offset(loop.position), loop.position, 0, _loop(loop)) for loop in message.loops]
    happened += [
        _Happened(len(message.text), change.position, 3, f"Sampling from here on: {sampling(change.sampling)}.")
        for change in conversation.sampling_changes
        if change.message == message.number
    ]
    if message.cut_short:
        happened.append(_Happened(len(message.spoken), 0, 0, "The model did not read on from here."))
    return list(_parted(message.text, sorted(happened)))


def _parted(text: str, happened: list[_Happened]) -> Iterator[Piece]:
    start = 0
    notes: list[str] = []
    for event in happened:
        offset = min(event.offset, len(text))
        if notes and offset > start:
            yield Piece("", tuple(notes))
            notes = []
        if offset > start:
            yield Piece(text[start:offset], ())
            start = offset
        notes.append(event.words)
    if notes and start < len(text):
        yield Piece("", tuple(notes))
        notes = []
    yield Piece(text[start:], tuple(notes))


def thinking(message: Message) -> str:
    return f"Thinking, {_counted(message.thinking_tokens, 'token')}"


def figures(message: Message) -> str:
    """One line of a message's figures."""
    parts = []
    if message.words is not None and message.cut_short:
        total = "" if message.tokens_total is None else f" of {message.tokens_total:,}"
        parts.append(f"{message.tokens_read:,}{total} tokens read")
    else:
        parts.append(_counted(message.tokens_read, "token"))
    if message.tokens:
        parts.append(span(message.tokens[0].position, message.tokens[-1].position))
    if message.loss is not None:
        parts.append(f"loss {message.loss:.3f}")
    if message.sink_share is not None:
        parts.append(f"sink share {100 * message.sink_share:.1f} %")
    if message.tokens_per_second is not None:
        parts.append(f"{message.tokens_per_second:.1f} tokens/s")
    if message.taken_back:
        parts.append("taken back")
    if message.reason is not None:
        parts.append(_ENDS[message.reason] + (f": {message.error}" if message.error else ""))
    return ", ".join(parts)


def note(change: PolicyChange) -> str:
    """What changed in the cache, and where."""
    before, after = change.before, change.after
    rules = [
        f"{name} {was} → {now}"
        for name, was, now in (
            ("policy", before.policy, after.policy),
            ("positions", before.positions, after.positions),
            ("sinks", before.sinks, after.sinks),
            ("window", f"{before.window:,}", f"{after.window:,}"),
        )
        if was != now
    ]
    if before.position < after.position:
        again = _counted(after.position - before.position, "token")
        return f"Resumed: {again} read again ({after.kv_entries:,} entries)."
    what = ", ".join(rules) or "cache rebuilt"
    taken = ""
    if before.sink_entries and not after.sink_entries:
        taken = ", the sinks are gone"
    elif after.sink_entries and not before.sink_entries and before.position:
        taken = ", the sinks are back"
    rough = "" if change.exact else ", approximately: deeper layers had seen tokens that are gone"
    entries = f"{before.kv_entries:,} → {after.kv_entries:,} entries"
    return f"At position {change.position:,}: {what}{taken} ({entries}){rough}."


def _left_at(message: Message, gone: Eviction) -> int:
    """Where in the message's text to tell of an eviction: at its end, but for a window that was full inside it."""
    if gone.cause != "recompute" or message.first_position is None or gone.at_position < message.first_position:
        return len(message.text)
    said = message.role == "assistant"  # a token of a reply is said before it is fed
    return message.offset(gone.at_position + said)


def eviction(gone: Eviction) -> str:
    once = gone.at_position == gone.until_position
    when = (
        f"at position {gone.at_position:,}"
        if once
        else f"between positions {gone.at_position:,} and {gone.until_position:,}"
    )
    entries = f"{_counted(gone.count, 'entry', 'entries')}, {span(gone.first, gone.last)}"
    if gone.cause == "recompute":
        full = f"{when[0].upper()}{when[1:]} the window was full{'' if once else ' again and again'}"
        return f"{full}: the older half left ({entries}), and {_counted(gone.run_again, 'token')} ran again."
    why = "" if gone.cause == "token" else f", by a change of {gone.cause}"
    return f"Evicted {when}{why}: {entries}."


def _loop(loop: Loop) -> str:
    return (
        f"The last {loop.period * loop.repeats:,} tokens are one piece of {loop.period:,}, {loop.repeats} times over."
    )


def span(first: int, last: int) -> str:
    return f"position {first:,}" if first == last else f"positions {first:,} to {last:,}"


def moment(time: float) -> str:
    return datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")


def clock(time: float) -> str:
    return datetime.fromtimestamp(time).astimezone().strftime("%H:%M:%S")


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
