"""The texts that a chat template puts around what is said, cut out of short renderings.

Sentinels take the place of what is said. Everything that a template does by looking at more than a few turns
(dropping the thinking of earlier replies, moving a system prompt to the latest turn) happens once or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sinkchat.errors import ModelError
from sinkchat.models.rendering import Conversation, Limits, Rendered, render

_SYSTEM, _FIRST, _REPLY, _SECOND = "SinkchatSystem", "SinkchatFirst", "SinkchatReply", "SinkchatSecond"
_TURNS = (("user", _FIRST), ("assistant", _REPLY), ("user", _SECOND))


@dataclass(frozen=True, slots=True)
class Frames:
    """In writing; control tokens by their names."""

    bare: str = ""
    """From the start to the first text of the person, without a system prompt but a template's own."""
    head: str = ""
    """From the start to a system prompt that is given."""
    middle: str = "\n\n"
    """Between that system prompt and the first text of the person."""
    between: str = ""
    """From the end of a reply to the person's next text."""
    ask: str = ""
    """From the end of the person's text to the reply."""
    end: str = ""
    """What closes the last reply of a conversation."""
    person: str = ""
    """What opens a person's turn: the end of `between`, without what closes the reply."""
    own: str = ""
    """The words of a system prompt that the template puts in where none is given; empty where they cannot be told."""


NO_FRAMES = Frames()


@dataclass(frozen=True, slots=True)
class _Shown:
    """One template's renderings."""

    first: str
    """The person's first text, and the reply is asked for."""
    unasked: str
    turns: str
    ended: str
    system: Rendered


def find_frames(source: str, names: dict[str, str], control: Collection[str], limits: Limits | None = None) -> Frames:
    """The frames of the template `source`.

    names: the tokenizer's special tokens by their role. control: the names of all its control tokens.
    Raises `ModelError` when the template fails, or shows a conversation in a way that cannot be appended to.
    """
    shown = _shown(source, names, limits)
    bare, _ = _cut(shown.first, _FIRST)
    opening, rest = _cut(_cut(shown.turns, _FIRST)[1], _REPLY)
    between, ask = _cut(rest, _SECOND)
    _, end = _cut(shown.ended, _REPLY)
    if shown.first == shown.unasked and opening.startswith(ask) and opening[len(ask) :].strip():
        # It knows no generation prompt, and the header of a reply comes with the reply alone.
        ask = opening.rstrip(" ")
    closing = _closing(between, end, control)
    person = between[len(closing) :]
    around = _around_system(shown.system)
    head, middle = around or (bare, "\n\n")
    own = (around and _inside(bare, *around)) or _behind_header(bare, person, closing)
    return Frames(bare, head, middle, between, ask, end, person, own.strip())


def _shown(source: str, names: dict[str, str], limits: Limits | None) -> _Shown:
    """By texts as they are, or as lists of parts where only those are understood."""
    conversations = [
        Conversation(turns, ask, parts)
        for parts in (False, True)
        for turns, ask in (
            (_TURNS[:1], True),
            (_TURNS[:1], False),
            (_TURNS, True),
            (_TURNS[:2], False),
            ((("system", _SYSTEM), _TURNS[0]), True),
        )
    ]
    rendered = render(source, names, conversations, limits)
    plain, parts = rendered[:5], rendered[5:]
    chosen = parts if _problem(plain) and not _problem(parts) else plain
    if problem := _problem(chosen):
        raise problem
    first, unasked, turns, ended, system = chosen
    return _Shown(first.text, unasked.text, turns.text, ended.text, system)


def _problem(shown: Sequence[Rendered]) -> ModelError | None:
    """Why these renderings tell no frames."""
    first, _, turns, ended, _ = shown
    for rendered in (first, turns, ended):
        if rendered.error is not None:
            return ModelError(
                f"The model's chat template does not work ({rendered.error}); choose an instruct model whose "
                "template takes plain user and assistant turns, or take the template out of the model's folder to go "
                "on without turns."
            )
    wanted = ((first, (_FIRST,)), (turns, (_FIRST, _REPLY, _SECOND)), (ended, (_FIRST, _REPLY)))
    for rendered, sentinels in wanted:
        places = [rendered.text.find(sentinel) for sentinel in sentinels]
        if places != sorted(places) or any(rendered.text.count(sentinel) != 1 for sentinel in sentinels):
            return ModelError(
                "The model's chat template rewrites what was said, so a turn cannot be appended to it; choose an "
                "instruct model whose template shows every message once, or take the template out of the model's "
                "folder to go on without turns."
            )
    return None


def _around_system(shown: Rendered) -> tuple[str, str] | None:
    """What stands before the system prompt and behind it; None where the template does not take one."""
    if shown.error is not None or shown.text.count(_SYSTEM) != 1 or shown.text.count(_FIRST) != 1:
        return None
    head, rest = _cut(shown.text, _SYSTEM)
    return (head, _cut(rest, _FIRST)[0]) if _FIRST in rest else None


def _inside(bare: str, head: str, middle: str) -> str:
    """What stands where a given system prompt would."""
    fits = len(bare) > len(head) + len(middle) and bare.startswith(head) and bare.endswith(middle)
    return bare[len(head) : len(bare) - len(middle)] if fits else ""


def _behind_header(bare: str, person: str, closing: str) -> str:
    """What stands in a turn that opens like a person's, but for the role."""
    header = person.replace("user", "system")
    if header == person or not bare.endswith(person):
        return ""
    return _cut(bare.removesuffix(person), header)[1].removesuffix(closing)


def _closing(between: str, end: str, control: Collection[str]) -> str:
    """The part of `between` that closes the reply.

    It is what also stands at a conversation's end. Where that closes in another way (harmony's `<|return|>`), it is
    the first control token and the line break behind it.
    """
    if between.startswith(end):
        return end
    one, other = _pieces(between, control), _pieces(end, control)
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    closing = "".join(one[:same])
    if closing.strip():
        return closing
    place = next((n for n, piece in enumerate(one) if piece in control), None)
    if place is None:
        return ""
    after = one[place + 1] if place + 1 < len(one) else ""
    return "".join(one[: place + 1]) + (after if not after.strip() else "")


def _pieces(text: str, control: Collection[str]) -> list[str]:
    """Control tokens, and what stands between them."""
    names = "|".join(re.escape(name) for name in sorted(control, key=len, reverse=True))
    return [piece for piece in re.split(f"({names})", text) if piece] if names else [text]


def _cut(text: str, sentinel: str) -> tuple[str, str]:
    before, _, after = text.partition(sentinel)
    return before, after
