"""Esc ends long work however often, and among whatever, it was pressed; an arrow does not."""

from __future__ import annotations

import pytest

from sinkchat.cli.escape_key import is_escape


@pytest.mark.parametrize("keys", [b"\x1b", b"\x1b\x1b\x1b", b"q\x1b", b"\x1bq", b"\x1b[A\x1b", b"\x1b\x1b[A"])
def test_esc_is_seen(keys: bytes) -> None:
    assert is_escape(keys)


@pytest.mark.parametrize("keys", [b"", b"q", b"\x1b[A", b"\x1bOP", b"\x1b[15~", b"\x1b[1;5C\x1b[B", b"[A"])
def test_other_keys_are_not_esc(keys: bytes) -> None:
    assert not is_escape(keys)
