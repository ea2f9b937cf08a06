"""The pictures of the README: the program itself, with the real small model, on a screen without a terminal.

    python -m tests.tui.pictures [FOLDER] [--seed N]

chat.svg: a chat after the first evictions. collapse.svg: the sinks are taken away while the model writes. FOLDER is
`docs` unless another one is named; nothing else is kept. Minutes on two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from sinkchat.cli.opening import open_session
from sinkchat.settings import Settings
from sinkchat.tui.app import SinkchatApp
from sinkchat.tui.screens.chat import ChatScreen

SIZE = 126, 37
STORY = "Tell me a long story about a lighthouse keeper."
CELL = 12.2
"""Width of a cell in the pictures."""
FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


class Driver:
    """Does what a person does, and looks at the screen."""

    def __init__(self, app: SinkchatApp, folder: Path) -> None:
        self.app, self.folder = app, folder

    @property
    def screen(self) -> ChatScreen:
        return self.app._chat

    async def until(self, what: Callable[[], object]) -> None:
        while not what():
            await asyncio.sleep(0.05)
            assert self.screen.runs.phase != "failed", "the model could not be opened"

    async def idle(self) -> None:
        runs = self.screen.runs
        await self.until(lambda: not runs.busy and not runs.waiting and not self.screen.engine.said)

    async def send(self, text: str) -> None:
        self.screen.prompt.set_text(text)
        await asyncio.sleep(0.1)
        self.press("enter")
        await asyncio.sleep(0.1)

    def press(self, key: str) -> None:
        self.app.simulate_key(key)

    async def written(self, tokens: int) -> None:
        """Wait until the newest reply has so many."""
        assert self.screen.runs.session is not None
        messages = self.screen.runs.session.conversation.messages
        await self.until(lambda: messages[-1].role == "assistant" and len(messages[-1].tokens) >= tokens)

    async def save(self, name: str) -> None:
        await asyncio.sleep(1.0)  # the panel is drawn a few times a second
        svg = self.app.export_screenshot(title="sinkchat")
        # Nothing is fetched when the picture is looked at, and no viewer has to keep the spaces at a line's start.
        svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code, monospace", FONT)
        svg = re.sub(r' x="([\d.]+)"([^>]*) textLength="([\d.]+)"([^>]*)>((?:&#160;)+)', _moved, svg)
        svg = "\n".join(line.rstrip() for line in svg.splitlines() if line.strip())
        (self.folder / name).write_text(svg + "\n", encoding="utf-8")


def _moved(found: re.Match[str]) -> str:
    """A text's opening without the spaces that it begins with, as far to the right as they are wide."""
    x, between, length, after, spaces = found.groups()
    wide = len(spaces) // len("&#160;") * CELL
    return f' x="{float(x) + wide:g}"{between} textLength="{max(0.0, float(length) - wide):g}"{after}>'


async def story(chat: Driver) -> None:
    await chat.send(STORY)
    await chat.idle()
    await chat.send("What did he see from the lamp room?")
    await chat.written(70)
    await chat.save("chat.svg")
    await chat.idle()
    await chat.send("Go on with the story.")
    await chat.send("/endless")
    await chat.written(60)
    chat.press("f2")
    await chat.written(600)
    await chat.save("collapse.svg")
    chat.press("escape")
    await chat.idle()


async def draw(folder: Path, settings: Settings) -> None:
    app = SinkchatApp(lambda progress: open_session(settings, progress), settings)
    async with app.run_test(size=SIZE):
        chat = Driver(app, folder)
        await chat.until(lambda: chat.screen.runs.session is not None)
        await story(chat)
    app._chat.engine.stop(1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs"))
    parser.add_argument("--seed", type=int, default=3)
    asked = parser.parse_args()
    settings = Settings(window=256, seed=asked.seed, max_reply_tokens=300)
    with tempfile.TemporaryDirectory() as unsaved:
        for kind in ("CONFIG", "DATA", "STATE"):
            os.environ[f"SINKCHAT_{kind}_DIR"] = unsaved
        asyncio.run(draw(asked.folder, settings))


if __name__ == "__main__":
    main()
