"""The engine: token ids in, events out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event as Flag
from typing import Any

import torch

from sinkchat.cache.bounded import BoundedCache
from sinkchat.cache.policy import Policy, Positions
from sinkchat.cache.proof import prove
from sinkchat.engine.events import (
    CacheChanged,
    CacheState,
    ChunkRead,
    DeviceMemory,
    Event,
    Finished,
    Heads,
    Looping,
    Prefilled,
    Reason,
    StrongEntry,
    Token,
)
from sinkchat.engine.loops import LoopWatch
from sinkchat.engine.memory import device_memory
from sinkchat.engine.meter import Meter
from sinkchat.engine.sampler import Sampler
from sinkchat.engine.sequence import TokenSequence
from sinkchat.engine.switching import Switcher, check_fits
from sinkchat.errors import CacheError
from sinkchat.models.facts import DEFAULT_WINDOW
from sinkchat.models.load import LoadedModel
from sinkchat.models.sampling import Sampling
from sinkchat.models.thinking import Part, ThinkingSplitter
from sinkchat.models.tokens import TextStream

CHUNK_LOGITS = 2**26
"""A chunk has at most this many logits, so that a vocabulary of 250,000 fits beside the model."""


class SinkEngine:
    """One sequence of a model over a bounded cache; satisfies `contract.Engine`."""

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        policy: Policy = "sinks",
        positions: Positions = "cache",
        sinks: int = 4,
        window: int | None = None,
        sampling: Sampling | None = None,
        chunk: int | None = None,
        distance: int = 0,
    ) -> None:
        """window: None is 4,096, or the trained length if that is less. chunk: tokens per prefill step. distance: how
        much further than by its position each token after the sinks stands, as if so much had been read in between.

        Runs a few tokens: they prove how each layer turns its queries, allocate the buffers, and are compared with
        the model's own attention.
        Raises CacheError when policy, sinks and window make no cache of this model; ModelRefused when its attention
        cannot be made exact; torch.OutOfMemoryError when the buffers do not fit.
        """
        self.facts = loaded.facts
        window = window if window is not None else min(DEFAULT_WINDOW, self.facts.trained_length)
        check_fits(self.facts, policy, sinks, window)
        cache = BoundedCache(
            loaded.model,
            prove(loaded.model, self.facts.trained_length if policy == "full" else window),
            policy=policy,
            positions=positions,
            sinks=sinks,
            window=window,
            distance=distance,
        )
        cache.warm_up()
        longest = 512 if torch.device(self.facts.device).type == "cuda" else 256
        self._chunk = chunk or max(1, min(longest, CHUNK_LOGITS // loaded.model.config.get_text_config().vocab_size))
        self._stops = tuple(sorted(loaded.stop_ids))
        self._tokenizer = loaded.tokenizer
        self._stream = TextStream(loaded.tokenizer)
        self._marks = loaded.template.thinking
        self._sequence = TokenSequence(cache)
        # nothing refers back to the engine, so that its cache is freed with it and not when garbage is collected
        self._text = _texts(loaded.tokenizer, self._sequence)
        self._switcher = Switcher(self._sequence, self.facts, self._chunk, self._text)
        self._sampler = Sampler(sampling or loaded.sampling)
        self._cancelled = Flag()
        self._running = False

    # What is

    @property
    def sampling(self) -> Sampling:
        """In force, with the seed that is used."""
        return self._sampler.sampling

    def state(self) -> CacheState:
        return self._sequence.state()

    def next_losses(self, ids: Sequence[int]) -> list[float]:
        """Loss in nats that each of these tokens would have as the next one."""
        return self._sequence.losses_of(ids)

    def share_heads(self) -> Heads | None:
        return self._sequence.share_heads()

    def device_memory(self) -> DeviceMemory | None:
        return device_memory(self.facts.device)

    def cancel(self) -> None:
        if self._running:
            self._cancelled.set()

    def resample(self, sampling: Sampling) -> None:
        self._sampler = Sampler(sampling)

    # What happens

    def prefill(self, ids: Sequence[int]) -> Iterator[Event]:
        sequence, meter = self._sequence, Meter()
        try:
            yield from self._switcher.catch_up()
        except RuntimeError as error:
            yield from self._failed(meter, 0, error)
            return
        first, total = sequence.read, len(ids)
        sequence.tokens.extend(ids)
        if ids:  # else a reply may go on in the middle of a character
            self._stream = TextStream(self._tokenizer)
        try:
            with self._cancellable():
                while sequence.pending and not self._cancelled.is_set():
                    yield from self._switcher.make_room()
                    read = sequence.feed(self._chunk)
                    meter.add(read)
                    if read.evicted:
                        yield self._switcher.evicted(read.evicted, "token")
                    texts = tuple(self._stream.push(token) for token in read.ids)
                    done = sequence.read - first
                    yield ChunkRead(
                        done,
                        total,
                        read.ids,
                        texts,
                        read.losses,
                        read.mean_shares(),
                        self.state(),
                        read.entries,
                    )
        except RuntimeError as error:
            yield from self._failed(meter, sequence.read - first, error)
            return
        finally:
            # what was not read is no part of the sequence
            sequence.drop_pending()
        if (done := sequence.read - first) < total:
            yield self._finished("cancelled", done, meter)
        else:
            yield Prefilled(total, meter.loss(), meter.share(), meter.heads(), meter.seconds(), self.state())

    def generate(self, max_tokens: int, *, ignore_stops: bool = False) -> Iterator[Event]:
        sequence, meter, loops = self._sequence, Meter(), LoopWatch()
        looped, count, stop = False, 0, None
        reason: Reason = "length"
        if sequence.logits is None:
            raise CacheError("There is nothing to go on from; say something first.")
        splitter = self._splitter()
        try:
            yield from self._switcher.catch_up()
            with self._cancellable():
                while not (max_tokens and count >= max_tokens):
                    if self._cancelled.is_set():
                        reason = "cancelled"
                        break
                    token = self._draw(ignore_stops, splitter)
                    if token.id in self._stops and not ignore_stops:
                        reason, stop = "stop", token.id
                        break
                    count += 1
                    sequence.tokens.append(token.id)
                    meter.tick()
                    yield token
                    yield from self._switcher.make_room()
                    read = sequence.feed(1)
                    meter.add(read)
                    if read.evicted:
                        yield self._switcher.evicted(read.evicted, "token")
                    if not looped and (loop := loops.push(token.id)):
                        looped = True
                        yield Looping(*loop)
        except RuntimeError as error:
            yield from self._failed(meter, count, error)
            return
        yield self._finished(reason, count, meter, stop_id=stop)

    def change(
        self,
        *,
        policy: Policy | None = None,
        positions: Positions | None = None,
        sinks: int | None = None,
        window: int | None = None,
    ) -> Iterator[Event]:
        yield from self._told(self._switcher.change(policy, positions, sinks, window))

    def rebuild(self) -> Iterator[Event]:
        yield from self._told(self._switcher.rebuild())

    def truncate(self, position: int) -> None:
        state = self.state()
        if state.kv_entries < state.position:
            raise CacheError(
                f"Going back to position {position} is exact only while nothing was evicted, and "
                f"{state.position - state.kv_entries:,} tokens are gone; /clear, or say it again."
            )
        self._sequence.truncate(position)
        self._stream = TextStream(self._tokenizer)
        for token in self._sequence.tokens:  # up to where the text is now, which may be in the middle of a character
            self._stream.push(token)

    def clear(self) -> Iterator[Event]:
        before = self.state()
        self._sequence.cache.clear()
        self._sequence.forget()
        yield CacheChanged("clear", before, self.state(), exact=True)

    # Parts

    @contextmanager
    def _cancellable(self) -> Iterator[None]:
        self._cancelled.clear()
        self._running = True
        try:
            yield
        finally:
            self._running = False

    def _splitter(self) -> ThinkingSplitter | None:
        """Where the sequence's last reply has got to, which may be in the middle of its thinking."""
        if self._marks is None:
            return None
        reply = self._sequence.tokens[self._marks.reply_start(self._sequence.tokens) :]
        splitter = self._marks.splitter()
        splitter.push_all(zip(reply, TextStream(self._tokenizer).texts(reply), strict=True))
        return splitter

    def _draw(self, ignore_stops: bool, splitter: ThinkingSplitter | None) -> Token:
        sequence = self._sequence
        assert sequence.logits is not None
        drawn = self._sampler.draw(sequence.logits, sequence.tokens, self._stops if ignore_stops else ())
        strong = sequence.strong_entry
        text = self._stream.push(drawn)
        part: Part = "answer"
        if splitter is not None:
            part, text = splitter.push(drawn, text)
        return Token(
            id=drawn,
            text=text,
            loss=sequence.loss_of(drawn),
            sink_share=sequence.share(),
            learned_share=sequence.learned_share,
            strong_head=sequence.strong_head(),
            strong_entry=StrongEntry(strong[0], self._text(strong[0], strong[0]), strong[1]) if strong else None,
            cache=self.state(),
            part=part,
        )

    def _told(self, events: Iterator[Event]) -> Iterator[Event]:
        """A change; what it leaves to be done when it fails is done before the next token."""
        try:
            yield from events
        except RuntimeError as error:
            yield from self._failed(Meter(), 0, error)

    def _failed(self, meter: Meter, tokens: int, error: RuntimeError) -> Iterator[Event]:
        yield from self._switcher.tell_lost()
        yield self._finished("error", tokens, meter, error=_sentence(error, self.facts.device))

    def _finished(
        self, reason: Reason, tokens: int, meter: Meter, *, stop_id: int | None = None, error: str | None = None
    ) -> Finished:
        return Finished(
            reason=reason,
            tokens=tokens,
            tokens_per_second=meter.tokens_per_second(),
            seconds_to_first_token=meter.seconds_to_first_token(),
            sink_share=meter.share(),
            share_heads=meter.heads(),
            cache=self.state(),
            stop_id=stop_id,
            error=error,
        )


def _texts(tokenizer: Any, sequence: TokenSequence) -> Callable[[int, int], str]:
    """Gives the text of positions `first`..`last`."""
    return lambda first, last: TextStream(tokenizer).decode(sequence.tokens[first : last + 1])


def _sentence(error: RuntimeError, device: str) -> str:
    if isinstance(error, torch.OutOfMemoryError):
        return f"The memory of {device} ran out; a smaller window (/window N) or --quant nf4 needs less."
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"{device} reported: {first}"
