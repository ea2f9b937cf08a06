"""Turns what the engine says into records: into the journal first, then into the conversation."""

from __future__ import annotations

from sinkchat.chat.conversation import Conversation
from sinkchat.chat.journal import Journal
from sinkchat.chat.records import (
    CacheSwitched,
    ChunkFed,
    EntriesEvicted,
    EntriesReadmitted,
    HeadShares,
    LoopSeen,
    MessageBegun,
    PromptDone,
    Record,
    Role,
    RunAgain,
    RunEnded,
    TokenSaid,
)
from sinkchat.engine.events import (
    CacheChanged,
    ChunkRead,
    Event,
    Evicted,
    Finished,
    Heads,
    Looping,
    Prefilled,
    Readmitted,
    Rebuilding,
    Token,
)


class Ledger:
    """The only writer of a journal and of the conversation that it makes."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.conversation = Conversation.from_records(journal.entries)

    def write(self, record: Record) -> None:
        self.conversation.apply(self.journal.append(record))

    def begin(self, role: Role, text: str | None, name: str | None = None) -> int:
        """A new message; what a person or file wrote is on the disk when this returns. Its number."""
        number = len(self.conversation.messages)
        self.write(MessageBegun(number, role, text, name))
        if text is not None:
            self.journal.sync()
        return number

    def end(self, message: int | None, event: Finished) -> None:
        """A reply ended or a prompt was cut short; all of it is on the disk when this returns."""
        self.write(
            RunEnded(
                message=message,
                reason=event.reason,
                tokens=event.tokens,
                tokens_per_second=event.tokens_per_second,
                seconds_to_first_token=event.seconds_to_first_token,
                sink_share=event.sink_share,
                share_heads=_rounded(event.share_heads),
                kv_entries=event.cache.kv_entries,
                kv_bytes=event.cache.kv_bytes,
                evicted_total=event.cache.evicted_total,
                stop_id=event.stop_id,
                error=event.error,
                totals=self.conversation.totals,
            )
        )
        self.journal.sync()

    def note(self, event: Event, message: int | None, position: int) -> None:
        """Anything but `Finished`. `message` is the reply that is being written, `position` the tokens fed so far."""
        self.write(self._record(event, message, position))
        if isinstance(event, Prefilled | CacheChanged):
            self.journal.sync()

    def _record(self, event: Event, message: int | None, position: int) -> Record:
        match event:
            case Token():
                assert message is not None
                return TokenSaid(
                    message=message,
                    id=event.id,
                    text=event.text,
                    position=event.cache.position,
                    loss=event.loss,
                    sink_share=event.sink_share,
                    kv_entries=event.cache.kv_entries,
                    evicted_total=event.cache.evicted_total,
                    part=event.part,
                )
            case ChunkRead():
                start = event.cache.position - len(event.ids)
                return ChunkFed(start, event.ids, event.texts, event.losses, event.shares)
            case Evicted():
                return EntriesEvicted(event.first, event.last, event.count, event.cause, position)
            case Readmitted():
                return EntriesReadmitted(event.first, event.last, event.count, position)
            case Rebuilding():
                return RunAgain(event.done, event.total)
            case CacheChanged():
                return CacheSwitched(event.cause, event.before, event.after, event.exact)
            case Looping():
                assert message is not None
                return LoopSeen(message, event.period, event.repeats)
            case Prefilled():
                return PromptDone(
                    tokens=event.tokens,
                    loss=event.loss,
                    sink_share=event.sink_share,
                    share_heads=_rounded(event.share_heads),
                    seconds=event.seconds,
                    totals=self.conversation.totals,
                )
            case _:
                raise TypeError(f"{type(event).__name__} is not noted but ends a run")


def _rounded(heads: Heads | None) -> HeadShares | None:
    if heads is None:
        return None
    return tuple(tuple(None if share is None else round(float(share), 6) for share in row) for row in heads)
