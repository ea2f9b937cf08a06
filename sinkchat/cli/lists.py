"""Lists on the command line: `256,512`."""

from __future__ import annotations

from sinkchat.errors import UsageError

LARGEST = 10**12


def words(flag: str, value: str) -> tuple[str, ...]:
    """Raises `UsageError` for an empty one."""
    found = tuple(dict.fromkeys(word.strip() for word in value.split(",")))
    if not all(found):
        raise UsageError(f"{flag} has an empty place in {value!r}; give values with a comma between them.")
    return found


def numbers(flag: str, value: str, least: int = 0) -> tuple[int, ...]:
    """Whole numbers, each once. Raises `UsageError`."""
    return tuple(dict.fromkeys(number(flag, word, least) for word in words(flag, value)))


def number(flag: str, value: str, least: int = 0) -> int:
    """A whole number. Raises `UsageError`."""
    plain = value.strip().replace("_", "")
    if not plain.isascii() or not plain.removeprefix("-").isdigit() or not least <= int(plain[:20]) <= LARGEST:
        raise UsageError(f"{flag} must be a whole number of at least {least}, or several with commas, not {value!r}.")
    return int(plain)


def factor(flag: str, value: str) -> float:
    """A number above 0. Raises `UsageError`."""
    try:
        found = float(value)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e9:
        raise UsageError(f"{flag} must be a number above 0, such as 1.25, not {value!r}.")
    return found
