"""Tells a model's thinking from its answer, token by token. Free of torch.

Models mark their thinking in one of two ways. Most put it between two marks at the start of a reply, `<think>` and
`</think>` or the like, each a token of its own or spelled in several; a template may have opened it already. Others
write in channels, `<|channel|>analysis<|message|>`, and the answer comes in the one named `final`.

A mark belongs to no text, as a control token does: what it is spelled with adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

Part = Literal["answer", "thinking"]

PAIRS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "[THINK]": "[/THINK]",
    "<seed:think>": "</seed:think>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "◁think▷": "◁/think▷",
    "<|channel>": "<channel|>",
}
"""What opens thinking, and what closes it."""

_NAMES = {"<|channel>": "thought"}
"""What is written behind an opening mark and is no thinking yet."""

_CHANNELS = frozenset(("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|constrain|>"))

_LONGEST_HEADER = 80
"""Characters; a longer one was no header."""

_BREAKS = "\r\n"


def find_marks(added: Mapping[int, str], ask: str) -> dict[int, str]:
    """The marks that are tokens of their own, by id.

    added: the tokenizer's added tokens. ask: the template's text that opens a reply.
    """
    names = {*PAIRS, *PAIRS.values()}
    # Other families have an `<|end|>` too, which means something else.
    if "<|channel|>" in added.values() and "<|message|>" in added.values() and "<|start|>" in ask:
        names |= _CHANNELS
    return {token_id: name for token_id, name in added.items() if name in names}


class ThinkingMarks:
    """How one model marks its thinking, and where its replies begin."""

    def __init__(self, tokens: Mapping[int, str], reply: Sequence[int], ask: str) -> None:
        """tokens: `find_marks`. reply, ask: what the template opens a reply with, as ids and in writing."""
        self.tokens = tokens
        self._reply = tuple(reply)
        header = ask.rpartition("<|start|>")[2]
        self.channels = "<|channel|>" in tokens.values()
        self.header = self.channels and "<|message|>" not in header
        """True when a reply begins inside a channel's header."""
        self.opened: str | None = None
        """What closes the thinking that the template has opened already; None if it has not."""
        if self.channels and not self.header and _channel_part(header.partition("<|message|>")[0]) == "thinking":
            self.opened = ""
        for opens, closes in PAIRS.items():
            if ask.rstrip().endswith(opens):
                self.opened = closes

    def splitter(self) -> ThinkingSplitter:
        """For a reply that begins."""
        return ThinkingSplitter(self)

    def reply_start(self, ids: Sequence[int]) -> int:
        """Index of the first token of the reply that `ids` end in; their length if they end in none."""
        count = len(self._reply)
        if not count:
            return len(ids)
        for start in range(len(ids) - count, -1, -1):
            if ids[start] == self._reply[0] and tuple(ids[start : start + count]) == self._reply:
                return start + count
        return len(ids)


class ThinkingSplitter:
    """Parts one reply. A splitter is moved by every token, and forgets nothing of what it holds back."""

    def __init__(self, marks: ThinkingMarks) -> None:
        self._marks = marks
        self.part: Part = "answer" if marks.opened is None else "thinking"
        """What the next token belongs to, if it is no mark."""
        self._closes = marks.opened
        self._name = ""  # what may follow the mark that came last
        self._fresh = True  # nothing was said in this part yet
        self._broken = marks.opened is not None  # a mark came before, whose line breaks are its own
        self._held = ""  # what may become a mark
        self._header: str | None = "" if marks.header else None

    def push(self, token_id: int, text: str) -> tuple[Part, str]:
        """What a token belongs to, and what it adds to the text of that part.

        text: what it adds to the text of the whole. Empty while a mark is incomplete; what turns out to be none comes
        with the token that tells.
        """
        mark = self._marks.tokens.get(token_id)
        before = self.part, self._held
        if mark is not None and self._pass(mark):
            return before if before[1].strip() else (self.part, "")
        if self._header is not None:
            return self._in_header(text)
        self._held += text
        if self._fresh:
            self._open_by_text()
        return self._close_by_text() if self.part == "thinking" and self._closes else (self.part, self._release())

    def push_all(self, tokens: Iterable[tuple[int, str]]) -> None:
        """Move past tokens that were told already."""
        for token_id, text in tokens:
            self.push(token_id, text)

    def _pass(self, mark: str) -> bool:
        """Go where a mark that is a token leads; False where it is no mark but something that is said."""
        if self._marks.channels:
            return self._pass_channel(mark)
        silent = self._fresh and not self._held.strip()
        if mark in PAIRS and silent:
            self._enter("thinking", PAIRS[mark], _NAMES.get(mark, ""))
        elif (mark == self._closes and self.part == "thinking") or (mark in PAIRS.values() and silent):
            self._enter("answer", None)
        else:
            return False
        return True

    def _pass_channel(self, mark: str) -> bool:
        if mark == "<|message|>" and self._header is not None:
            self._enter(_channel_part(self._header), None)
            self._broken = False
            self._header = None
        elif mark in ("<|start|>", "<|end|>", "<|channel|>"):
            self._header = mark if mark == "<|channel|>" else ""
        else:
            return self._header is not None
        return True

    def _in_header(self, text: str) -> tuple[Part, str]:
        assert self._header is not None
        self._header += text
        if len(self._header) <= _LONGEST_HEADER:
            return self.part, ""
        said, self._header = self._header.removeprefix("<|channel|>"), None
        self._fresh = False
        return self.part, said

    def _enter(self, part: Part, closes: str | None, name: str = "") -> None:
        self.part, self._closes, self._name = part, closes, name
        self._fresh, self._broken, self._held = True, True, ""

    def _open_by_text(self) -> None:
        """Enter the thinking that a spelled mark opens, at the very start of a reply or of thinking that is open."""
        said = self._held.lstrip()
        for opens, closes in PAIRS.items():
            if said.startswith(opens) and (self.part == "answer" or closes == self._closes):
                self._enter("thinking", closes, _NAMES.get(opens, ""))
                self._held = said[len(opens) :]
                return

    def _close_by_text(self) -> tuple[Part, str]:
        assert self._closes
        before, closed, after = self._held.partition(self._closes)
        if not closed:
            return "thinking", self._release(_may_begin(self._held, (self._closes,)))
        before = before.removeprefix(self._name)
        thought = before if before.strip() else ""
        self._enter("answer", None)
        self._held = after
        # A token tells one part: what stands behind the mark, if anything does before it, comes with the next.
        return ("thinking", thought) if thought else ("answer", self._release())

    def _release(self, keep: int = 0) -> str:
        """What is surely no mark of what is held; `keep` characters at its end may be one."""
        if self._name and len(self._held) < len(self._name) and self._name.startswith(self._held):
            return ""
        if self._name:
            self._held, self._name = self._held.removeprefix(self._name), ""
        if self._broken:
            self._held = self._held.lstrip(_BREAKS)
        if self._fresh:
            said = self._held.lstrip()
            if not said or _may_begin(said, PAIRS) == len(said):
                return ""
        keep = min(keep, len(self._held))
        text, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        if text:
            self._fresh = self._broken = False
        return text


def _may_begin(text: str, marks: Iterable[str]) -> int:
    """How many characters at the end of `text` are the beginning of a mark."""
    return max(
        (
            length
            for mark in marks
            for length in range(1, min(len(mark), len(text) + 1))
            if text.endswith(mark[:length])
        ),
        default=0,
    )


def _channel_part(header: str) -> Part:
    """What a channel of this header is for. Without a name it is the answer."""
    _, named, channel = header.rpartition("<|channel|>")
    return "thinking" if named and not channel.strip().startswith("final") else "answer"
