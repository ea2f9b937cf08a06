"""What one speaker said in a conversation, token by token."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sinkchat.chat.records import HeadShares, Role
from sinkchat.engine.events import Reason
from sinkchat.models.thinking import Part


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token that was fed."""

    id: int
    text: str
    """What it adds to the text; empty for most of a template's own tokens and within a character."""
    position: int
    loss: float | None
    """Nats; None for the first token of a sequence."""
    sink_share: float | None
    """Share of the query that predicted it; None where nothing is meant."""
    part: Part = "answer"
    """Of a reply: whether the model thinks or answers."""


@dataclass(frozen=True, slots=True)
class Loop:
    """The reply's last `period * repeats` tokens, at that time, were one piece repeated."""

    position: int
    period: int
    repeats: int


@dataclass(slots=True)
class Message:
    """Append-only: the tokens grow, and how it ended is filled in when it ends."""

    number: int
    """In the session, from 0."""
    sequence: int
    """Number of the sequence that it stands in; a message of an earlier one is out of the model's sight."""
    role: Role
    started: float
    """Seconds since 1970."""
    words: str | None = None
    """As a person or file wrote them, or as the template has them; None where the tokens say it."""
    name: str | None = None
    """Of the file."""
    tokens: list[TokenRecord] = field(default_factory=list)
    """Of its own text; the template's frames around it belong to the sequence."""
    tokens_total: int | None = None
    """Tokens of the text that was to be read; more than `tokens_read` when it was cut short."""
    ended: float | None = None
    reason: Reason | None = None
    """How a reply ended, or why a text was cut short; None for a text that was read, or while it goes on."""
    error: str | None = None
    stop_id: int | None = None
    tokens_per_second: float | None = None
    """Of the latest run, if the reply was continued."""
    seconds_to_first_token: float | None = None
    share_heads: HeadShares | None = None
    """`[layers][heads]`, mean over the reply's tokens, or over those of the prompt, frames included."""
    shared_tokens: int = 0
    """Tokens that `share_heads` is the mean of."""
    loops: list[Loop] = field(default_factory=list)
    taken_back: bool = False
    """True for a reply that was written anew: it is kept here, and is no part of the sequence."""
    _joined: str = field(default="", init=False, repr=False, compare=False)
    _thought: str = field(default="", init=False, repr=False, compare=False)
    _thinking_tokens: int = field(default=0, init=False, repr=False, compare=False)
    _joined_tokens: int = field(default=0, init=False, repr=False, compare=False)

    @property
    def text(self) -> str:
        return self.spoken if self.words is None else self.words

    @property
    def spoken(self) -> str:
        """The text of the tokens: of a reply, its answer; of a text that was cut short, what was read of it."""
        self._join()
        return self._joined

    @property
    def thinking(self) -> str:
        """What the model thought before it answered; empty where it did not."""
        self._join()
        return self._thought

    @property
    def thinking_tokens(self) -> int:
        """Those of the marks around it included."""
        self._join()
        return self._thinking_tokens

    def _join(self) -> None:
        count = len(self.tokens)
        if self._joined_tokens == count:
            return
        fresh = self.tokens[self._joined_tokens : count]
        self._joined += "".join([token.text for token in fresh if token.part == "answer"])
        self._thought += "".join([token.text for token in fresh if token.part == "thinking"])
        self._thinking_tokens += sum(token.part == "thinking" for token in fresh)
        self._joined_tokens = count

    @property
    def tokens_read(self) -> int:
        return len(self.tokens)

    @property
    def cut_short(self) -> bool:
        """True for a person's or file's text that was not read to its end, or not yet."""
        return self.words is not None and (self.tokens_total is None or len(self.tokens) < self.tokens_total)

    @property
    def first_position(self) -> int | None:
        return self.tokens[0].position if self.tokens else None

    @property
    def last_position(self) -> int | None:
        return self.tokens[-1].position if self.tokens else None

    @property
    def loss(self) -> float | None:
        """Mean over the tokens that have one, in nats."""
        return _mean(token.loss for token in self.tokens)

    @property
    def sink_share(self) -> float | None:
        """Mean over the tokens that have one."""
        return _mean(token.sink_share for token in self.tokens)

    def offset(self, position: int) -> int:
        """Where in `text` the first token at or after that position begins; the text's length if there is none."""
        ahead = 0
        for token in self.tokens:
            if token.position >= position:
                return min(ahead, len(self.text))
            ahead += len(token.text) if token.part == "answer" else 0
        return len(self.text)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
