"""The heap of the C library, while a large program is read.

With glibc each thread has a heap of its own, and only the end of a heap goes back to the system. Columns are allocated
in one thread and freed in another, and a step frees in the middle of the heap what it needed: a sixth of the memory of
a pass over a large program was free, and still counted. Other C libraries need none of this.

Both are settings of the whole process, so only the commands of this project change them (`own_process`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_M_ARENA_MAX = -8

_is_own = False


def own_process() -> None:
    """Say that this process is a command of this project: no other code depends on its heap."""
    global _is_own
    _is_own = True


def share_heap() -> None:
    """Let threads that are started from here on allocate from the heap that there is."""
    _call("mallopt", _M_ARENA_MAX, 1)


def trim_heap() -> None:
    """Return what is free to the system."""
    _call("malloc_trim", 0)


def _call(name: str, *args: int) -> None:
    if not _is_own:
        return
    import ctypes

    function: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*args)
