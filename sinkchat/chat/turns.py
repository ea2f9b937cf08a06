"""A turn in tokens: what stands before and after a text, wherever the sequence ends."""

from __future__ import annotations

from collections.abc import Generator

from sinkchat.chat.driver import Driver
from sinkchat.chat.ledger import Ledger
from sinkchat.chat.message import Message
from sinkchat.chat.records import PromptPlanned, Role
from sinkchat.chat.surrogates import encodable, paired
from sinkchat.engine.contract import Template
from sinkchat.engine.events import Event

_BREAK = "\n\n"
"""Between two texts in one turn of a person."""


class Turns:
    """Of one sequence, which begins with the system prompt `system`."""

    def __init__(self, template: Template, ledger: Ledger, driver: Driver, system: str | None) -> None:
        self.system = system
        self._template, self._ledger, self._driver = template, ledger, driver
        self._opening, self.system_tokens = template.opening(system and encodable(system))
        """How many tokens, from the first, belong to the system prompt."""

    def add(self, role: Role, text: str, name: str | None, *, answered: bool) -> Generator[Event, None, bool]:
        """A text in the person's turn, which stays open unless it is to be answered. False when it was cut short."""
        text, name = paired(text), name and paired(name)
        system = self._begin_system()
        message = self._ledger.begin(role, text, name) if text else None
        if (yield from self._driver.ended(self._driver.catch_up(), message)):
            return False
        lead, tail = self._lead(bool(text)), self._template.ask() if answered else ()
        ids, spaced = self._encoded(text, lead) if text else ((), False)
        plan = PromptPlanned(message, lead, len(ids), tail, answered, *system, spaced=spaced)
        return not (yield from self._driver.ended(self._driver.prompt(plan, ids), message))

    def read_on(self, message: Message) -> Generator[Event, None, bool]:
        """What is left of a text that was cut short and that nothing came after. False when it was cut again."""
        system = self._begin_system()
        read = message.tokens_read
        lead = () if read else self._lead(True)
        ids, spaced = self._encoded(message.text, lead, read)
        ids = ids[read:]
        tail = self._template.ask() if message.role == "user" else ()
        plan = PromptPlanned(
            *(message.number, lead, len(ids), tail, message.role == "user", *system), read_before=read, spaced=spaced
        )
        return not (yield from self._driver.ended(self._driver.prompt(plan, ids), message.number))

    def _encoded(self, text: str, lead: tuple[int, ...], read: int = 0) -> tuple[tuple[int, ...], bool]:
        """All ids of a text of which `read` tokens were read, and whether they begin with the frame's space."""
        sequence = self._ledger.conversation.sequence
        ids = self._template.encode(encodable(text))
        if sequence.place == "person" and sequence.turn_tokens != read:
            return ids, False  # something was said in this turn before
        begins = sequence.next_position + len(lead) - read
        frame = self._opening if begins == len(self._opening) else self._template.between()
        behind = self._template.encode(encodable(text), after=frame)
        return behind, behind != ids

    def _begin_system(self) -> tuple[int | None, int]:
        """The message whose tokens open the sequence, and how many they are; once, with its first prompt."""
        conversation = self._ledger.conversation
        if conversation.sequence.place != "empty" or not (self.system_tokens or self.system):
            return None, 0
        begun = [message.number for message in conversation.current_messages if message.role == "system"]
        words = self._template.own_system if self.system is None else self.system
        return begun[0] if begun else self._ledger.begin("system", words), self.system_tokens

    def _lead(self, text_follows: bool) -> tuple[int, ...]:
        """What stands before a text at the place where the sequence ends."""
        sequence = self._ledger.conversation.sequence
        if sequence.place == "empty":
            return self._opening
        if sequence.place == "reply":
            return self._template.between()
        return self._template.encode(_BREAK) if text_follows and sequence.turn_tokens else ()
