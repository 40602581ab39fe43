"""A thread for work on an image beside the steps of the pass."""

from __future__ import annotations

from collections.abc import Callable

# before the thread begins: a signal that ends the process must not find two threads that import
from concurrent.futures import ThreadPoolExecutor
from typing import Self, TypeVar

_T = TypeVar("_T")


class Background:
    """A context in which threads work on an image; it is left when all work is done.

        with Image.open(path) as image, Background() as background:
            result = background.start(lambda: read(image))
            ...
            result()    # waits

    So no thread reads an image after it is closed.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def start(self, work: Callable[[], _T]) -> Callable[[], _T]:
        """Begin `work`; return a function that waits for its result."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1)
        return self._pool.submit(work).result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            # SIGTERM: the thread may wait for a lock that this thread held when the signal came; Python's own import
            # locks may deadlock so.
            return
        if self._pool is not None:
            self._pool.shutdown()
