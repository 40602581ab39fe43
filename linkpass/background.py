"""A thread for work on an image beside the steps of the pass."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Self, TypeVar

_T = TypeVar("_T")


class Background:
    """A context in which threads work on an image, one after the other; it is left when all work is done.

        with Image.open(path) as image, Background() as background:
            result = background.start(lambda: read(image))
            ...
            result()    # waits

    So no thread reads an image after it is closed.
    """

    def __init__(self) -> None:
        self._last: Thread | None = None

    def start(self, work: Callable[[], _T]) -> Callable[[], _T]:
        """Begin `work` when all that was started before is done; return a function that waits for its result."""
        before = self._last
        results: list[_T] = []
        errors: list[BaseException] = []

        def run() -> None:
            if before is not None:
                before.join()
            try:
                results.append(work())
            except BaseException as error:
                errors.append(error)

        def result() -> _T:
            thread.join()
            if errors:
                raise errors[0]
            return results[0]

        thread = self._last = Thread(target=run)
        thread.start()
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            # SIGTERM: the thread may wait for a lock that this thread held when the signal came; Python's own import
            # locks may deadlock so.
            return
        if self._last is not None:
            self._last.join()
