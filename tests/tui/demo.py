"""The screen over the fake engine, to look at: `python -m tests.tui.demo [--window 64] [--theme paper]`.

The fake's words come at a model's pace and its figures rise and fall as a model's do.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from pathlib import Path

from sinkchat.chat.journal import Journal
from sinkchat.chat.session import ChatSession
from sinkchat.models.progress import Progress, ProgressSink
from sinkchat.models.sampling import Sampling
from sinkchat.settings import Settings
from tests.fakes import FakeEngine, FakeTemplate

REPLY = """The **lighthouse** stood where the land ended. *Tomas*, its keeper, had three rules:

1. light the lamp at dusk,
2. write down every ship,
3. never answer the sea.

He broke the third one in the winter of the great storm, and what he said was short:

```python
def answer(sea: str) -> str:
    # nobody had asked before
    return sea.upper() + "!" * 3
```

> The sea, which is never in a hurry, thought about it for eleven years.

| year | ships | words |
|------|------:|-------|
| 1    | 412   | none  |
| 12   | 398   | "yes" |

Then it came up the steps, one after another, and knocked at the door with a hand of cold green water."""


class LivelyEngine(FakeEngine):
    """Shares and losses that look like a model's."""

    def _share(self) -> float | None:
        base = super()._share()
        return None if base is None else max(0.0, min(1.0, base - 0.1 + 0.08 * math.sin(len(self.fed) / 9)))


def open_session(arguments: argparse.Namespace, folder: Path, progress: ProgressSink) -> ChatSession:
    for step in range(10):
        progress(Progress("fetching the small model", step * 9.29e6, 92.9e6, "B"))
        time.sleep(arguments.load / 20)
    for step in range(10):
        progress(Progress("loading the model", step, 10))
        time.sleep(arguments.load / 20)
    engine = LivelyEngine(
        window=arguments.window, reply=REPLY, token_delay=arguments.delay, chunk_delay=0.05, chunk=16
    )
    return ChatSession(engine, FakeTemplate(), Journal.create(folder), system=arguments.system, sampling=Sampling())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--theme", default="harbour")
    parser.add_argument("--delay", type=float, default=0.03)
    parser.add_argument("--load", type=float, default=1.0)
    parser.add_argument("--system", default="You are a keeper of a lighthouse and answer briefly.")
    arguments = parser.parse_args()
    from sinkchat.tui.app import SinkchatApp

    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("SINKCHAT_STATE_DIR", folder)
        SinkchatApp(
            lambda progress: open_session(arguments, Path(folder), progress), Settings(theme=arguments.theme)
        ).run()


if __name__ == "__main__":
    main()
