"""What the packages report besides their answers: warnings and notes, through the logger `icf`.

A program that uses the packages routes them with `logging`; without a handler nothing is written. The command `icf`
shows them as lines on stderr:

    icf: warning: shop: its code has changed since its call-site tables were written: they are not used
    hint: run 'icf pass' again
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

from icf.printable import say

if TYPE_CHECKING:
    from logging import Logger

_is_command = False


def show_lines() -> None:
    """Write each later report to stderr; only the command calls this."""
    global _is_command
    _is_command = True


def warn(problem: str, hint: str | None = None) -> None:
    """Report that an answer may be incomplete, and what helps; the level is WARNING."""
    _logger(_is_command).warning(problem, extra={"hint": hint})


def note(fact: str, hint: str | None = None) -> None:
    """Report a fact; the level is INFO."""
    _logger(_is_command).info(fact, extra={"hint": hint})


def progress(text: str) -> None:
    """Report the progress of a long step; the level is DEBUG, which the command shows on terminals."""
    _logger(_is_command).debug(text)


@cache
def _logger(is_command: bool) -> Logger:
    import logging  # importing it takes a fifth of a query, and most queries report nothing

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kind = "warning: " if record.levelno >= logging.WARNING else ""
            hint = getattr(record, "hint", None)
            say(f"icf: {kind}{record.getMessage()}", *([f"hint: {hint}"] if hint else []))

    logger = logging.getLogger("icf")
    logger.addHandler(Lines() if is_command else logging.NullHandler())
    if is_command:
        logger.setLevel(logging.DEBUG if sys.stderr.isatty() else logging.INFO)
    return logger
