"""`sinkchat`: reads the command line and hands over to one command. Only the chosen command is imported."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from sinkchat.cli.arguments import LISTS, LOADING, parse
from sinkchat.cli.resolved import Resolved, resolve
from sinkchat.cli.terminal import abandon_stdout, complain, encodable, is_terminal, say
from sinkchat.errors import SinkchatError, UsageError
from sinkchat.settings import TABLE

DONE, FAILED, INTERRUPTED = 0, 1, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0 done, 1 failed, 2 wrong use or input, 3 a verdict, 130
    interrupted."""
    encodable(sys.stdout)
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except SinkchatError as error:
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough, as `head` does: nothing failed.
        abandon_stdout()
        return DONE
    except Exception as error:  # noqa: BLE001 -- the last place: the log gets the traceback, the person a sentence
        from sinkchat.cli.log import record_failure

        complain(record_failure(error))
        abandon_stdout()
        return FAILED


def _run(argv: Sequence[str]) -> int:
    try:
        return _command(parse(argv), argv)
    except SystemExit as ended:
        # argparse has printed its help, and does not look whether anybody could read it.
        say("")
        return int(ended.code or 0)


def _command(arguments: argparse.Namespace, argv: Sequence[str]) -> int:
    if arguments.command == "export":
        from sinkchat.cli import export

        return export.run(arguments.words, arguments.format, force=arguments.force)
    if arguments.command == "sessions":
        from sinkchat.cli import sessions

        return sessions.run()
    measuring = arguments.command in ("eval", "sinks")
    if measuring:
        _refuse_settings_of_a_chat(arguments)
    resolved = _resolved(arguments, LOADING if measuring else [setting.field for setting in TABLE])
    if arguments.command == "config":
        from sinkchat.cli import config

        return config.run(arguments.action, resolved)
    if arguments.command == "models":
        from sinkchat.cli import models

        return models.run(arguments.words, resolved.settings, as_json=arguments.json, yes=arguments.yes)
    if measuring:
        return _measure(arguments, resolved, argv)
    resuming = _resumed(arguments.resume)
    if arguments.command is None and is_terminal(sys.stdin) and is_terminal(sys.stdout):
        from sinkchat.cli import chat

        return chat.run(resolved.settings, resuming)
    # A screen needs a terminal on both sides; a pipe on either is a question.
    from sinkchat.cli import ask

    asked = arguments.command == "ask"
    question = ask.Question(
        words=arguments.words if asked else (),
        prompt_file=arguments.prompt_file if asked else None,
        json=asked and arguments.json,
        ignore_eos=asked and arguments.ignore_eos,
        show_thinking=asked and arguments.show_thinking,
        resuming=resuming,
    )
    return ask.run(question, resolved.settings)


def _measure(arguments: argparse.Namespace, resolved: Resolved, argv: Sequence[str]) -> int:
    from sinkchat.cli.repeating import repeatable

    command = repeatable(argv, resolved)
    if arguments.command == "eval":
        from sinkchat.cli import eval

        return eval.run(arguments, resolved.settings, command)
    from sinkchat.cli import sinks

    return sinks.run(arguments, resolved.settings, command)


def _refuse_settings_of_a_chat(arguments: argparse.Namespace) -> None:
    """They may stand before the command, where its own parser does not see them."""
    for setting in TABLE:
        if setting.field not in (*LOADING, *LISTS) and getattr(arguments, setting.field) is not None:
            raise UsageError(f"`sinkchat {arguments.command}` does not take {setting.flag}; leave it out.")


def _resolved(arguments: argparse.Namespace, fields: Sequence[str]) -> Resolved:
    """`fields`: the settings that the command takes as flags."""
    flags = {
        setting.field: getattr(arguments, setting.field) if setting.field in fields else None for setting in TABLE
    }
    return resolve(flags, os.environ, Path(arguments.config) if arguments.config is not None else None)


def _resumed(session: str | None) -> Path | None:
    if session is None:
        return None
    from sinkchat.cli.saved import journal_of

    return journal_of(session)


if __name__ == "__main__":
    sys.exit(main())
