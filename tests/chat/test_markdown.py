"""A message's own Markdown stays inside its message, whatever it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from sinkchat.chat.markdown import escaped, fenced, quoted
from sinkchat.chat.printable import visible

NASTY = st.lists(
    st.sampled_from(
        [
            *"`~#>-=_*|[]()!<:\\&\t\n 1.a",
            "```",
            "~~~",
            "````\n",
            "<b>",
            "</blockquote>",
            "<!--",
            "-->",
            "<script>",
            "<?",
            "![x](http://x/y.png)",
            "[a]: /b\n",
            "[^1]: note\n",
            "[a]",
            "    code",
            "\n\n",
            "- ",
            "1. ",
            "> ",
            "word ",
            "``",
            "---\n",
            "|--|\n",
            "\n\t",
        ]
    ),
    max_size=25,
).map("".join)


HEADING = ["heading_open", "heading_close"]
PARAGRAPH = ["paragraph_open", "paragraph_close"]
QUOTE = ["blockquote_open", "blockquote_close"]
FENCE = ["fence"]


def parsed(document: str) -> tuple[list[Token], dict[str, Any]]:
    environment: dict[str, Any] = {}
    return MarkdownIt("commonmark").enable("table").parse(document, environment), environment


def everything(tokens: list[Token]) -> list[Token]:
    return [token for parent in tokens for token in (parent, *(parent.children or ()))]


@settings(max_examples=1000, deadline=None)
@given(NASTY)
@example("<b>")
@example("\\<b> and \\\\<i>")
@example("` <b> `")
@example("# h `\np `\n` <b> `")
@example("| ` | <b> ` |\n|---|---|\n| ` | <b> ` |")
@example("- ```\n  x\n  ```\n<b>")
@example("```\n<b>")
@example("[a]: /b\n\n[a]")
@example("`a`![x](y)")
@example("\tcode <b>")
def test_no_text_reaches_past_its_place(text: str) -> None:
    text = visible(text)
    for put in (quoted, fenced):
        document = f"# Title\n\n## One\n\n{put(text)}\n\n*figures*\n\n## Two\n\nan [a] and [^1]"
        tokens, environment = parsed(document)
        outer = [token.type for token in tokens if token.level == 0]
        assert outer in (HEADING * 2 + body + PARAGRAPH + HEADING + PARAGRAPH for body in (QUOTE, FENCE))
        assert not environment.get("references")
        assert not [t for t in everything(tokens) if t.type in ("html_block", "html_inline", "image")]


@pytest.mark.parametrize(
    "text",
    [
        "# A heading\n\nwords and **bold**, `code`, a [link](https://example.org)",
        "```python\nif a < b and c > d:\n\tprint('<b>')\n```",
        "1. first\n2. second\n   ```cpp\n   #include <stdio.h>\n   ```\n3. third",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "`vector<int>` and `a ``b` end",
        "a < b, b <= c, 3 <4, x<-y",
    ],
)
def test_what_does_no_harm_is_left_as_it_is(text: str) -> None:
    assert quoted(text) == "\n".join(f"> {line}" if line else ">" for line in text.split("\n"))


@pytest.mark.parametrize(
    ("text", "put"),
    [
        ("<b>bold</b>", "> \\<b>bold\\</b>"),
        ("\\<b>", "> \\<b>"),
        ("\\\\<b>", "> \\\\\\<b>"),
        ("![pixel](http://x/y)", "> !\\[pixel](http://x/y)"),
        ("[a]: http://x", "> [a]\\: http://x"),
        ("`<b>` <b>", "> `<b>` \\<b>"),
    ],
)
def test_what_would_reach_further_is_shown_as_it_was_written(text: str, put: str) -> None:
    assert quoted(text) == put


@given(st.text(max_size=60))
def test_a_fence_holds_the_text_as_it_is(text: str) -> None:
    text = visible(text).replace("\n", "`\n```")
    tokens, _ = parsed(fenced(text))
    assert [token.type for token in tokens] == ["fence"]
    # CommonMark writes NUL as U+FFFD; `visible` has made it a symbol before.
    assert tokens[0].content == text + "\n"


@given(NASTY)
def test_escaped_words_are_plain_words(text: str) -> None:
    words = escaped(text)
    tokens, _ = parsed(f"x {words} x")
    inline = everything(tokens)
    assert {token.type for token in inline} <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special"}
    said = "".join(token.content for token in inline if token.type in ("text", "text_special"))
    assert said.split() == f"x {text} x".split()
