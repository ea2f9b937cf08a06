"""What starts fast stays fast: proved in processes of their own, from a clean list of modules."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "bitsandbytes", "accelerate", "huggingface_hub")

PROBE = """
import sys
{code}
heavy = sorted({{name.partition(".")[0] for name in sys.modules}} & set({watched!r}))
import json
print("\\n" + json.dumps(heavy))
"""


def imported(code: str, watched: tuple[str, ...]) -> list[str]:
    """Which of the watched packages are imported once the code has run."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(code=code, watched=watched)],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def running(*argv: str) -> str:
    return f"""
from sinkchat.cli.main import main
try:
    main({list(argv)!r})
except SystemExit:
    pass
"""


def test_the_probe_sees_what_is_imported() -> None:
    assert imported("import textual", ("textual", "torch")) == ["textual"]


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["--version"],
        ["ask", "--help"],
        ["config", "show"],
        ["config", "path"],
        ["sessions"],
        ["--windw", "3"],
        ["ask"],
        ["export", "no-such-session"],
    ],
    ids=" ".join,
)
def test_a_command_that_needs_no_model_imports_neither_torch_nor_transformers_nor_textual(argv: list[str]) -> None:
    assert imported(running(*argv), (*HEAVY, "textual")) == []


@pytest.mark.parametrize(
    "module",
    [
        "sinkchat.settings",
        "sinkchat.locations",
        "sinkchat.errors",
        "sinkchat.cache.policy",
        "sinkchat.cache.slots",
        "sinkchat.engine.events",
        "sinkchat.engine.contract",
        "sinkchat.models.find",
        "sinkchat.models.facts",
        "sinkchat.models.progress",
        "sinkchat.models.sampling",
        "sinkchat.chat.session",
        "sinkchat.chat.journal",
        "sinkchat.chat.export",
        "sinkchat.chat.printable",
        "sinkchat.cli.main",
        "sinkchat.cli.ask",
        "sinkchat.cli.chat",
        "sinkchat.cli.opening",
        "sinkchat.cli.eval",
        "sinkchat.cli.sinks",
        "sinkchat.lab.agenda",
        "sinkchat.lab.source",
        "sinkchat.lab.verdict",
        "sinkchat.lab.files.document",
        "sinkchat.lab.report.page",
        "sinkchat.lab.terminal.tables",
    ],
)
def test_these_are_free_of_torch_and_of_the_screen(module: str) -> None:
    assert imported(f"import {module}", (*HEAVY, "textual")) == []


def test_the_screen_is_free_of_torch() -> None:
    assert imported("import sinkchat.tui.app", HEAVY) == []


def test_a_model_that_does_not_exist_is_told_before_torch_is_imported() -> None:
    code = running("ask", "--model", "/no/such/folder", "hi")
    assert imported(code, HEAVY) == []


def test_the_first_picture_is_painted_without_torch() -> None:
    code = """
import asyncio, threading
from sinkchat.settings import Settings
from sinkchat.tui.app import SinkchatApp

async def paint():
    app = SinkchatApp(lambda progress: threading.Event().wait(), Settings())
    async with app.run_test() as pilot:
        await pilot.pause(0.1)
        assert app.screen.is_mounted

asyncio.run(paint())
"""
    assert imported(code, (*HEAVY, "textual")) == ["textual"]
