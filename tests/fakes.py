"""A deterministic, instant engine and chat template: the contracts of engine/contract.py without a model.

Tokens are words with the white space before them. The figures are made up and the bookkeeping is not:
`kv_entries + evicted_total - readmitted_total == position` after every event, as the contract says.
"""

from __future__ import annotations

import re
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from sinkchat.cache.policy import KEEPING, Policy, Positions
from sinkchat.engine.events import (
    CacheChanged,
    CacheState,
    ChunkRead,
    DeviceMemory,
    Event,
    Evicted,
    Finished,
    Heads,
    Looping,
    Prefilled,
    Readmitted,
    Reason,
    Rebuilding,
    StrongEntry,
    StrongHead,
    Token,
)
from sinkchat.errors import CacheError
from sinkchat.models.facts import ModelFacts
from sinkchat.models.sampling import Sampling

FACTS = ModelFacts(
    name="fake-model",
    revision="0123abcd",
    family="llama",
    layers=2,
    heads=3,
    kv_heads=1,
    trained_length=8192,
    quant="none",
    dtype="float32",
    device="cpu",
    weight_bytes=1_000_000,
)

STORY = (
    "The keeper lit the lamp at dusk, as he had done for thirty years. The sea answered in long grey lines. "
    "He counted them, lost count, and began again."
)

SPECIAL = 1 << 33
"""Ids from here on are frame tokens, which add nothing to the text."""

STOP = SPECIAL

SEED = 7
"""The seed in force where none was set."""

_texts: dict[int, str] = {}


def words(text: str) -> tuple[int, ...]:
    """Ids of the words of `text`; the texts of the tokens, joined, are `text`."""
    return tuple(_word(piece) for piece in re.findall(r"\s*\S+|\s+\Z", text))


def text_of(token: int) -> str:
    return _texts.get(token, "")


def _word(piece: str) -> int:
    token = zlib.crc32(piece.encode("utf-8", "surrogatepass"))
    _texts[token] = piece
    return token


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


class FakeTemplate:
    """Frames of a few special tokens: `[sys] words [/sys] [user] ... [/user] [bot] ... [/bot] [user] ...`."""

    def __init__(self, *, plain: bool = False, spaced: bool = False) -> None:
        """spaced: the frames before a person's text end with a space."""
        self.plain = plain
        self.spaced = spaced
        self.own_system: str | None = None

    def opening(self, system: str | None) -> tuple[tuple[int, ...], int]:
        if self.plain:
            return (), 0
        head = (SPECIAL + 1, *words(system), SPECIAL + 2) if system is not None else ()
        return (*head, SPECIAL + 3, SPECIAL + 4), len(head)

    def between(self) -> tuple[int, ...]:
        return () if self.plain else (SPECIAL + 6, SPECIAL + 3, SPECIAL + 4)

    def ask(self) -> tuple[int, ...]:
        return () if self.plain else (SPECIAL + 5, SPECIAL + 7, SPECIAL + 8)

    def encode(self, text: str, *, after: Sequence[int] = ()) -> tuple[int, ...]:
        return words(" " + text if self.spaced and after else text)


class FakeEngine:
    """Satisfies `Engine`. What a test wants to happen is set by attributes, at any time.

    reply: the words that are said after each prompt, then a stop token; said again and again where stops are ignored.
    thinking: the words that are thought before them.
    token_delay, chunk_delay: seconds per token and per chunk, also of what runs again under `recompute`.
    raise_after: raise RuntimeError("the device is gone") after so many tokens fed, once.
    fail_after: end with `Finished(reason="error")` after so many tokens fed, once.
    loop_after: say `Looping` once after so many tokens of a reply.
    fed: every id that is in the sequence, in order, so that a test can compare what was fed.
    """

    def __init__(
        self,
        *,
        policy: Policy = "sinks",
        positions: Positions = "cache",
        sinks: int = 4,
        window: int = 32,
        chunk: int = 8,
        reply: str = STORY,
        thinking: str = "",
        token_delay: float = 0.0,
        chunk_delay: float = 0.0,
        facts: ModelFacts = FACTS,
        sampling: Sampling = Sampling(),  # noqa: B008 (frozen)
    ) -> None:
        self.facts = facts
        self.policy, self.positions, self.sinks, self.window = policy, positions, sinks, window
        self.chunk = chunk
        self.reply = reply
        self.thinking = thinking
        self.token_delay, self.chunk_delay = token_delay, chunk_delay
        self.raise_after: int | None = None
        self.fail_after: int | None = None
        self.loop_after: int | None = None
        self.sampling = sampling if sampling.seed is not None else replace(sampling, seed=SEED)
        self.fed: list[int] = []
        self._kept: list[int] = []  # positions of the entries, ascending
        self._again: list[int] = []  # positions that are to run again before anything is fed
        self._evicted = self._readmitted = self._recomputed = 0
        self._said = 0  # words of the reply said since the last prompt
        self._pending: int | None = None  # a token that was said and could not be fed
        self._cancelled = threading.Event()

    # -- state

    def state(self) -> CacheState:
        sink_entries = self._sink_entries()
        return CacheState(
            policy=self.policy,
            positions=self.positions,
            sinks=self.sinks,
            window=self.window,
            position=len(self.fed) - len(self._again),
            kv_entries=len(self._kept),
            sink_entries=sink_entries,
            kv_bytes=1024 * (max(self.window, len(self._kept)) if self.policy == "full" else self.window),
            evicted_total=self._evicted,
            readmitted_total=self._readmitted,
            horizon=self._kept[sink_entries] if sink_entries < len(self._kept) else len(self.fed) - len(self._again),
            recomputed_total=self._recomputed,
        )

    def share_heads(self) -> Heads | None:
        share = self._share()
        if share is None:
            return None
        layers, heads = self.facts.layers, self.facts.heads
        return tuple(
            tuple(min(1.0, share * (1 + layer + head) / (layers + heads)) for head in range(heads))
            for layer in range(layers)
        )

    def device_memory(self) -> DeviceMemory | None:
        return DeviceMemory(used=3_000_000, total=8_000_000, free=5_000_000)

    def resample(self, sampling: Sampling) -> None:
        self.sampling = sampling if sampling.seed is not None else replace(sampling, seed=SEED)

    def truncate(self, position: int) -> None:
        if self._evicted:
            raise CacheError("Entries were evicted, and what they held cannot be taken back; use /clear.")
        del self.fed[position:], self._kept[position:]
        self._said, self._pending = 0, None

    def cancel(self) -> None:
        self._cancelled.set()

    # -- runs

    def prefill(self, ids: Sequence[int]) -> Iterator[Event]:
        self._cancelled.clear()
        self._refuse_full(len(ids))
        yield from self._feed_pending()
        self._said = 0 if ids else self._said
        done, losses, shares = 0, [], []
        heads = None
        while done < len(ids):
            if self._cancelled.is_set():
                yield self._finished("cancelled", done, shares, heads)
                return
            if self._spend("fail_after", 1):
                yield self._finished("error", done, shares, heads, error="the device is out of memory")
                return
            yield from self._make_room()
            time.sleep(self.chunk_delay)
            free = self.window - len(self._kept) if self.policy == "recompute" else self.chunk
            piece = tuple(ids[done : done + min(self.chunk, free)])
            held = len(self._kept)
            chunk_losses = tuple(self._feed_measured(token, losses, shares) for token in piece)
            heads = self.share_heads()
            yield from self._drop_overflow()
            done += len(piece)
            yield ChunkRead(
                done=done,
                total=len(ids),
                ids=piece,
                texts=tuple(text_of(token) for token in piece),
                losses=chunk_losses,
                shares=tuple(shares[-len(piece) :]),
                cache=self.state(),
                entries=tuple(self._bounded(held + number) for number in range(1, len(piece) + 1)),
            )
        yield Prefilled(
            tokens=len(ids),
            loss=_mean(losses),
            sink_share=_mean(shares),
            share_heads=heads,
            seconds=0.001 * len(ids),
            cache=self.state(),
        )

    def generate(self, max_tokens: int, *, ignore_stops: bool = False) -> Iterator[Event]:
        if not self.fed:
            raise CacheError("There is nothing to continue: no token was read yet; say something first.")
        self._cancelled.clear()
        yield from self._feed_pending()
        thoughts = words(self.thinking)
        script = (*thoughts, *words(self.reply))
        shares: list[float | None] = []
        heads = None
        count = 0
        while True:
            if self._cancelled.is_set():
                yield self._finished("cancelled", count, shares, heads)
                return
            if max_tokens and count >= max_tokens:
                yield self._finished("length", count, shares, heads)
                return
            if self._said >= len(script) and not ignore_stops:
                yield self._finished("stop", count, shares, heads, stop_id=STOP)
                return
            if self._spend("fail_after", 1):
                yield self._finished("error", count, shares, heads, error="the device is out of memory")
                return
            self._refuse_full(1)
            time.sleep(self.token_delay)
            token = self._pending = script[self._said % len(script)]
            share = self._share()
            yield Token(
                id=token,
                text=text_of(token),
                loss=self._loss(token),
                sink_share=share,
                strong_head=None if share is None else StrongHead(1, 2, min(1.0, share + 0.3)),
                strong_entry=self._strong_entry(),
                cache=self.state(),
                part="thinking" if self._said % len(script) < len(thoughts) else "answer",
            )
            self._said += 1
            count += 1
            shares.append(share)
            heads = self.share_heads()
            yield from self._make_room()
            self._feed(token)
            self._pending = None
            yield from self._drop_overflow()
            if count == self.loop_after:
                yield Looping(period=3, repeats=4)

    def change(
        self,
        *,
        policy: Policy | None = None,
        positions: Positions | None = None,
        sinks: int | None = None,
        window: int | None = None,
    ) -> Iterator[Event]:
        wanted_window = self.window if window is None else window
        wanted_sinks = self.sinks if sinks is None else sinks
        if wanted_window < 1 or not 0 <= wanted_sinks < wanted_window:
            raise CacheError(f"{wanted_sinks} sinks do not fit a window of {wanted_window}; raise the window.")
        if policy == "full" and len(self.fed) > self.facts.trained_length:
            raise CacheError("The sequence is longer than the model was trained for; use /clear first.")
        yield from self._run_again()
        before = self.state()
        cause: Literal["policy", "positions", "sinks", "window"] = (
            "policy" if policy else "sinks" if sinks is not None else "window" if window is not None else "positions"
        )
        count = len(self._kept)
        was = self.policy
        self.policy = policy or self.policy
        self.positions = positions or self.positions
        self.sinks, self.window = wanted_sinks, wanted_window
        newest_only = was in KEEPING and self.policy == "window"
        keep = [position for position in self._kept if not (newest_only and position < self.sinks)]
        if self.policy == "full":
            keep = list(range(len(self.fed)))
        elif self.policy in KEEPING:
            first = list(range(min(self.sinks, len(self.fed))))
            rest = [position for position in keep if position >= len(first)]
            keep = first + rest[max(0, len(rest) - (min(count, self.window) - len(first))) :]
        keep = keep[len(keep) - min(len(keep), self.window) :] if self.policy == "window" else keep
        yield from self._move(keep, "sinks" if cause == "sinks" else "window" if cause == "window" else "policy")
        if cause == "sinks" and self._evicted:
            yield Rebuilding(len(keep), len(keep))
        yield CacheChanged(cause, before, self.state(), exact=cause != "sinks" or not before.evicted_total)

    def rebuild(self) -> Iterator[Event]:
        self._cancelled.clear()
        yield from self._run_again()
        before = self.state()
        total = len(self._kept)
        for done in range(self.chunk, total + self.chunk, self.chunk):
            yield Rebuilding(min(done, total), total)
        yield CacheChanged("rebuild", before, self.state(), exact=not before.evicted_total)

    def clear(self) -> Iterator[Event]:
        before = self.state()
        self.fed.clear()
        self._kept.clear()
        self._again.clear()
        self._evicted = self._readmitted = self._recomputed = self._said = 0
        self._pending = None
        yield CacheChanged("clear", before, self.state(), exact=True)

    # -- figures: made up, and the same in every run

    def _loss(self, token: int) -> float:
        base = 1.5 + (zlib.crc32(b"%d %d" % (token, len(self.fed))) % 1000) / 1000
        return base + 3.0 if self._evicted and 0 not in self._kept[:1] else base

    def _share(self) -> float | None:
        if not self.sinks or not self._kept:
            return None
        wave = (len(self.fed) % 10) / 100
        return 0.4 + wave if self._kept[0] == 0 else 0.02 + wave

    def _strong_entry(self) -> StrongEntry | None:
        others = self._kept[self._sink_entries() :]
        if not others:
            return None
        position = others[len(others) // 2]
        return StrongEntry(position, text_of(self.fed[position]), 0.07)

    # -- entries

    def _sink_entries(self) -> int:
        if self.policy not in KEEPING:
            return 0
        return sum(1 for position in self._kept[: self.sinks] if position < self.sinks)

    def _make_room(self) -> Iterator[Event]:
        """Under `recompute`, with the window full: the older half of the recents leaves, and the newer runs again."""
        yield from self._run_again()
        if self.policy != "recompute" or len(self._kept) < self.window:
            return
        sinks = self._sink_entries()
        middle = sinks + -(-(len(self._kept) - sinks) // 2)
        keep, self._again = self._kept[:sinks], self._kept[middle:]
        del self._kept[middle:]
        self._recomputed += len(self._again)
        yield from self._move(keep, "recompute")
        yield from self._run_again()

    def _run_again(self) -> Iterator[Event]:
        total = len(self._again)
        while self._again:
            time.sleep(self.chunk_delay)
            for _ in range(min(self.chunk, len(self._again))):
                self._count()
                self._kept.append(self._again.pop(0))
            yield Rebuilding(total - len(self._again), total)

    def _feed_pending(self) -> Iterator[Event]:
        yield from self._make_room() if self._pending is not None else self._run_again()
        if self._pending is not None:
            self._feed(self._pending)
            self._pending = None
            yield from self._drop_overflow()
            yield Rebuilding(1, 1)

    def _feed_measured(self, token: int, losses: list[float | None], shares: list[float | None]) -> float | None:
        loss = self._loss(token) if self.fed else None
        losses.append(loss)
        shares.append(self._share())
        self._feed(token)
        return loss

    def _feed(self, token: int) -> None:
        self._count()
        self._kept.append(len(self.fed))
        self.fed.append(token)

    def _count(self) -> None:
        """A token is fed."""
        if self._spend("raise_after", 1):
            raise RuntimeError("the device is gone")

    def _bounded(self, entries: int) -> int:
        return entries if self.policy == "full" else min(entries, self.window)

    def _drop_overflow(self) -> Iterator[Event]:
        if self.policy == "full" or len(self._kept) <= self.window:
            return
        kept_for_good = self._sink_entries()
        excess = len(self._kept) - self.window
        yield from self._move(self._kept[:kept_for_good] + self._kept[kept_for_good + excess :], "token")

    def _move(
        self, keep: list[int], cause: Literal["token", "policy", "window", "sinks", "rebuild", "recompute"]
    ) -> Iterator[Event]:
        gone = sorted(set(self._kept) - set(keep))
        back = sorted(set(keep) - set(self._kept))
        self._kept = keep
        self._evicted += len(gone)
        self._readmitted += len(back)
        for first, last in _runs(gone):
            text = "".join(text_of(self.fed[position]) for position in range(first, last + 1))
            yield Evicted(first, last, last - first + 1, text, cause)
        for first, last in _runs(back):
            yield Readmitted(first, last, last - first + 1)

    def _refuse_full(self, more: int) -> None:
        if self.policy == "full" and len(self.fed) + more > self.facts.trained_length:
            raise CacheError(f"The full cache is bound to {self.facts.trained_length} positions; use /policy sinks.")

    def _spend(self, counter: str, tokens: int) -> bool:
        left = getattr(self, counter)
        if left is None:
            return False
        setattr(self, counter, None if left < tokens else left - tokens)
        return bool(left < tokens)

    def _finished(
        self,
        reason: Reason,
        tokens: int,
        shares: Sequence[float | None],
        heads: Heads | None,
        stop_id: int | None = None,
        error: str | None = None,
    ) -> Finished:
        return Finished(
            reason=reason,
            tokens=tokens,
            tokens_per_second=50.0 if tokens > 1 else None,
            seconds_to_first_token=0.02 if tokens else None,
            sink_share=_mean(shares),
            share_heads=heads,
            cache=self.state(),
            stop_id=stop_id,
            error=error,
        )


def _runs(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ascending positions as runs without a gap."""
    start = 0
    for index in range(1, len(positions) + 1):
        if index == len(positions) or positions[index] != positions[index - 1] + 1:
            yield positions[start], positions[index - 1]
            start = index


def shorter(facts: ModelFacts, trained_length: int) -> ModelFacts:
    """The same model, trained for fewer positions."""
    return replace(facts, trained_length=trained_length)
