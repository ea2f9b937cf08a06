"""The colours of code: which characters of a code block are keywords, strings, numbers, comments or names."""

from __future__ import annotations

from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Token, _TokenType  # type: ignore[import-untyped]
from pygments.util import ClassNotFound  # type: ignore[import-untyped]

from sinkchat.tui.text.row import Span

LONGEST = 40_000
"""Characters above which a block stays plain: colouring it would hold the screen up."""

_STYLES: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "code-comment"),
    (String, "code-string"),
    (Number, "code-number"),
    (Keyword, "code-keyword"),
    (Operator.Word, "code-keyword"),
    (Name.Function, "code-name"),
    (Name.Class, "code-name"),
    (Name.Decorator, "code-name"),
    (Name.Builtin, "code-name"),
    (Name.Tag, "code-keyword"),
    (Name.Attribute, "code-name"),
)


def highlight(code: str, language: str) -> list[Span]:
    """Spans of the code's characters that have a style; none for an unknown language or a very long text."""
    if not language or len(code) > LONGEST:
        return []
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return []
    spans: list[Span] = []
    for start, kind, text in lexer.get_tokens_unprocessed(code):
        if kind is not Token.Text and (style := _style(kind)):
            spans.append((start, start + len(text), style))
    return spans


def _style(kind: _TokenType) -> str:
    return next((style for parent, style in _STYLES if kind in parent), "")
