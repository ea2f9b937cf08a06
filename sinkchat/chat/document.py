"""A conversation as one JSON document, complete and versioned. Its schema is docs/export.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timezone
from itertools import groupby
from typing import Any

from sinkchat.chat.conversation import Conversation
from sinkchat.chat.happening import Opening, PolicyChange
from sinkchat.chat.message import Message, TokenRecord
from sinkchat.chat.plain import to_plain
from sinkchat.chat.sequence import SequenceRecord

FORMAT = "sinkchat-conversation"
VERSION = 1


def to_json(conversation: Conversation) -> str:
    """ASCII alone: control characters are there, escaped."""
    return json.dumps(document(conversation), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def document(conversation: Conversation) -> dict[str, Any]:
    first = conversation.openings[0] if conversation.openings else None
    return {
        "format": FORMAT,
        "version": VERSION,
        "session": conversation.session,
        **_opening(first),
        "resumptions": [{"after_message": later.message, **_opening(later)} for later in conversation.openings[1:]],
        "messages": [_message(message) for message in conversation.messages],
        "policy_changes": [_change(change) for change in conversation.policy_changes],
        "evictions": [to_plain(eviction) for eviction in conversation.evictions],
        "readmissions": [to_plain(readmission) for readmission in conversation.readmissions],
        "sampling_changes": [
            {
                "time": _moment(change.time),
                "after_message": change.message,
                "position": change.position,
                "sampling": to_plain(change.sampling),
            }
            for change in conversation.sampling_changes
        ],
        "sequences": [_sequence(conversation, sequence) for sequence in conversation.sequences],
        "damage": list(conversation.damage),
    }


def _opening(opening: Opening | None) -> dict[str, Any]:
    if opening is None:
        return {"started": None, "program": None, "model": None, "sampling": None, "settings": None}
    record, cache = opening.record, opening.record.cache
    facts = to_plain(record.facts)
    model = {"quantization" if name == "quant" else name: value for name, value in facts.items()}
    return {
        "started": _moment(opening.time),
        "program": record.program,
        "model": model,
        "sampling": to_plain(record.sampling),
        "settings": {
            "policy": cache.policy,
            "positions": cache.positions,
            "sinks": cache.sinks,
            "window": cache.window,
            "max_reply_tokens": record.max_reply_tokens,
            "pin_system": record.pin_system,
            "chat_template": not record.plain,
        },
    }


def _message(message: Message) -> dict[str, Any]:
    return {
        "number": message.number,
        "sequence": message.sequence,
        "role": message.role,
        "name": message.name,
        "text": message.text,
        "thinking": message.thinking or None,
        "thinking_tokens": message.thinking_tokens,
        "started": _moment(message.started),
        "ended": _moment(message.ended),
        "first_position": message.first_position,
        "last_position": message.last_position,
        "tokens_read": message.tokens_read,
        "tokens_total": message.tokens_read if message.words is None else message.tokens_total,
        "finished": message.reason,
        "taken_back": message.taken_back,
        "error": message.error,
        "stop_id": message.stop_id,
        "loss": to_plain(message.loss),
        "sink_share": to_plain(message.sink_share),
        "sink_share_heads": to_plain(message.share_heads),
        "tokens_per_second": to_plain(message.tokens_per_second),
        "seconds_to_first_token": to_plain(message.seconds_to_first_token),
        "loops": to_plain(message.loops),
        "tokens": to_plain(message.tokens),
    }


def _change(change: PolicyChange) -> dict[str, Any]:
    return {
        "time": _moment(change.time),
        "sequence": change.sequence,
        "after_message": change.message,
        "position": change.position,
        "cause": change.cause,
        "exact": change.exact,
        "before": to_plain(change.before),
        "after": to_plain(change.after),
    }


def _sequence(conversation: Conversation, sequence: SequenceRecord) -> dict[str, Any]:
    spoken = {
        token.position
        for message in conversation.messages
        if message.sequence == sequence.number and not message.taken_back
        for token in message.tokens
    }
    frames = [token for token in sequence.tokens if token.position not in spoken]
    return {
        "number": sequence.number,
        "started": _moment(sequence.started),
        "cause": sequence.cause,
        "system": sequence.system,
        "tokens": len(sequence.tokens),
        "frames": [_frame(run) for run in _runs(frames)],
    }


def _runs(tokens: Sequence[TokenRecord]) -> list[list[TokenRecord]]:
    """Tokens in ascending positions, as runs without a gap."""
    keyed = groupby(enumerate(tokens), key=lambda pair: pair[1].position - pair[0])
    return [[token for _, token in run] for _, run in keyed]


def _frame(tokens: list[TokenRecord]) -> dict[str, Any]:
    return {
        "position": tokens[0].position,
        "ids": [token.id for token in tokens],
        "texts": [token.text for token in tokens],
        "losses": [to_plain(token.loss) for token in tokens],
        "sink_shares": [to_plain(token.sink_share) for token in tokens],
    }


def _moment(time: float | None) -> str | None:
    """UTC, to the millisecond."""
    if time is None:
        return None
    return datetime.fromtimestamp(time, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
