"""A reply on standard output: as plain text, or as one JSON object a line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Protocol

from sinkchat.cli.stream import VisibleStream
from sinkchat.cli.terminal import say, tell
from sinkchat.engine.events import CacheState, Event, Finished, Prefilled, Token


class Reply(Protocol):
    """Prints a reply's events as they come, each at once."""

    def show(self, event: Event) -> None: ...

    def fail(self, reason: str, cache: CacheState) -> None:
        """The reply broke off: no `Finished` came, and none will."""
        ...


class PlainReply:
    """The reply's text, nothing else; control characters as visible symbols. Ends with a line break.

    What the model thinks before it answers is not shown, or on standard error.
    """

    def __init__(self, *, show_thinking: bool = False) -> None:
        self._answer = _Text(say)
        self._thinking = _Text(tell) if show_thinking else None

    def show(self, event: Event) -> None:
        if isinstance(event, Token) and event.part == "thinking":
            if self._thinking:
                self._thinking.push(event.text)
        elif isinstance(event, Token):
            if self._thinking:
                self._thinking.end()
            self._answer.push(event.text)
        elif isinstance(event, Finished):
            self._end()

    def fail(self, reason: str, cache: CacheState) -> None:
        self._end()

    def _end(self) -> None:
        if self._thinking:
            self._thinking.end()
        self._answer.end()


class _Text:
    """Text that is written as visible symbols, piece by piece, and ends with a line break."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._stream = VisibleStream()
        self._last = ""

    def push(self, text: str) -> None:
        self._put(self._stream.push(text))

    def end(self) -> None:
        self._put(self._stream.flush())
        if self._last not in ("", "\n"):
            self._put("\n")

    def _put(self, text: str) -> None:
        if text:
            self._last = text[-1]
            self._write(text)


class JsonReply:
    """`prefilled`, a `token` for each token, `finished`: one ASCII JSON object a line.

    A token of the model's thinking says so, by `part`.
    """

    def __init__(self) -> None:
        self._tokens = 0

    def show(self, event: Event) -> None:
        if isinstance(event, Prefilled):
            cache = event.cache
            _line("prefilled", tokens=event.tokens, position=cache.position, **_held(cache), loss=event.loss)
        elif isinstance(event, Token):
            self._tokens += 1
            thought = {"part": event.part} if event.part == "thinking" else {}
            _line(
                "token",
                id=event.id,
                text=event.text,
                position=event.cache.position,
                loss=event.loss,
                **_held(event.cache),
                sink_share=event.sink_share,
                **thought,
            )
        elif isinstance(event, Finished):
            self._finished(event.reason, event.tokens, event.tokens_per_second, event.cache, event.error)

    def fail(self, reason: str, cache: CacheState) -> None:
        self._finished("error", self._tokens, None, cache, reason)

    def _finished(self, reason: str, tokens: int, rate: float | None, cache: CacheState, error: str | None) -> None:
        failed = {} if error is None else {"error": error}
        held = {"kv_entries": cache.kv_entries, "kv_bytes": cache.kv_bytes, "evicted_total": cache.evicted_total}
        _line("finished", reason=reason, tokens=tokens, tokens_per_second=rate, **held, **failed)


def _held(cache: CacheState) -> dict[str, object]:
    return {"kv_entries": cache.kv_entries, "evicted_total": cache.evicted_total}


def _line(event: str, **fields: object) -> None:
    # A number that is none (NaN, infinity) has no form in JSON: it is null.
    clean = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in fields.items()
    }
    say(json.dumps({"event": event, **clean}, ensure_ascii=True, allow_nan=False) + "\n")
