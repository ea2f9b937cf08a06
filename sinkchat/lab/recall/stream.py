"""One stream of tokens with many facts in it, each asked for once, at distances that are exact in tokens.

The facts lie in a filler text that goes on behind each of them. Many are in flight at once: between a fact and its
question there are others, and their questions, with the answers that the stream itself gives. The stream depends on
the tokenizer, the text, the window and the seed, and on no policy, so that policies are compared over the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from sinkchat.errors import UsageError
from sinkchat.lab.reading import first_token
from sinkchat.lab.recall.facts import Fact, FactMaker
from sinkchat.models.load import LoadedModel

PROBES = 90
SPACING = 72
"""Tokens of the stream for each fact, or more: facts in denser company are mixed up by small models."""

LEAD_IN = 32
"""Tokens before the first fact, so that none is planted where the sinks are."""

CHARACTERS_PER_TOKEN = 8
"""More than a token of a text has on average, with few exceptions."""

PLACES_TRIED = 1000


@dataclass(frozen=True, slots=True)
class Probe:
    """A fact in the stream and the question for it; positions of tokens."""

    first: int
    """Of the fact's first token."""
    answer: int
    """Of the fact's answer, its last token but for the line's end."""
    query: int
    """Of the question's last token, which is to predict the answer."""
    right: int
    """The token of the answer."""
    candidates: tuple[int, ...]
    """Tokens, the right one among them."""

    @property
    def distance(self) -> int:
        return self.query - self.answer


@dataclass(frozen=True, slots=True)
class Stream:
    window: int
    """That the distances were chosen for."""
    seed: int
    """That the facts and their places were drawn with."""
    ids: tuple[int, ...]
    probes: tuple[Probe, ...]
    """In the order in which they are asked."""

    def asked_within(self, tokens: int | None) -> tuple[Probe, ...]:
        """Those whose question lies in the first `tokens`; all for None."""
        return tuple(probe for probe in self.probes if tokens is None or probe.query < tokens)


def distances_for(window: int, margin: int) -> tuple[int, ...]:
    """Three inside the window, one `margin` outside, and two and four windows away."""
    inside = (window // 4, window // 2, 3 * window // 4)
    return (*inside, window + margin, 2 * window, 4 * window)


def make_stream(
    loaded: LoadedModel,
    text: str,
    window: int,
    seed: int,
    *,
    probes: int = PROBES,
    distances: Sequence[int] | None = None,
) -> Stream:
    """`probes` facts, evenly over the distances (None: those of `distances_for`), in `text`, which begins anew where
    it is too short.

    Raises UsageError for a window that holds no fact and its question, for a distance that is too short for them, for
    more facts than there are names, and for a tokenizer that has too few words.
    """
    longest = max(distances) if distances else 4 * window
    length = LEAD_IN + max(probes * SPACING, 3 * longest // 2)
    filler, read = _filler(loaded, text, length)
    maker = FactMaker(loaded, read)
    if not 1 <= probes <= len(maker.names):
        raise UsageError(
            f"{probes:,} facts cannot be planted: there are {len(maker.names)} names that the text does not have; "
            f"ask for 1 to {len(maker.names)}."
        )
    chance = Random(seed)
    facts = [maker.make(name, chance) for name in chance.sample(maker.names, probes)]
    least = max(len(fact.head) + len(fact.closing) for fact in facts)
    if distances is None:
        _check_window(window, least)
        # neither the question's tokens nor the one after them see anything of the fact
        distances = distances_for(window, max(least, window // 32))
    elif min(distances) < least:
        raise UsageError(
            f"A fact and its question do not fit into {min(distances):,} tokens; give distances of {least} or more."
        )
    far = sorted((distances[n % len(distances)] for n in range(probes)), reverse=True)
    opening = first_token(loaded.tokenizer)
    while True:
        placed = _place(list(zip(facts, far, strict=True)), length, chance)
        if placed is not None:
            return Stream(window, seed, *_write(placed, opening, filler))
        length += length // 4


def _check_window(window: int, least: int) -> None:
    # the farthest fact inside stands in the newest three quarters, with its head in the oldest
    if window // 4 < least:
        raise UsageError(
            f"A window of {window:,} entries is too small for the recall probe, whose facts take up to {least + 1} "
            f"tokens; give a window of {4 * least} or more, or leave the recall probe out."
        )


def _filler(loaded: LoadedModel, text: str, length: int) -> tuple[tuple[int, ...], str]:
    """The tokens of as much of the text as fills `length` tokens, if it has so many; and that part of it."""
    characters = CHARACTERS_PER_TOKEN * length
    while True:
        read = text[:characters]
        ids = loaded.tokenizer(read, add_special_tokens=False, split_special_tokens=True, verbose=False).input_ids
        if len(ids) >= length or len(read) == len(text):
            break
        characters *= 2
    if not ids:
        raise UsageError("The text is empty, and facts are planted in a text; give one.")
    return tuple(ids), read


Placed = list[tuple[Fact, int, int]]
"""Facts with the positions of their answer and of their query."""


def _place(wanted: Sequence[tuple[Fact, int]], length: int, chance: Random) -> Placed | None:
    """Places for facts and their questions at these distances, none over another; None if there is no room.

    The farthest come first: they have the fewest places.
    """
    taken = bytearray(length)
    placed: Placed = []
    for fact, distance in wanted:
        before, after = len(fact.head), 1 + len(fact.closing)
        last = length - distance - after - 1
        for _ in range(PLACES_TRIED if last >= LEAD_IN + before else 0):
            answer = chance.randint(LEAD_IN + before, last)
            # the question's answer is given behind its query
            spans = [slice(at - before, at + after) for at in (answer, answer + distance + 1)]
            if not any(any(taken[span]) for span in spans):
                break
        else:
            return None
        for span in spans:
            taken[span] = bytes([1]) * (before + after)
        placed.append((fact, answer, answer + distance))
    return placed


def _write(
    placed: Placed, opening: tuple[int, ...], filler: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[Probe, ...]]:
    """The stream's tokens, up to the last question's answer, and its probes."""
    lines = sorted((at, fact) for fact, answer, query in placed for at in (answer, query + 1))
    ids = list(opening)
    used = 0
    for at, fact in lines:
        gap = at - len(fact.head) - len(ids)
        ids.extend(filler[n % len(filler)] for n in range(used, used + gap))
        used += gap
        ids.extend((*fact.head, fact.answer, *fact.closing))
    probes = (
        Probe(answer - len(fact.head), answer, query, fact.answer, fact.candidates) for fact, answer, query in placed
    )
    return tuple(ids), tuple(sorted(probes, key=lambda probe: probe.query))
