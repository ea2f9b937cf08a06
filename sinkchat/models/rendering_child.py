"""The program that renders a chat template: JSON on its standard input, JSON on its standard output.

It is run by path, apart from everything else (`rendering.py` starts it), and imports jinja2 alone. A chat template is
a program that came with a model: it runs in jinja2's sandbox, under limits on time, memory and output, and can be
ended without harm.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any


class _TooLong(Exception):
    """The output passed its limit."""


def main() -> None:
    order = json.load(sys.stdin.buffer)
    sys.path.extend(order["paths"])
    environment = _environment()
    _limit(order["seconds"], order["memory"])
    try:
        template = environment.from_string(order["source"])
    except Exception as error:  # noqa: BLE001 (whatever a template does is its answer)
        answers = [{"error": _words(error)}] * len(order["conversations"])
    else:
        answers = [
            _answer(template, {**order["names"], **conversation}, order["characters"])
            for conversation in order["conversations"]
        ]
    sys.stdout.write(json.dumps(answers, ensure_ascii=True))


def _answer(template: Any, variables: dict[str, Any], most: int) -> dict[str, str]:
    pieces: list[str] = []
    length = 0
    try:
        for piece in template.generate(tools=None, documents=None, **variables):
            pieces.append(piece)
            length += len(piece)
            if length > most:
                raise _TooLong(f"it writes more than {most:,} characters around a few words")
    except Exception as error:  # noqa: BLE001 (whatever a template does is its answer)
        return {"error": _words(error)}
    return {"text": "".join(pieces)}


def _words(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "it needs too much memory"
    if isinstance(error, RecursionError):
        return "it calls itself without end"
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:300].rstrip(".")


def _environment() -> Any:
    """What templates are written for: the environment that transformers gives them."""
    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}` marks a reply for training; here it is only what stands in it."""

        tags = {"generation"}  # noqa: RUF012 (declared so by its base)

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message: object) -> None:
        raise jinja2.TemplateError(str(message))

    def tojson(
        value: object,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        # jinja2's own escapes HTML.
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def strftime_now(format: str) -> str:
        return datetime.now().strftime(format)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)
    strftime_now("%c")  # the time zone is read while files can still be
    return environment


def _limit(seconds: int, memory: int) -> None:
    """Seconds of CPU and bytes of memory; no file can grow. What a system does not limit, the parent's clock does."""
    try:
        import resource
    except ImportError:
        return
    wanted = [(resource.RLIMIT_CPU, seconds), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)]
    wanted.append((resource.RLIMIT_AS, memory))
    for kind, most in wanted:
        hard = resource.getrlimit(kind)[1]
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (soft, hard))
        except (ValueError, OSError):
            continue  # a limit that this system does not know


if __name__ == "__main__":
    main()
