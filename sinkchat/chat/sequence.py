"""One run of tokens from position 0, as they were fed, and where in a turn it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sinkchat.chat.message import TokenRecord
from sinkchat.chat.records import PromptPlanned

Place = Literal["empty", "person", "reply"]
"""Where a sequence ends: before anything, inside a person's turn, or inside the model's reply."""


@dataclass(slots=True)
class SequenceRecord:
    """Append-only, as the conversation is."""

    number: int
    started: float
    system: str | None
    cause: str
    tokens: list[TokenRecord] = field(default_factory=list)
    place: Place = "empty"
    turn_tokens: int = 0
    """Tokens of text in the person's turn that is open."""
    plan: PromptPlanned | None = None
    """The latest prompt."""
    plan_start: int = 0
    """Position of its first token."""
    plan_done: int = 0
    """How many of its tokens were fed."""

    @property
    def next_position(self) -> int:
        return self.tokens[-1].position + 1 if self.tokens else 0

    @property
    def plan_total(self) -> int:
        return len(self.plan.lead) + self.plan.text + len(self.plan.tail) if self.plan else 0

    @property
    def unfinished_frame(self) -> tuple[int, ...]:
        """What is still to be fed where a prompt was cut inside a frame, so that the turn is properly formed."""
        plan, done = self.plan, self.plan_done
        if plan is None:
            return ()
        head = len(plan.lead)
        if 0 < done < head:
            return plan.lead[done:]
        return plan.tail[done - head - plan.text :] if done > head + plan.text else ()
