"""Work in several threads, for kernels that release the interpreter lock.

`concurrent.futures` does this too; it imports logging, which takes longer than the scan of a small image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(work: Callable[[Item], Result], items: Sequence[Item], thread_count: int) -> list[Result]:
    """Return what `work` makes of each item, in order; this thread is one of those that work.

    After an exception no item is begun, and the first one is raised when all threads have ended.
    """
    if thread_count <= 1 or len(items) <= 1:
        return [work(item) for item in items]
    found: dict[int, Result] = {}
    errors: list[BaseException] = []
    remaining = iter(range(len(items)))

    def run() -> None:
        for row in remaining:
            if errors:
                return
            try:
                found[row] = work(items[row])
            except BaseException as error:
                errors.append(error)

    others = [Thread(target=run) for _ in range(min(thread_count, len(items)) - 1)]
    try:
        for thread in others:
            thread.start()
        run()
    except BaseException as error:  # a signal while threads are started
        errors.append(error)
    for thread in others:
        if thread.ident is not None:
            thread.join()
    if errors:
        raise errors[0]
    return [found[row] for row in range(len(items))]
