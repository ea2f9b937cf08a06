"""Flags and commands, and one clear sentence for what is not understood."""

from __future__ import annotations

import pytest

from sinkchat.cli.arguments import parse
from sinkchat.errors import UsageError
from sinkchat.settings import TABLE

REQUIRED = (
    "--model --sinks --window --policy --positions --quant --device --dtype --system --pin-system --temperature "
    "--top-p --top-k --min-p --repetition-penalty --max-reply-tokens --seed --theme --config"
)


def test_every_setting_has_its_flag_with_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--help"])
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for setting in TABLE:
        assert setting.flag in shown
        assert setting.help in shown
    assert all(flag in shown for flag in REQUIRED.split())


@pytest.mark.parametrize(
    "argv",
    [
        ["--window", "64", "--pin-system", "ask", "--seed", "1", "hi"],
        ["ask", "--window", "64", "hi", "--pin-system", "--seed=1"],
        ["ask", "hi", "--seed", "1", "--window", "64", "--pin-system"],
    ],
)
def test_flags_may_stand_before_or_after_the_command(argv: list[str]) -> None:
    parsed = parse(argv)
    assert (parsed.command, parsed.window, parsed.seed, parsed.pin_system) == ("ask", "64", "1", True)
    assert parsed.words == ["hi"]
    assert parsed.theme is None, "a flag that was not given is not set"


def test_words_around_a_flag_belong_together() -> None:
    assert parse(["ask", "what", "is", "--seed", "1", "this"]).words == ["what", "is", "this"]
    assert parse(["export", "latest", "--force", "out.md"]).words == ["latest", "out.md"]
    assert parse(["ask", "--", "--seed"]).words == ["--seed"]


def test_a_switch_can_be_taken_back() -> None:
    assert parse(["--no-pin-system"]).pin_system is False
    assert parse([]).pin_system is None


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--windw", "3"], r"^There is no flag --windw; did you mean --window\?$"),
        (["ask", "--jsn", "hi"], r"^There is no flag --jsn; did you mean --json\?$"),
        (["ask", "--win", "64", "hi"], "^There is no flag --win; "),
        (["hello"], "^There is no command 'hello'; a question is asked with `sinkchat ask`"),
        (["ask", "--seed"], "^--seed: expected one argument; see sinkchat ask --help.$"),
        (["export", "--format", "pdf"], "^--format: invalid choice: 'pdf'"),
        (["sessions", "--json"], "^`sinkchat sessions` does not take --json; see sinkchat sessions --help.$"),
        (["sessions", "all"], "^`sinkchat sessions` does not take all; "),
        (["--force"], "^`sinkchat` does not take --force; see sinkchat --help.$"),
        (["config"], "required"),
        (["config", "shw"], "invalid choice: 'shw'"),
    ],
)
def test_what_is_not_understood_is_said_in_one_sentence(argv: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as error:
        parse(argv)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2
