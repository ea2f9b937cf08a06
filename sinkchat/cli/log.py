"""The log file: what libraries warn of and what went wrong unexpectedly, kept off the terminal."""

from __future__ import annotations

import logging
import logging.handlers
from pathlib import Path

from sinkchat import locations

LOGGER = logging.getLogger("sinkchat")
_LARGEST = 1_000_000


class _LogFile(logging.handlers.RotatingFileHandler):
    """Makes its folder when the first record comes; a disk that cannot be written must not end a chat."""

    def __init__(self) -> None:
        super().__init__(locations.log_file(), maxBytes=_LARGEST, backupCount=1, encoding="utf-8", delay=True)
        self.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
        self.failed = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            self.failed = True
            return
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        self.failed = True


def keep_log() -> None:
    """Send warnings and errors, Python's own warnings too, to the log file from now on."""
    root = logging.getLogger()
    if not any(isinstance(handler, _LogFile) for handler in root.handlers):
        root.addHandler(_LogFile())
        root.setLevel(logging.WARNING)
        logging.captureWarnings(True)


def record_failure(error: BaseException) -> str:
    """Write the error with its traceback; returns the sentence that a person is told."""
    keep_log()
    handler = next(handler for handler in logging.getLogger().handlers if isinstance(handler, _LogFile))
    handler.failed = False
    LOGGER.error("unexpected failure", exc_info=error)
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    reason = reason if len(reason) <= 200 else reason[:197] + "..."
    if handler.failed:
        return f"Something failed that should not have ({reason}), and the log file could not be written either."
    return f"Something failed that should not have ({reason}); the details are in {locations.log_file()}."
