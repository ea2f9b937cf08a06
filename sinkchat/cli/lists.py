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
    return tuple(dict.fromkeys(_whole(flag, word, least, ", or several with commas") for word in words(flag, value)))


def number(flag: str, value: str, least: int = 0) -> int:
    """A whole number. Raises `UsageError`."""
    return _whole(flag, value, least, "")


def _whole(flag: str, value: str, least: int, more: str) -> int:
    plain = value.strip().replace("_", "")
    digits = plain.removeprefix("-").lstrip("0")
    if plain.isascii() and plain.removeprefix("-").isdigit() and len(digits) <= len(str(LARGEST)):
        found = int(digits or "0") * (-1 if plain.startswith("-") else 1)
        if least <= found <= LARGEST:
            return found
    between = f"of at least {least}" if len(digits) <= len(str(LARGEST)) else f"from {least} to {LARGEST:,}"
    raise UsageError(f"{flag} must be a whole number {between}{more}, not {_shown(value)}.")


def _shown(value: str) -> str:
    return repr(value if len(value) <= 60 else f"{value[:57]}...")


def factor(flag: str, value: str) -> float:
    """A number above 0. Raises `UsageError`."""
    try:
        found = float(value)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e9:
        raise UsageError(f"{flag} must be a number above 0, such as 1.25, not {value!r}.")
    return found
