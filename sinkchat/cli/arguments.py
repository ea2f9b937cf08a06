"""The command line's grammar: commands, and one flag for each setting, made from the table of settings."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn

from sinkchat.cli.measuring_arguments import add_eval, add_sinks
from sinkchat.errors import UsageError
from sinkchat.settings import TABLE, Setting, did_you_mean

LATEST = "latest"
"""What stands for the latest session, where a session is named."""

COMMANDS = ("ask", "eval", "sinks", "export", "sessions", "models", "config")

LOADING = (
    *("model", "quant", "device", "device_map", "dtype"),
    *("allow_pickle", "trust_remote_code", "small_model_file"),
)
"""Fields of the settings that say how a model is loaded: all that a command needs which holds no chat."""

LISTS = ("window", "sinks", "positions")
"""Flags that are settings of a chat, and lists to a command that measures."""

_ABOUT = "Chat for as long as you like with a model whose KV cache is bounded and keeps attention sinks."
_AFTER = """\
without a command: a chat on the screen; when standard input is not a terminal, like `ask` with it as the prompt.
Each setting is also a key of config.toml and an environment variable (SINKCHAT_WINDOW for --window): a flag wins
over the environment, the environment over the file. `sinkchat config show` prints what is in force, and why."""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, with `command`, `config` and one attribute for each setting; None where a flag was not given.

    Raises `UsageError` for anything that is not understood, `SystemExit` after `--help` and `--version`.
    """
    _refuse_unknown(argv, _known_flags())
    parsed, rest = _parser().parse_known_args(argv)
    for word in rest:
        # argparse gives up on words that follow a flag which follows words: they belong together all the same.
        if word.startswith("-") or not hasattr(parsed, "words"):
            command = " ".join(("sinkchat", *([parsed.command] if parsed.command else [])))
            raise UsageError(f"`{command}` does not take {word}; see {command} --help.")
        parsed.words.append(word)
    for name in ("config", "resume", *(setting.field for setting in TABLE)):
        setattr(parsed, name, getattr(parsed, name, None))
    return parsed


def _refuse_unknown(argv: Sequence[str], known: Sequence[str]) -> None:
    """A misspelt flag is told before argparse can take its value for a command."""
    for word in argv:
        if word == "--":
            return
        flag = word.partition("=")[0]
        if flag.startswith("--") and flag not in known:
            raise UsageError(f"There is no flag {flag}; {did_you_mean(flag, known)}")


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of printing a usage and leaving the process."""

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"argument COMMAND: invalid choice: '(.*?)' \(choose from", message)
        if wrong:
            known = f"a question is asked with `sinkchat ask`, and the other commands are {', '.join(COMMANDS[1:])}."
            raise UsageError(f"There is no command {wrong[1]!r}; {known}")
        sentence = re.sub(r"^argument (-\S+?)(/-\S+)*: ", r"\1: ", message)
        raise UsageError(f"{sentence[0].upper() + sentence[1:]}; see {self.prog} --help.")


def _parser() -> argparse.ArgumentParser:
    # Flags may stand before or after the command. A suppressed default keeps the second parser that sees a flag
    # from taking back what the first one read.
    common = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    group = common.add_argument_group("settings")
    group.add_argument("--config", metavar="FILE", help="Read this configuration file instead of the usual one.")
    for setting in TABLE:
        _add(group, setting)
    resume = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    resume.add_argument("--resume", metavar="ID", help="go on with a saved session, named by the start of its id")
    resume.add_argument(
        "--continue", dest="resume", action="store_const", const=LATEST, help="go on with the latest session"
    )
    parser = _Parser(
        "sinkchat",
        description=_ABOUT,
        epilog=_AFTER,
        parents=[resume, common],
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    _add_ask(commands, [resume, common])
    loading = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    group = loading.add_argument_group("settings")
    group.add_argument("--config", metavar="FILE", help="Read this configuration file instead of the usual one.")
    for setting in TABLE:
        if setting.field in LOADING:
            _add(group, setting)
    add_eval(commands, [loading])
    add_sinks(commands, [loading])
    _add_export(commands)
    commands.add_parser("sessions", help="list the saved sessions", allow_abbrev=False)
    _add_models(commands, [common])
    config = commands.add_parser("config", help="where settings come from", parents=[common], allow_abbrev=False)
    config.add_argument(
        "action",
        choices=("path", "show", "example"),
        metavar="{path,show,example}",
        help="path: the configuration file's; show: every setting in force; example: a file that explains them all",
    )
    return parser


def _add(group: argparse._ArgumentGroup, setting: Setting) -> None:
    sentence = setting.help.replace("%", "%%")
    if setting.kind == "switch":
        group.add_argument(setting.flag, action=argparse.BooleanOptionalAction, help=sentence)
        return
    if setting.default is not None:
        sentence += f" (default: {setting.default})"
    # Values stay texts here: the table of settings checks them, in the same words as in a file.
    metavar = "{" + ",".join(setting.choices) + "}" if setting.choices else _METAVARS[setting.kind]
    group.add_argument(setting.flag, metavar=metavar, help=sentence)


_METAVARS = {"text": "TEXT", "place": "NAME", "path": "FILE", "whole": "N", "real": "X"}


def _add_ask(commands: argparse._SubParsersAction[_Parser], parents: list[_Parser]) -> None:
    ask = commands.add_parser(
        "ask",
        help="print one reply as plain text, or as JSON lines",
        description="Print one reply. Text on standard input is the prompt, or is added to it.",
        parents=parents,
        allow_abbrev=False,
    )
    ask.add_argument("words", nargs="*", metavar="PROMPT", help="the prompt")
    ask.add_argument("--prompt-file", metavar="FILE", help="read the prompt from a file of any length; - is stdin")
    ask.add_argument("--json", action="store_true", help="print one JSON object a line")
    ask.add_argument("--ignore-eos", action="store_true", help="go on past the end of the model's turn")
    ask.add_argument(
        "--show-thinking", action="store_true", help="print what the model thinks first, on standard error"
    )


def _add_export(commands: argparse._SubParsersAction[_Parser]) -> None:
    export = commands.add_parser(
        "export",
        help="write a saved session to a file",
        description="Write a saved session to a file: the latest one, unless another is named.",
        usage="sinkchat export [SESSION] [FILE] [--format {md,json,txt}] [--force]",
        allow_abbrev=False,
    )
    export.add_argument("words", nargs="*", metavar="SESSION FILE", help="a session's id; the file, - for stdout")
    export.add_argument("--format", choices=("md", "json", "txt"), help="default: what FILE ends in, else md")
    export.add_argument("--force", action="store_true", help="replace FILE if it exists")


def _add_models(commands: argparse._SubParsersAction[_Parser], parents: list[_Parser]) -> None:
    models = commands.add_parser(
        "models",
        help="list, fetch or remove models",
        description="List the models on this machine and whether they run, fetch one, or remove one of our own.",
        usage="sinkchat models [--json] | fetch NAME | rm NAME [--yes]",
        parents=parents,
        allow_abbrev=False,
    )
    models.add_argument(
        "words", nargs="*", metavar="fetch NAME, rm NAME", help="a Hugging Face name, or a GGUF file to convert"
    )
    models.add_argument("--json", action="store_true", help="print one JSON object a line")
    models.add_argument("--yes", action="store_true", help="remove without asking")


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print("sinkchat", version("sinkchat"))
        parser.exit()


def _known_flags() -> list[str]:
    general = ["--help", "--version", "--config", "--resume", "--continue"]
    own = ["--prompt-file", "--json", "--ignore-eos", "--show-thinking", "--format", "--force", "--yes"]
    own += ["--policies", "--start-position", "--sink-tokens", "--tokens", "--generate", "--seeds", "--prompt"]
    own += ["--recall", "--per-token", "--csv", "--html", "--fail-above", "--baseline"]
    switches = [f"--no-{setting.flag[2:]}" for setting in TABLE if setting.kind == "switch"]
    return [*general, *own, *(setting.flag for setting in TABLE), *switches]
