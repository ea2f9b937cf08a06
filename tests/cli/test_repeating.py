"""How to repeat a measurement: what a colleague types on another machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkchat.cli.arguments import parse
from sinkchat.cli.repeating import repeatable
from sinkchat.cli.resolved import resolve


def repeated(argv: list[str], environ: dict[str, str] | None = None, config: Path | None = None) -> list[str]:
    arguments = parse(argv)
    flags = {"model": arguments.model, "quant": arguments.quant, "dtype": arguments.dtype}
    return list(repeatable(argv, resolve(flags, environ or {}, config)))


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["eval"], "sinkchat eval"),
        (["eval", "a b.txt", "--window", "64,128"], "sinkchat eval a b.txt --window 64,128"),
        (["eval", "--json", "x.json", "--window=64", "--html=y.html", "--force"], "sinkchat eval --window=64"),
        (["eval", "--csv", "x.csv", "--json=x.json", "--resume", "t.txt"], "sinkchat eval t.txt"),
        (["--dtype", "float32", "eval", "--recall"], "sinkchat --dtype float32 eval --recall"),
        (["eval", "--fail-above", "2", "--", "--json"], "sinkchat eval --fail-above 2 -- --json"),
    ],
)
def test_the_files_of_this_machine_are_left_out(argv: list[str], command: str) -> None:
    assert " ".join(repeated(argv)) == command


def test_what_the_environment_and_a_file_choose_is_said(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('model = "org/name"\nquant = "int8"\nallow_pickle = true\nwindow = 64\ntheme = "harbour"\n')
    argv = ["eval", "--config", str(file), "--quant", "none"]
    command = repeated(argv, {"SINKCHAT_DTYPE": "float32", "SINKCHAT_SMALL_MODEL_FILE": "/x.gguf"}, file)
    assert command == [
        *("sinkchat", "--model", "org/name", "--dtype", "float32", "--allow-pickle"),
        *("eval", "--quant", "none"),
    ]
    parsed = parse(command[1:])
    assert (parsed.command, parsed.model, parsed.quant) == ("eval", "org/name", "none")
