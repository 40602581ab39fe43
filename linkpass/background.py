"""A thread for work on an image beside the steps of the pass."""

from __future__ import annotations

from collections.abc import Callable

# not when the thread begins: a signal that ends the process must not meet two threads that import
from concurrent.futures import ThreadPoolExecutor
from typing import Self, TypeVar

_T = TypeVar("_T")


class Background:
    """A context that begins work in a thread, and is left when all of that is done.

        with Image.open(path) as image, Background() as background:
            result = background.start(lambda: read(image))
            ...
            result()    # waits

    So an image that is closed after it is read by nothing any more.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def start(self, work: Callable[[], _T]) -> Callable[[], _T]:
        """Begin `work`; returns what waits for its result."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1)
        return self._pool.submit(work).result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            # Asked to end. The thread may wait for a lock that was ours to release where the signal has met us; those
            # of imports, Python's own, are not safe from that.
            return
        if self._pool is not None:
            self._pool.shutdown()
