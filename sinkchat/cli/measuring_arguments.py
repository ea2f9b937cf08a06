"""The grammar of the commands that measure: `eval` and `sinks`."""

from __future__ import annotations

import argparse
from typing import Any, TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[Any]"

_TOKENS = "how many tokens of the text each run reads (default: 6144, or eight times the largest window)"


def add_eval(commands: Commands, parents: list[Any]) -> None:
    command = commands.add_parser(
        "eval",
        help="measure what bounding the cache does to a model",
        description="Read a text under many rules and tell the loss of its tokens, what the cache held, and how much "
        "attention the sinks took. Each combination of the lists that means something of its own is a run.",
        epilog="exit codes: 0 done, 1 failed, 2 wrong use or input, 3 worse than --fail-above, 130 ended early",
        usage="sinkchat eval [TEXT_FILE] [--model NAME] [--policies P,P] [--window N,N] [--sinks N,N] ...",
        parents=parents,
        allow_abbrev=False,
    )
    _add_text(command)
    runs = command.add_argument_group("what is run: lists with commas")
    runs.add_argument(
        "--policies",
        metavar="P,P",
        help="of full (everything stays), window (the newest alone), sinks (the first and the newest), recompute "
        "(when full, the older half is dropped and the rest runs again) (default: the first three)",
    )
    runs.add_argument(
        "--window",
        default=argparse.SUPPRESS,
        metavar="N,N",
        help="KV entries a layer may hold, sinks included (default: 512)",
    )
    runs.add_argument(
        "--sinks",
        default=argparse.SUPPRESS,
        metavar="N,N",
        help="how many first tokens are kept for good (default: 4)",
    )
    runs.add_argument(
        "--positions",
        default=argparse.SUPPRESS,
        metavar="P,P",
        help="of cache, absolute: with sinks, a query is placed by its index in the cache, or by its place in the "
        "whole sequence (default: cache)",
    )
    runs.add_argument(
        "--start-position",
        metavar="N,N",
        help="with absolute positions: how much further from the sinks the text stands, as if so many tokens had "
        "been read before it (default: 0)",
    )
    runs.add_argument(
        "--sink-tokens",
        metavar="T,T",
        help="what stands where the sinks are: of text, newlines, random (default: text)",
    )
    runs.add_argument("--tokens", metavar="N", help=_TOKENS)
    more = command.add_argument_group("what is measured besides")
    more.add_argument(
        "--generate", metavar="N", help="write N tokens by sampling under each rule, once for each seed"
    )
    more.add_argument("--seeds", metavar="N,N", help="of --generate (default: 1,2,3)")
    more.add_argument("--prompt", metavar="TEXT", help="what --generate writes about (default: a lighthouse)")
    more.add_argument("--recall", action="store_true", help="plant facts in the text, and ask for them later")
    more.add_argument(
        "--per-token", action="store_true", help="keep the loss and the share of every token (in --json and --csv)"
    )
    _add_outputs(command)
    verdict = command.add_argument_group("a verdict, for scripts")
    verdict.add_argument(
        "--fail-above",
        metavar="X",
        help="exit with 3 if, after the first eviction, the perplexity of any run is more than X times the full "
        "cache's on the same tokens; best with --policies full,sinks, since window alone fails as a rule",
    )
    verdict.add_argument(
        "--baseline",
        metavar="FILE",
        help="hold each run against the one of the same rule in an earlier --json file instead",
    )


def add_sinks(commands: Commands, parents: list[Any]) -> None:
    command = commands.add_parser(
        "sinks",
        help="how many sinks a model needs, and at which heads",
        description="Read a text with 0 to 16 sinks, and tell how many are enough, and which heads use them.",
        usage="sinkchat sinks [TEXT_FILE] [--model NAME] [--window N] [--sinks N,N] [--tokens N] ...",
        parents=parents,
        allow_abbrev=False,
    )
    _add_text(command)
    command.add_argument(
        "--window", default=argparse.SUPPRESS, metavar="N", help="KV entries, sinks included (default: 512)"
    )
    command.add_argument("--sinks", default=argparse.SUPPRESS, metavar="N,N", help="default: 0,1,2,4,8,16")
    command.add_argument("--tokens", metavar="N", help=_TOKENS)
    _add_outputs(command)


def _add_text(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "words",
        nargs="*",
        metavar="TEXT_FILE",
        help="a text file, - for standard input; without one, English text that comes with Python",
    )


def _add_outputs(command: argparse.ArgumentParser) -> None:
    outputs = command.add_argument_group("files")
    outputs.add_argument("--json", metavar="FILE", help="everything, also after each run; - for standard output")
    outputs.add_argument("--csv", metavar="FILE", help="the curves, a row a point")
    outputs.add_argument("--html", metavar="FILE", help="a report with pictures, in one file")
    outputs.add_argument("--force", action="store_true", help="write over files that exist")
    # `--resume` of a chat names a session
    outputs.add_argument(
        "--resume",
        dest="resume_run",
        action="store_true",
        help="go on: what the --json file has from the same text and model is not measured again",
    )
