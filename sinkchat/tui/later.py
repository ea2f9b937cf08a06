"""Doing something after a while, for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual.message_pump import MessagePump


def after(seconds: float, pump: MessagePump, do: Callable[[], None]) -> None:
    """Let `pump` do it once, among its messages.

    Textual's `set_timer` skips a moment that has passed before its task first looks: with a short time, or another
    thread that ran in between, it never calls.
    """
    asyncio.get_running_loop().call_later(seconds, pump.call_next, do)
