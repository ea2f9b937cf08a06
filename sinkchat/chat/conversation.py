"""What was said and what happened to the cache: made from the journal's records alone, live or read again.

Only the thread that runs the session applies records; another may read at any time, since lists only grow and
nothing in them changes but the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from sinkchat.chat.happening import Eviction, Opening, PolicyChange, Readmission, SamplingChange, Upheaval
from sinkchat.chat.line import Entry
from sinkchat.chat.message import Loop, Message, TokenRecord
from sinkchat.chat.records import (
    CacheSwitched,
    ChunkFed,
    EntriesEvicted,
    EntriesReadmitted,
    HeadShares,
    LoopSeen,
    MessageBegun,
    Opened,
    PromptDone,
    PromptPlanned,
    ReplyContinued,
    Role,
    RunEnded,
    SamplingSet,
    SequenceBegun,
    TakenBack,
    TokenSaid,
    Totals,
)
from sinkchat.chat.sequence import SequenceRecord


@dataclass(slots=True)
class Conversation:
    """A session's record. `apply` is the only way in."""

    openings: list[Opening] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    sequences: list[SequenceRecord] = field(default_factory=list)
    policy_changes: list[PolicyChange] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    upheavals: list[Upheaval] = field(default_factory=list)
    """In the order in which they came."""
    readmissions: list[Readmission] = field(default_factory=list)
    sampling_changes: list[SamplingChange] = field(default_factory=list)
    damage: tuple[str, ...] = ()
    """What could not be read of the journal that this was made from, a sentence each."""

    @classmethod
    def from_records(cls, entries: Iterable[Entry], damage: tuple[str, ...] = ()) -> Conversation:
        """The same conversation as the one that wrote the journal."""
        conversation = cls(damage=damage)
        for entry in entries:
            conversation.apply(entry)
        return conversation

    @property
    def session(self) -> str | None:
        """The session's id; None if no record that says it is left."""
        return self.openings[0].record.session if self.openings else None

    @property
    def sequence(self) -> SequenceRecord:
        """The current one."""
        return self.sequences[-1]

    @property
    def current_messages(self) -> list[Message]:
        """Those of the current sequence, in order."""
        return [message for message in self.messages if message.sequence == len(self.sequences) - 1]

    @property
    def totals(self) -> Totals:
        return Totals(len(self.messages), sum(len(sequence.tokens) for sequence in self.sequences))

    def apply(self, entry: Entry) -> None:
        apply = _APPLY.get(type(entry.record))
        if apply is not None:
            apply(self, entry.record, entry.time)

    # -- one method a record

    def _opened(self, record: Opened, time: float) -> None:
        self.openings.append(Opening(time, self._latest(), record))

    def _sequence_begun(self, record: SequenceBegun, time: float) -> None:
        self.sequences.append(SequenceRecord(len(self.sequences), time, record.system, record.cause))

    def _message_begun(self, record: MessageBegun, time: float) -> None:
        message = self._message(record.message, record.role, time)
        message.words, message.name = record.text, record.name

    def _prompt_planned(self, record: PromptPlanned, time: float) -> None:
        sequence = self._current(time)
        sequence.plan, sequence.plan_start, sequence.plan_done = record, sequence.next_position, 0
        if sequence.place != "person":
            sequence.turn_tokens = 0
        if record.message is not None:
            message = self._message(record.message, "user", time)
            message.tokens_total = record.read_before + record.text
            message.reason = message.ended = message.error = None
        if record.system is not None:
            self._message(record.system, "system", time).tokens_total = record.system_tokens
        self._place(sequence)

    def _chunk_fed(self, record: ChunkFed, time: float) -> None:
        sequence = self._current(time)
        rows = zip(record.ids, record.texts, record.losses, record.shares, strict=True)
        for position, (token_id, text, loss, share) in enumerate(rows, record.position):
            token = TokenRecord(token_id, text, position, loss, share)
            owner = self._owner(sequence, position - sequence.plan_start, time)
            sequence.tokens.append(token)
            if owner is not None:
                plan = sequence.plan
                if plan is not None and plan.spaced and owner.number == plan.message and not owner.spoken:
                    token = replace(token, text=text.removeprefix(" "))
                owner.tokens.append(token)
                sequence.turn_tokens += owner.role != "system"
        sequence.plan_done = sequence.next_position - sequence.plan_start
        self._place(sequence)

    def _owner(self, sequence: SequenceRecord, index: int, time: float) -> Message | None:
        """Whose text the prompt's token at `index` is; None for a frame's."""
        plan = sequence.plan
        if plan is None:
            return None
        if index < plan.system_tokens and plan.system is not None:
            return self._message(plan.system, "system", time)
        if plan.message is not None and 0 <= index - len(plan.lead) < plan.text:
            return self._message(plan.message, "user", time)
        return None

    def _place(self, sequence: SequenceRecord) -> None:
        if sequence.plan is None:
            return
        if sequence.plan_done == sequence.plan_total:
            sequence.place = "reply" if sequence.plan.reply else "person"
        elif sequence.plan_done:
            sequence.place = "person"

    def _prompt_done(self, record: PromptDone, time: float) -> None:
        plan = self._current(time).plan
        if plan is not None and plan.message is not None:
            message = self._message(plan.message, "user", time)
            message.ended = time
            _share(message, record.share_heads, record.tokens)

    def _reply_continued(self, record: ReplyContinued, time: float) -> None:
        message = self._message(record.message, "assistant", time)
        message.reason = message.ended = message.error = message.stop_id = None

    def _token_said(self, record: TokenSaid, time: float) -> None:
        token = TokenRecord(record.id, record.text, record.position, record.loss, record.sink_share, record.part)
        self._current(time).tokens.append(token)
        self._message(record.message, "assistant", time).tokens.append(token)

    def _taken_back(self, record: TakenBack, time: float) -> None:
        tokens = self._current(time).tokens
        while tokens and tokens[-1].position >= record.position:
            tokens.pop()
        self._message(record.message, "assistant", time).taken_back = True

    def _run_ended(self, record: RunEnded, time: float) -> None:
        if record.message is None:
            return
        message = self._message(record.message, "user", time)
        message.ended, message.error = time, record.error
        if message.words is None or message.cut_short or record.error:
            message.reason = record.reason  # else all of a text was read, and what was cancelled is its reply
        message.stop_id = record.stop_id
        message.tokens_per_second = record.tokens_per_second
        message.seconds_to_first_token = record.seconds_to_first_token
        _share(message, record.share_heads, record.tokens)

    def _loop_seen(self, record: LoopSeen, time: float) -> None:
        message = self._message(record.message, "assistant", time)
        message.loops.append(Loop(len(self._current(time).tokens), record.period, record.repeats))

    def _evicted(self, record: EntriesEvicted, time: float) -> None:
        sequence, message = self._current(time), self._latest()
        halved = record.cause == "recompute"
        # Else tokens that had been read before are read again. (The last of a reply is said before it is fed.)
        news = halved and record.position >= sequence.next_position - 1
        gone = Eviction(
            sequence.number,
            message,
            record.first,
            record.last,
            record.count,
            record.cause,
            at_position=record.position,
            until_position=record.position,
            run_again=record.position - record.last - 1 if halved else 0,
        )
        last = self.evictions[-1] if self.evictions else None
        if news or last is None or not _goes_on(last, gone):
            self.evictions.append(gone)
        else:
            self.evictions[-1] = replace(
                last,
                last=gone.last,
                count=last.count + gone.count,
                until_position=gone.until_position,
                run_again=last.run_again + gone.run_again,
            )
        if news:
            self.upheavals.append(gone)

    def _readmitted(self, record: EntriesReadmitted, time: float) -> None:
        number = self._current(time).number
        self.readmissions.append(
            Readmission(number, self._latest(), record.first, record.last, record.count, record.position)
        )

    def _cache_switched(self, record: CacheSwitched, time: float) -> None:
        change = PolicyChange(
            time=time,
            sequence=self._current(time).number,
            message=self._latest(),
            position=(record.before if record.cause == "clear" else record.after).position,
            before=record.before,
            after=record.after,
            cause=record.cause,
            exact=record.exact,
        )
        self.policy_changes.append(change)
        self.upheavals.append(change)

    def _sampling_set(self, record: SamplingSet, time: float) -> None:
        self.sampling_changes.append(
            SamplingChange(time, self._latest(), self._current(time).next_position, record.sampling)
        )

    # -- what a damaged journal may have lost is made up for, so that the rest can still be read

    def _latest(self) -> int | None:
        return len(self.messages) - 1 if self.messages else None

    def _current(self, time: float) -> SequenceRecord:
        if not self.sequences:
            self.sequences.append(SequenceRecord(0, time, None, "start"))
        return self.sequences[-1]

    def _message(self, number: int, role: Role, time: float) -> Message:
        """The message of that number; one whose beginning was lost begins here."""
        while len(self.messages) <= number:
            self.messages.append(Message(len(self.messages), self._current(time).number, role, time))
        return self.messages[number]


def _goes_on(last: Eviction, gone: Eviction) -> bool:
    return (last.sequence, last.message, last.cause, last.last + 1) == (
        *(gone.sequence, gone.message, gone.cause),
        gone.first,
    )


def _share(message: Message, heads: HeadShares | None, tokens: int) -> None:
    """Make the message's shares per head the mean over all its runs."""
    if heads is None:
        return
    before, weight = message.share_heads, message.shared_tokens
    message.shared_tokens = weight + tokens
    if before is None or not weight or not tokens:
        message.share_heads = heads if before is None or tokens else before
        return
    message.share_heads = tuple(
        tuple(
            None if a is None or b is None else (a * weight + b * tokens) / (weight + tokens)
            for a, b in zip(row, other, strict=True)
        )
        for row, other in zip(before, heads, strict=True)
    )


_APPLY: dict[type, Callable[[Conversation, Any, float], None]] = {
    Opened: Conversation._opened,
    SequenceBegun: Conversation._sequence_begun,
    MessageBegun: Conversation._message_begun,
    PromptPlanned: Conversation._prompt_planned,
    ChunkFed: Conversation._chunk_fed,
    PromptDone: Conversation._prompt_done,
    ReplyContinued: Conversation._reply_continued,
    TokenSaid: Conversation._token_said,
    TakenBack: Conversation._taken_back,
    RunEnded: Conversation._run_ended,
    LoopSeen: Conversation._loop_seen,
    EntriesEvicted: Conversation._evicted,
    EntriesReadmitted: Conversation._readmitted,
    CacheSwitched: Conversation._cache_switched,
    SamplingSet: Conversation._sampling_set,
}
