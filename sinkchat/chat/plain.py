"""Records as plain JSON values, and back: a dataclass is an object of its fields, a tuple a list."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

from sinkchat.chat.records import KINDS, Record

_NAMES = {kind: name for name, kind in KINDS.items()}
NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def kind_of(record: Record) -> str:
    return _NAMES[type(record)]


def to_plain(value: Any) -> Any:
    """What `json` can write. A figure that is not finite becomes the text `nan`, `inf` or `-inf`."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return {name: to_plain(getattr(value, name)) for name in _field_names(cast(Any, type(value)))}


def from_plain(kind: str, plain: Mapping[str, Any]) -> Record:
    """The record that `to_plain` was given. Raises KeyError, TypeError or ValueError for anything else."""
    record: Record = _reader(cast(Any, KINDS[kind]))(plain)
    return record


@cache
def _field_names(type_: Any) -> tuple[str, ...]:
    return tuple([field.name for field in dataclasses.fields(type_)])


@cache
def _reader(type_: Any) -> Callable[[Any], Any]:
    """Turns plain JSON values into `type_`, which is a type that the records' fields have."""
    if dataclasses.is_dataclass(type_):
        return _dataclass_reader(cast(type, type_))
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if origin in (typing.Union, types.UnionType):
        return _optional(_reader(next(argument for argument in arguments if argument is not type(None))))
    if origin is tuple:
        item = _reader(arguments[0])
        return lambda values: tuple([item(value) for value in values])
    if type_ is float:
        return lambda value: NOT_FINITE[value] if isinstance(value, str) else value
    return lambda value: value


def _optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _dataclass_reader(type_: type) -> Callable[[Any], Any]:
    hints = typing.get_type_hints(type_)
    readers = [(name, _reader(hints[name])) for name in _field_names(type_)]
    return lambda plain: type_(**{name: read(plain[name]) for name, read in readers if name in plain})
