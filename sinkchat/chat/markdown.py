"""Puts text that somebody wrote into a Markdown document so that it stays where it is put.

A message is a block quote, in which its own Markdown is alive: headings, lists, tables and code are shown as such and
end where the quote ends. What would reach past it is taken the power of: raw HTML, images (which are fetched when the
document is opened), and definitions that count for the whole document. Should a text still find a way, which a parser
says, it is put into a code fence instead.
"""

from __future__ import annotations

import re
from typing import Any

from markdown_it import MarkdownIt

_ALIVE = re.compile(r"([\\`*_\[\]<>#!|~$&])")  # what means something inside a line
_LINE_START = re.compile(r"^[ \t]+")
_TICKS = re.compile(r"`+")
_POWERS = re.compile(r"(?<!\\)(\\*)(<(?=[A-Za-z/!?])|\]:|!\[)")

_LONGEST_BLOCK = 50_000
"""Characters without a blank line from which on it is no prose, and a parser may take minutes over it."""

# How the text's own blocks are found: without HTML and definitions, since those lose their power.
_BLOCKS = MarkdownIt("commonmark", {"html": False}).enable("table").disable("reference")
_DOCUMENT = MarkdownIt("commonmark").enable("table")


def escaped(text: str) -> str:
    """Plain words for the inside of a line, none of which is Markdown."""
    return _ALIVE.sub(r"\\\1", " ".join(text.split()))


def fenced(text: str) -> str:
    """The text as it is, in a fence longer than any run of back ticks in it."""
    fence = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    return f"{fence}text\n{text}\n{fence}"


def quoted(text: str) -> str:
    """The text as Markdown in a block quote."""
    if max(map(len, text.split("\n\n"))) > _LONGEST_BLOCK:
        return fenced(text)
    quote = "\n".join(f"> {line}" if line else ">" for line in _harmless(text).split("\n"))
    return quote if _is_one_quote(quote) else fenced(text)


def _harmless(text: str) -> str:
    lines = text.split("\n")
    code, top_fence = _code_lines(text)
    block: list[int] = []
    for number in range(len(lines) + 1):
        if number < len(lines) and lines[number].strip() and number not in code:
            block.append(number)
            continue
        paired = all(_ticks_pair(lines[other]) for other in block)
        for other in block:
            lines[other] = _harmless_line(lines[other], paired)
        block = []
    for number, line in enumerate(lines):
        if number not in top_fence:
            # Behind the quote's mark a tab would reach less far than at the start of a line.
            lines[number] = _LINE_START.sub(lambda start: start.group().expandtabs(4), line)
    return "\n".join(lines)


def _code_lines(text: str) -> tuple[set[int], set[int]]:
    """Numbers of the lines inside code blocks, and of those in fences that stand in nothing else."""
    code: set[int] = set()
    top_fence: set[int] = set()
    for token in _BLOCKS.parse(text):
        if token.type in ("fence", "code_block") and token.map:
            inside = range(token.map[0], token.map[1])
            code.update(inside)
            if token.type == "fence" and token.level == 0:
                top_fence.update(inside)
    return code, top_fence


def _ticks_pair(line: str) -> bool:
    """True when all code spans of the line end in it, whatever stands around the line."""
    return "\\`" not in line and "|" not in line and not _TICKS.search(_without_spans(line))


def _without_spans(line: str) -> str:
    return re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", line)


def _harmless_line(line: str, spans: bool) -> str:
    """`spans`: code spans end where they seem to, and may be left as they are."""
    if not spans:
        return _POWERS.sub(_powerless, line)
    parts = re.split(r"((?<!`)(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))", line)
    # Each span brings two groups: itself and its ticks.
    return "".join(
        _POWERS.sub(_powerless, part) if index % 3 == 0 else part if index % 3 == 1 else ""
        for index, part in enumerate(parts)
    )


def _powerless(found: re.Match[str]) -> str:
    slashes, power = found.groups()
    if len(slashes) % 2 and power != "![":
        return found.group()
    return slashes + {"]:": "]\\:", "![": "!\\["}.get(power, "\\" + power)


def _is_one_quote(quote: str) -> bool:
    environment: dict[str, Any] = {}
    tokens = _DOCUMENT.parse(quote, environment)
    outer = [token.type for token in tokens if token.level == 0]
    everything = [token for parent in tokens for token in (parent, *(parent.children or ()))]
    return (
        outer == ["blockquote_open", "blockquote_close"]
        and not environment.get("references")
        and not any(token.type in ("html_block", "html_inline", "image") for token in everything)
    )
