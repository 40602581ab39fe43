"""How much time and memory a damaged input may take."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alarms() -> Iterator[None]:
    """In here, `soon(seconds)` ends what takes longer by an AssertionError; 0 calls it off."""

    def too_long(*_: object) -> None:
        raise AssertionError("takes too long")

    previous = {number: signal.signal(number, too_long) for number in (signal.SIGPROF, signal.SIGALRM)}
    try:
        yield
    finally:
        soon(0)
        for number, handler in previous.items():
            signal.signal(number, handler)


def soon(seconds: int) -> None:
    """Allow so many seconds of processor time; what waits gets ten times as many by the clock."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(10 * seconds)


def reset_peak_memory() -> int:
    """Start over with the process's peak of resident bytes."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def peak_memory() -> int:
    """The highest count of resident bytes since the last reset."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def many(count: int) -> int:
    """Return a part of `count`, by default a quarter of it; ICF_FUZZ_SCALE=1 asks for all, 100 for a long run."""
    return max(int(count * float(os.environ.get("ICF_FUZZ_SCALE", "0.25"))), 1)
