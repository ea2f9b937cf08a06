"""How one model's turns are written, found from its own chat template, as token ids.

A conversation only grows, so it is never rendered and fed again: what stands around the texts (`frames.py`) is
encoded once, and the texts are put between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sinkchat.errors import ModelError
from sinkchat.models.encoding import TextEncoder
from sinkchat.models.frames import NO_FRAMES, find_frames
from sinkchat.models.rendering import Limits
from sinkchat.models.thinking import ThinkingMarks, find_marks


class ChatTemplate:
    """The `Template` that the engine and the chat know, over a tokenizer of transformers.

    Raises `ModelError` when the model's template fails, comes to no end, or shows a conversation in a way that cannot
    be appended to.
    """

    def __init__(self, tokenizer: Any, *, limits: Limits | None = None) -> None:
        self._tokenizer = tokenizer
        source = _source(tokenizer.chat_template)
        self.plain = source is None
        """True when the model has no chat template: the text is continued as it is, and all frames are empty."""
        added = {i: token.content for i, token in tokenizer.added_tokens_decoder.items() if token.content.strip()}
        self._frames = NO_FRAMES
        if source is not None:
            self._frames = find_frames(source, _roles(tokenizer), added.values(), limits)
        frames = self._frames
        # Whether or not they are marked as special: the tokens that frames are made of, and those that part thinking.
        used = set(tokenizer(frames.bare + frames.between + frames.ask, add_special_tokens=False)["input_ids"])
        marks = find_marks(added, frames.ask)
        self._encoder = TextEncoder(tokenizer, control=(used & added.keys()) | marks.keys())
        self._spaced: set[tuple[int, ...]] = set()
        self._between = self._leading(frames.between)
        self._ask = self._encoder.frame(frames.ask)
        self.stop_ids = self._stops(added)
        """Tokens that the template ends a reply with; empty where it has none of its own."""
        self.own_system = frames.own or None
        """The words of a system prompt that the template puts in where none is given, if they can be told."""
        self.thinking = None if self.plain else ThinkingMarks(marks, self._ask, frames.ask)
        """How this model's thinking is told from its answers; None without a template."""

    def opening(self, system: str | None) -> tuple[tuple[int, ...], int]:
        """Ids from the start of a sequence up to the first text of the person, and how many of them, from the
        first, belong to the system prompt. A prompt that the template itself puts in belongs to it too.

        Where the template refuses a system role, the prompt opens the person's first message.
        """
        if self.plain:
            return self._plain_opening(system)
        if system is None:
            ids = self._leading(self._frames.bare, first=True)
            return ids, self._injected(ids)
        middle, person = self._frames.middle, self._frames.person
        head = self._leading(self._frames.head, first=True)
        before = head + self.encode(system, after=head)
        after = self._leading(middle, behind=before)
        if not middle.endswith(person):
            return before + after, len(before + after)
        closing = self._encoder.frame(middle[: len(middle) - len(person)])
        return before + after, len(before) + _common(closing, after)

    def between(self) -> tuple[int, ...]:
        """Ids that close the model's reply and open the person's next turn."""
        return self._between

    def ask(self) -> tuple[int, ...]:
        """Ids that close the person's turn and open the model's reply."""
        return self._ask

    def encode(self, text: str, *, after: Sequence[int] = ()) -> tuple[int, ...]:
        """A person's or file's text; a special token spelled out in it stays text.

        after: the ids of `opening` or `between` when the text is the first behind them: the space that they end with
        in writing is the text's.
        """
        return self._encoder.text(" " + text if tuple(after) in self._spaced else text)

    def _leading(self, frame: str, *, first: bool = False, behind: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Ids of a frame that a text follows, without the space at its end. `behind`: what stands before it."""
        bare = frame.removesuffix(" ")
        ids = self._encoder.frame(bare, first=first, leads=True)
        if bare != frame:
            self._spaced.add(behind + ids)
        return ids

    def _plain_opening(self, system: str | None) -> tuple[tuple[int, ...], int]:
        with_bos = self._tokenizer("a")["input_ids"]
        bos = self._tokenizer.bos_token_id
        ids: tuple[int, ...] = (bos,) if with_bos and with_bos[0] == bos else ()
        if system is None:
            return ids, 0
        ids += self._encoder.text(system) + self._encoder.frame("\n\n", leads=True)
        return ids, len(ids)

    def _injected(self, ids: tuple[int, ...]) -> int:
        """How many of the bare opening's ids are a system prompt of the template's own."""
        bare, person = self._frames.bare, self._frames.person
        if bare.endswith(person):
            prompt = self._encoder.frame(bare[: len(bare) - len(person)], first=True)
            count = _common(prompt, ids)
        else:
            # The first turn opens unlike the others: a prompt is in it if it is the longer one.
            count = len(ids) if len(bare) > len(person) else 0
        written = any(not self._encoder.is_special(token_id) for token_id in ids[:count])
        return count if written else 0

    def _stops(self, added: Mapping[int, str]) -> frozenset[int]:
        """The token that closes a conversation's last reply, and in channels the one that calls a tool."""
        stops = {i for i, name in added.items() if name == "<|call|>" and "<|channel|>" in added.values()}
        for token_id in self._encoder.frame(self._frames.end):
            if self._encoder.is_special(token_id):
                stops.add(token_id)
                break
            if self._tokenizer.decode([token_id]).strip():
                break
        return frozenset() if self.plain else frozenset(stops)


def _source(given: str | Mapping[str, str] | None) -> str | None:
    """The template for turns without tools; a tokenizer may have several, by name. None if there is none."""
    if not isinstance(given, Mapping):
        return given or None
    if not given:
        return None
    if "default" in given:
        return given["default"] or None
    if len(given) == 1:
        return next(iter(given.values())) or None
    raise ModelError(
        f"The model has chat templates for {', '.join(sorted(given))} and none is its default; name one of them "
        "`default` in the model's folder, or choose another model."
    )


def _roles(tokenizer: Any) -> dict[str, str]:
    """The special tokens that templates name: `bos_token` and its kin."""
    return {role: str(name) for role, name in tokenizer.special_tokens_map.items() if isinstance(name, str)}


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Length of the common prefix."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
