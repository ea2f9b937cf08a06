"""The README's commands are the ones that are checked."""

from __future__ import annotations

import re
from pathlib import Path

from sinkchat.settings import TABLE

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_checks_run_the_very_line_that_the_readme_gives() -> None:
    given = re.findall(r"^python3 -m venv .*pytest.*$", README, re.MULTILINE)
    assert len(given) == 1
    assert "grep -E '^python3 -m venv .*pytest' README.md" in CI
    assert 'bash -euo pipefail -c "$readme_test"' in CI


def test_two_commands_stand_on_the_first_screen() -> None:
    first_screen = "\n".join(README.splitlines()[:30])
    commands = re.findall(r"^python3 -m venv \.venv && .*$", first_screen, re.MULTILINE)
    assert len(commands) == 2
    assert "sinkchat --window 256" in commands[0]
    assert "pytest" in commands[1]


def test_every_flag_is_in_the_readme() -> None:
    for setting in TABLE:
        assert setting.flag in README, f"{setting.flag} is not in the README"


def test_the_version_of_torch_stands_in_one_place() -> None:
    assert len(re.findall(r"\b2\.\d+\.\d+\b", CI)) == 1
