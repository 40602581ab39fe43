"""How a signal ends a command: by an exception, so that `with` and `finally` undo what was begun.

Python runs a handler between any two instructions, also in its own import code, which takes a lock before it enters the
`try` that frees it. An exception there leaves the lock taken: the next thread that imports waits for ever. So a
signal that comes there is kept for a millisecond.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

EXIT_TERMINATED = 128 + signal.SIGTERM
_WAIT_S = 0.001
_IMPORT_CODE = "<frozen importlib"


def end_by_exceptions() -> None:
    """Raise SystemExit for SIGTERM and KeyboardInterrupt for SIGINT, but not in Python's own import code.

    An ignored SIGINT stays ignored. Where a signal has to wait, the process's alarm is used.
    """
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def _end(number: int, frame: FrameType | None) -> None:
    if frame is not None and frame.f_code.co_filename.startswith(_IMPORT_CODE):
        signal.signal(signal.SIGALRM, lambda _, later: _end(number, later))
        signal.setitimer(signal.ITIMER_REAL, _WAIT_S)
    elif number == signal.SIGINT:
        raise KeyboardInterrupt
    else:
        sys.exit(EXIT_TERMINATED)
