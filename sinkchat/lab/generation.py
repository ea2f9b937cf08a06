"""Going on freely from a prompt: does it turn in circles, and what does the full cache say to what was written?

The loss of a model's own text tells little by itself, since it drifts under any rule. Beside it stands the loss of
the same tokens under the full cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sinkchat.engine.events import ChunkRead, Finished, Token
from sinkchat.engine.loops import LoopWatch
from sinkchat.errors import SinkchatError, UsageError
from sinkchat.lab.figures import bin_size, binned, mean
from sinkchat.lab.reading import Watching, engine_for, with_sinks
from sinkchat.lab.results import FULL, Generation, Rule
from sinkchat.models.load import LoadedModel
from sinkchat.models.sampling import Sampling
from sinkchat.models.tokens import TextStream

LONGEST_NGRAM = 4


@dataclass
class Drawn:
    """What was drawn: tokens and their losses, in order."""

    ids: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)


def check_goes_past(prompt: int, tokens: int, window: int) -> None:
    """That `tokens` written behind a prompt of so many outgrow the window; raises UsageError, in one sentence, where
    none would be drawn after the first eviction: such writing looks sound under any rule."""
    # One token makes the first entry leave, and the next is the first that is predicted without it.
    last, least = prompt + tokens, window + 2
    if last >= least:
        return
    none = "nothing would ever be evicted" if last <= window else "nothing would be drawn after the first eviction"
    ways = [f"--generate {least - prompt} or more"]
    if last > 2:
        ways.append(f"--window {last - 2} or less")
    raise UsageError(
        f"{tokens:,} tokens are to be written behind a prompt of {prompt:,}, and the window holds {window:,}: "
        f"{none}, so the writing would look sound for no reason; give {', or '.join(ways)}."
    )


def generate(
    loaded: LoadedModel,
    rule: Rule,
    prompt: Sequence[int],
    tokens: int,
    seed: int,
    watching: Watching,
    *,
    sampling: Sampling | None = None,
    size: int | None = None,
) -> Generation:
    """Draw `tokens` tokens behind the prompt, the model's stops left out; then read all of it under the full cache.

    `sampling` None: as the model's makers say. `size`: tokens of a bin of the curve. `watching` is told the tokens
    that were fed, the prompt's and the second reading's among them; once it has enough, what was drawn so far is
    told, and of an unfinished second reading nothing.
    Raises UsageError without a prompt or tokens, CacheError when the rule makes no cache, SinkchatError when the
    device fails.
    """
    if not prompt:
        raise UsageError("The prompt has no tokens, and there is nothing to go on from; give a prompt.")
    if tokens < 1:
        raise UsageError(f"{tokens:,} tokens cannot be drawn; ask for 1 or more.")
    ids = with_sinks(loaded, prompt, rule.sinks, rule.sink_tokens)
    drawing = _Watched(watching)
    drawn = _draw(loaded, rule, ids, tokens, replace(sampling or loaded.sampling, seed=seed), drawing)
    full = None
    if drawn.ids and not drawing.enough and len(ids) + len(drawn.ids) <= loaded.facts.trained_length:
        full = drawn.losses if rule == FULL else _read_again(loaded, ids, drawn.ids, drawing)
    return _told(loaded, rule, seed, ids, drawn, full, size or bin_size(tokens))


def spelled(loaded: LoadedModel, ids: Sequence[int]) -> str:
    """The text of these tokens, special ones by their names."""
    return TextStream(loaded.tokenizer).decode(ids)


def loops(ids: Sequence[int]) -> tuple[int, int | None]:
    """How many of the tokens continue a loop, as `LoopWatch` notices it; and how many there were at the first, None
    without any."""
    watch = LoopWatch()
    noticed = [number for number, token in enumerate(ids, 1) if watch.push(token)]
    return len(noticed), noticed[0] if noticed else None


def distinct(ids: Sequence[int], length: int) -> float | None:
    """Different n-grams of `length` tokens, of all; None when there is none."""
    ngrams = [tuple(ids[start : start + length]) for start in range(len(ids) - length + 1)]
    return len(set(ngrams)) / len(ngrams) if ngrams else None


class _Watched:
    """Tokens over several readings, told as one count; and whether it is enough."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self.done = 0
        self.enough = False

    def more(self, tokens: int) -> bool:
        """Whether to go on."""
        self.done += tokens
        self.enough = self.enough or not self._watching(self.done)
        return not self.enough


def _draw(
    loaded: LoadedModel, rule: Rule, prompt: Sequence[int], tokens: int, sampling: Sampling, watched: _Watched
) -> Drawn:
    engine = engine_for(loaded, rule, sampling)
    drawn = Drawn()
    for event in engine.prefill(prompt):
        if isinstance(event, ChunkRead) and not watched.more(len(event.ids)):
            engine.cancel()
        _check(event)
    if watched.enough:
        return drawn
    for event in engine.generate(tokens, ignore_stops=True):
        if isinstance(event, Token):
            drawn.ids.append(event.id)
            drawn.losses.append(event.loss)
            if not watched.more(1):
                engine.cancel()
        _check(event)
    return drawn


def _read_again(
    loaded: LoadedModel, prompt: Sequence[int], drawn: Sequence[int], watched: _Watched
) -> list[float] | None:
    """Losses of the drawn tokens under the full cache; None if it was ended before."""
    engine = engine_for(loaded, FULL)
    losses: list[float | None] = []
    for event in engine.prefill([*prompt, *drawn]):
        if isinstance(event, ChunkRead):
            losses.extend(event.losses)
            if not watched.more(len(event.ids)):
                engine.cancel()
        _check(event)
    known = [loss for loss in losses[len(prompt) :] if loss is not None]
    return known if len(known) == len(drawn) else None


def _check(event: object) -> None:
    if isinstance(event, Finished) and event.error:
        raise SinkchatError(event.error)


def _told(
    loaded: LoadedModel,
    rule: Rule,
    seed: int,
    prompt: Sequence[int],
    drawn: Drawn,
    full: Sequence[float] | None,
    size: int,
) -> Generation:
    count = len(drawn.ids)
    looped, first = loops(drawn.ids)
    means = [value for value in binned(drawn.losses, size) if value is not None]
    means_full = binned(full, size) if full is not None else [None] * len(means)
    return Generation(
        rule=rule,
        seed=seed,
        prompt_tokens=len(prompt),
        tokens=count,
        loop_rate=looped / count if count else 0.0,
        loop_at=first,
        distinct=tuple(distinct(drawn.ids, length) for length in range(1, LONGEST_NGRAM + 1)),
        loss=mean(drawn.losses),
        loss_full=None if full is None else mean(full),
        curve=tuple((n * size, *pair) for n, pair in enumerate(zip(means, means_full, strict=True))),
        text=spelled(loaded, drawn.ids),
        prompt=spelled(loaded, prompt),
    )
