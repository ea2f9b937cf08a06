"""An evaluation as one JSON document, complete and versioned, and back. Its schema is docs/evaluation.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from sinkchat.chat.plain import NOT_FINITE, to_plain
from sinkchat.errors import UsageError
from sinkchat.files import MIB, expanded, read_regular
from sinkchat.lab.figures import perplexity
from sinkchat.lab.files.consistency import check_consistent
from sinkchat.lab.files.fields import Misfit, read_record
from sinkchat.lab.files.saving import save
from sinkchat.lab.results import Evaluation

SCHEMA = "sinkchat-evaluation"
VERSION = 1

LARGEST = 1024 * MIB
"""Bytes: some twenty million tokens with a loss each."""

PERPLEXITIES: Mapping[str, str] = {
    "loss_mean": "ppl",
    "loss_before": "ppl_before",
    "loss_after": "ppl_after",
    "loss_same_positions": "ppl_same_positions",
    "loss_full_same_positions": "ppl_full_same_positions",
}
"""What is written behind a loss, and not read again: its `exp`."""

_PER_LINE = 32
"""Numbers."""


def to_json(evaluation: Evaluation) -> str:
    """ASCII alone: control characters are there, escaped."""
    return "".join(_pieces(evaluation))


def write(evaluation: Evaluation, path: Path | str) -> None:
    """Over what was there, whole or not at all. Raises `SinkchatError`."""
    save(path, _pieces(evaluation))


def read(path: Path | str) -> Evaluation:
    """Raises `UsageError` for a file that cannot be read, or holds no such document."""
    try:
        content = read_regular(expanded(path), LARGEST)
    except FileNotFoundError:
        raise UsageError(f"There is no file {path}; check the name, or where sinkchat was started.") from None
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{path} cannot be read ({reason}); name a file that sinkchat eval --json wrote.") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _none(str(path), "it is not UTF-8 text") from error
    return from_json(text, str(path))


def from_json(text: str, name: str = "The document") -> Evaluation:
    """What `to_json` was given, its lists as tuples. name: of the document, for the sentence of an error.

    Raises `UsageError` that names what is wrong with it.
    """
    try:
        plain = json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise _none(name, f"it is not JSON (line {error.lineno:,}, column {error.colno:,})") from error
    except RecursionError as error:
        raise _none(name, "its lists are too deep") from error
    except ValueError as error:  # a constant, or more digits than Python reads
        raise _none(name, "there is a number in it that is none") from error
    _check_schema(name, plain)
    try:
        return _evaluation(plain)
    except Misfit as misfit:
        raise _none(name, f"{misfit.where} {misfit.reason}") from None


def _no_number(constant: str) -> float:
    raise ValueError(constant)


def _none(name: str, reason: str) -> UsageError:
    return UsageError(f"{name} is no evaluation: {reason}; name a file that sinkchat eval --json wrote.")


def _check_schema(name: str, plain: object) -> None:
    schema = plain.get("schema") if isinstance(plain, dict) else None
    if schema == f"{SCHEMA}/{VERSION}":
        return
    version = re.fullmatch(rf"{SCHEMA}/([0-9]{{1,9}})", schema) if isinstance(schema, str) else None
    if version and int(version[1]) > VERSION:
        raise UsageError(
            f"{name} was written by a newer sinkchat: its schema is {schema}, and this one reads {SCHEMA}/{VERSION}; "
            "update sinkchat, or evaluate again."
        )
    raise _none(name, f"its schema is not {SCHEMA}/{VERSION}")


def _evaluation(plain: Mapping[str, Any]) -> Evaluation:
    text = plain.get("text")
    if not isinstance(text, dict):
        raise Misfit("is missing" if text is None else "is not an object", "text")
    try:
        evaluation = read_record(Evaluation, {**plain, **{f"text_{key}": value for key, value in text.items()}})
    except Misfit as misfit:
        raise Misfit(misfit.reason, re.sub("^text_", "text.", misfit.where)) from None
    check_consistent(evaluation)
    return evaluation


def _pieces(evaluation: Evaluation) -> Iterator[str]:
    yield from _layout(_document(evaluation), "\n")
    yield "\n"


def _document(evaluation: Evaluation) -> dict[str, Any]:
    plain = to_plain(evaluation)
    subject = plain.pop("subject")
    text = {key.removeprefix("text_"): subject.pop(key) for key in list(subject) if key.startswith("text_")}
    runs = [_run(run) for run in plain.pop("runs")]
    others = {
        part: [{**record.pop("rule"), **record} for record in plain.pop(part)] for part in ("generation", "recall")
    }
    return {"schema": f"{SCHEMA}/{VERSION}", **subject, "text": text, **plain, "runs": runs, **others}


def _run(plain: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = plain.pop("rule")
    for key, value in plain.items():
        found[key] = value
        if key in PERPLEXITIES:
            found[PERPLEXITIES[key]] = to_plain(perplexity(NOT_FINITE.get(value, value)))
    return found


def _layout(value: Any, break_: str) -> Iterator[str]:
    """JSON in pieces: an object of scalars on one line, a field of any other and an item of a list on one each, many
    numbers on a line. break_: what ends a line where the value stands."""
    inner = break_ + " "
    if isinstance(value, dict):
        if not any(isinstance(item, dict | list) for item in value.values()):
            yield _dumped(value)
            return
        for number, (key, item) in enumerate(value.items()):
            yield f"{'{,'[number > 0]}{inner}{_dumped(key)}: "
            yield from _layout(item, inner)
        yield break_ + "}"
    elif not isinstance(value, list):
        yield _dumped(value)
    elif not any(isinstance(item, dict | list) for item in value):
        yield from _rows(value, break_)
    else:
        for number, item in enumerate(value):
            yield f"{'[,'[number > 0]}{inner}"
            yield from _layout(item, inner)
        yield break_ + "]"


def _rows(values: list[Any], break_: str) -> Iterator[str]:
    if len(values) <= _PER_LINE:
        yield _dumped(values)
        return
    rest = iter(values)
    mark = "["
    while row := list(islice(rest, _PER_LINE)):
        yield f"{mark}{break_} {_dumped(row)[1:-1]}"
        mark = ","
    yield break_ + "]"


def _dumped(value: Any) -> str:
    # DEL is the one control character that `json` leaves as it is.
    return json.dumps(value, ensure_ascii=True, allow_nan=False).replace("\x7f", "\\u007f")
