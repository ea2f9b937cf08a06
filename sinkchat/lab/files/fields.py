"""Reading the records of `results.py` out of plain JSON values, or saying which of them does not fit its field."""

from __future__ import annotations

import collections.abc
import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeVar, cast

from sinkchat.chat.plain import NOT_FINITE
from sinkchat.lab.results import Rule, Subject

Record = TypeVar("Record")

LARGEST = 2**53
"""All that is counted is less; every reader of JSON can tell whole numbers apart up to here."""


class Misfit(Exception):
    """A value is not what its field takes. `where` is its place, as `runs[3].curve[0].loss`."""

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(f"{where} {reason}")
        self.reason = reason
        self.where = where

    def inside(self, outer: str) -> Misfit:
        joint = "." if self.where and not self.where.startswith("[") else ""
        return Misfit(self.reason, f"{outer}{joint}{self.where}")


def read_record(type_: type[Record], plain: object) -> Record:
    """The record with these fields; lists become tuples, what it does not know is passed over. Raises `Misfit`.

    A `Rule` or a `Subject` inside a record stands in it field by field.
    """
    record: Record = _reader(cast(Any, type_))(plain)
    return record


Reader = Callable[[Any], Any]


@cache
def _reader(type_: Any) -> Reader:
    if dataclasses.is_dataclass(type_):
        return _record_reader(cast(type, type_))
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if origin in (typing.Union, types.UnionType):
        return _optional(_reader(next(argument for argument in arguments if argument is not type(None))))
    if origin is collections.abc.Sequence:
        return _list_reader(_reader(arguments[0]))
    if origin is tuple:
        return _tuple_reader([_reader(argument) for argument in arguments])
    if origin is Literal:
        return _choice_reader(arguments)
    return _SCALARS[type_]


def _record_reader(type_: type) -> Reader:
    hints = typing.get_type_hints(type_)
    fields = [
        (
            field.name,
            _reader(hints[field.name]),
            hints[field.name] in (Rule, Subject),
            field.default is dataclasses.MISSING,
        )
        for field in dataclasses.fields(cast(Any, type_))
    ]

    def read(plain: Any) -> Any:
        if not isinstance(plain, dict):
            raise Misfit("is not an object")
        found = {}
        for name, reader, flat, needed in fields:
            if flat:
                found[name] = reader(plain)
            elif name in plain:
                try:
                    found[name] = reader(plain[name])
                except Misfit as misfit:
                    raise misfit.inside(name) from None
            elif needed:
                raise Misfit("is missing", name)
        return type_(**found)

    return read


def _optional(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _list_reader(item: Reader) -> Reader:
    return lambda values: tuple(_each(values, item))


def _each(values: Any, item: Reader) -> list[Any]:
    if not isinstance(values, list):
        raise Misfit("is not a list")
    found: list[Any] = []
    try:
        for value in values:
            found.append(item(value))
    except Misfit as misfit:
        raise misfit.inside(f"[{len(found)}]") from None
    return found


def _tuple_reader(items: Sequence[Reader]) -> Reader:
    def read(values: Any) -> tuple[Any, ...]:
        if not isinstance(values, list) or len(values) != len(items):
            raise Misfit(f"is not a list of {len(items)}")
        return tuple([item(value) for item, value in zip(items, values, strict=True)])

    return read


def _choice_reader(choices: Sequence[str]) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in choices:
            raise Misfit(f"is not one of {', '.join(choices)}")
        return value

    return read


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Misfit("is not a text")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Misfit("is neither true nor false")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise Misfit("is not a whole number")
    if not 0 <= value <= LARGEST:
        raise Misfit("is not between 0 and 2**53")
    return value


def _number(value: Any) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            pass
    if isinstance(value, str) and value in NOT_FINITE:
        return NOT_FINITE[value]
    raise Misfit("is not a number")


_SCALARS: Mapping[type, Reader] = {str: _text, bool: _truth, int: _whole, float: _number}
