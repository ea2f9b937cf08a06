"""How one model's turns are written, found from its own chat template.

A conversation only grows, so it is never rendered and fed again: what stands around and between the texts is cut
out of short renderings in which sentinels take the place of the texts. Everything that a template does by looking
at more than that (dropping the thinking of earlier replies, writing today's date) happens once or not at all.
"""

from __future__ import annotations

from typing import Any

from jinja2 import TemplateError

from sinkchat.errors import ModelError
from sinkchat.models.encoding import TextEncoder

_SYSTEM, _FIRST, _REPLY, _SECOND = "SinkchatSystem", "SinkchatFirst", "SinkchatReply", "SinkchatSecond"


class ChatTemplate:
    """The `Template` that the engine and the chat know, over a tokenizer of transformers.

    Raises `ModelError` when the model's template shows a conversation in a way that cannot be appended to.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.plain = not tokenizer.chat_template
        """True when the model has no chat template: the text is continued as it is, and all frames are empty."""
        self._bare = between = ask = end = ""
        if not self.plain:
            turns = [("user", _FIRST), ("assistant", _REPLY), ("user", _SECOND)]
            self._bare, _ = self._cut(self._rendered(turns[:1], ask=True), _FIRST)
            _, rest = self._cut(self._rendered(turns, ask=True), _REPLY)
            between, ask = self._cut(rest, _SECOND)
            _, end = self._cut(self._rendered(turns[:2], ask=False), _REPLY)
        # What closes a reply also begins `between`; what is left of it opens a person's turn.
        self._person = between.removeprefix(end)
        self._encoder = TextEncoder(tokenizer, control=_added_ids(tokenizer, self._bare + between + ask))
        self._between = self._encoder.frame(between, leads=True)
        self._ask = self._encoder.frame(ask)
        self.stop_id = self._first_special(self._encoder.frame(end))
        """The token that the template ends a reply with; None where it has none of its own."""

    def opening(self, system: str | None) -> tuple[tuple[int, ...], int]:
        """Ids from the start of a sequence up to the first text of the person, and how many of them, from the
        first, belong to the system prompt. A prompt that the template itself puts in belongs to it too.

        Where the template refuses a system role, the prompt opens the person's first message.
        """
        if self.plain:
            return self._plain_opening(system)
        if system is None:
            ids = self._encoder.frame(self._bare, first=True, leads=True)
            return ids, self._injected(ids)
        head, middle = self._around_system()
        before = self._encoder.frame(head, first=True, leads=True) + self._encoder.text(system)
        after = self._encoder.frame(middle, leads=True)
        if not middle.endswith(self._person):
            return before + after, len(before + after)
        closing = self._encoder.frame(middle[: len(middle) - len(self._person)])
        return before + after, len(before) + _common(closing, after)

    def between(self) -> tuple[int, ...]:
        """Ids that close the model's reply and open the person's next turn."""
        return self._between

    def ask(self) -> tuple[int, ...]:
        """Ids that close the person's turn and open the model's reply."""
        return self._ask

    def encode(self, text: str) -> tuple[int, ...]:
        """A person's or file's text; a special token spelled out in it stays text."""
        return self._encoder.text(text)

    def _plain_opening(self, system: str | None) -> tuple[tuple[int, ...], int]:
        with_bos = self._tokenizer("a")["input_ids"]
        bos = self._tokenizer.bos_token_id
        ids: tuple[int, ...] = (bos,) if with_bos and with_bos[0] == bos else ()
        if system is None:
            return ids, 0
        ids += self._encoder.text(system) + self._encoder.frame("\n\n", leads=True)
        return ids, len(ids)

    def _around_system(self) -> tuple[str, str]:
        """What stands before the system prompt, and between it and the first text of the person."""
        turns = [("system", _SYSTEM), ("user", _FIRST)]
        try:
            head, rest = self._cut(self._rendered(turns, ask=True), _SYSTEM)
            middle, _ = self._cut(rest, _FIRST)
        except ModelError:
            return self._bare, "\n\n"
        return head, middle

    def _injected(self, ids: tuple[int, ...]) -> int:
        """How many of the bare opening's ids are a system prompt of the template's own."""
        if self._bare.endswith(self._person):
            prompt = self._encoder.frame(self._bare[: len(self._bare) - len(self._person)], first=True)
            count = _common(prompt, ids)
        else:
            # The first turn opens unlike the others: a prompt is in it if it is the longer one.
            count = len(ids) if len(self._bare) > len(self._person) else 0
        written = any(not self._encoder.is_special(token_id) for token_id in ids[:count])
        return count if written else 0

    def _first_special(self, ids: tuple[int, ...]) -> int | None:
        for token_id in ids:
            if self._encoder.is_special(token_id):
                return token_id
            if self._tokenizer.decode([token_id]).strip():
                break
        return None

    def _rendered(self, turns: list[tuple[str, str]], *, ask: bool) -> str:
        messages = [{"role": role, "content": content} for role, content in turns]
        try:
            text: str = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=ask)
        except (TemplateError, TypeError, ValueError) as error:
            raise ModelError(
                f"The model's chat template does not work ({error}); "
                "choose an instruct model whose template takes plain user and assistant turns."
            ) from error
        return text

    def _cut(self, text: str, sentinel: str) -> tuple[str, str]:
        if text.count(sentinel) != 1:
            raise ModelError(
                "The model's chat template rewrites what was said, so a turn cannot be appended to it; "
                "choose an instruct model whose template shows every message once."
            )
        before, _, after = text.partition(sentinel)
        return before, after


def _added_ids(tokenizer: Any, frames: str) -> set[int]:
    """Added tokens with a name that the frames use, whether or not they are marked as special."""
    added = {i for i, token in tokenizer.added_tokens_decoder.items() if token.content.strip()}
    return added & set(tokenizer(frames, add_special_tokens=False)["input_ids"])


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Length of the common prefix."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
