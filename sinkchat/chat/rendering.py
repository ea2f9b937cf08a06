"""A conversation as Markdown and as plain text, to be read. Nothing that was said can pass for the document's own."""

from __future__ import annotations

from collections.abc import Iterator

from sinkchat.chat import telling
from sinkchat.chat.conversation import Conversation
from sinkchat.chat.markdown import escaped, fenced, quoted
from sinkchat.chat.message import Message
from sinkchat.chat.printable import visible
from sinkchat.chat.sequence import SequenceRecord


def to_markdown(conversation: Conversation) -> str:
    """Each message under a heading of its own, as a block quote; what a file says, in a fence."""
    blocks = [f"# {escaped(visible(telling.title(conversation)))}"]
    values = [f"- {name}: {escaped(visible(value))}" for name, value in telling.preamble(conversation)]
    blocks.append("\n".join(values))
    for sequence in conversation.sequences:
        if sequence.number:
            blocks += ["---", f"*{escaped(visible(_begun(sequence)))}*"]
        blocks += [_line(note) for note in _loose_notes(conversation, sequence)]
        for message in _messages(conversation, sequence):
            blocks.append(f"## {escaped(visible(telling.heading(message)))}")
            if message.thinking:
                blocks += [_line(telling.thinking(message)), quoted(visible(message.thinking)), _line("Answer")]
            for piece in telling.pieces(conversation, message):
                if piece.text:
                    text = visible(piece.text)
                    blocks.append(fenced(text) if message.role == "file" else quoted(text))
                blocks += [_line(note) for note in piece.notes]
            blocks.append(_line(telling.figures(message)))
    return "\n\n".join(block for block in blocks if block) + "\n"


def to_text(conversation: Conversation) -> str:
    """What was said is set in by two spaces, and nothing else is."""
    blocks = [visible(telling.title(conversation))]
    blocks.append("\n".join(_one_line(f"{name}: {value}") for name, value in telling.preamble(conversation)))
    for sequence in conversation.sequences:
        if sequence.number:
            blocks.append(f"[{_one_line(_begun(sequence))}]")
        blocks += [f"[{_one_line(note)}]" for note in _loose_notes(conversation, sequence)]
        for message in _messages(conversation, sequence):
            blocks.append(f"{_one_line(telling.heading(message))}:")
            if message.thinking:
                blocks += [f"[{telling.thinking(message)}]", _set_in(message.thinking), "[Answer]"]
            for piece in telling.pieces(conversation, message):
                if piece.text:
                    blocks.append(_set_in(piece.text))
                blocks += [f"[{_one_line(note)}]" for note in piece.notes]
            blocks.append(f"[{_one_line(telling.figures(message))}]")
    return "\n\n".join(block for block in blocks if block) + "\n"


def _messages(conversation: Conversation, sequence: SequenceRecord) -> Iterator[Message]:
    return (message for message in conversation.messages if message.sequence == sequence.number)


def _begun(sequence: SequenceRecord) -> str:
    how = "with another system prompt" if sequence.cause == "system" else "from an empty cache"
    return f"A new sequence, {how}, {telling.clock(sequence.started)}"


def _loose_notes(conversation: Conversation, sequence: SequenceRecord) -> list[str]:
    """What happened in a sequence before anything was said in it."""
    own = {message.number for message in _messages(conversation, sequence)}
    return [
        telling.note(change)
        for change in conversation.policy_changes
        if change.sequence == sequence.number and change.cause != "clear" and change.message not in own
    ]


def _line(words: str) -> str:
    return f"*{escaped(visible(words))}*"


def _set_in(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in visible(text).split("\n"))


def _one_line(words: str) -> str:
    return " ".join(visible(words).split())
