"""Work in several threads: all of it is done once, in order of the results; an exception ends it."""

from __future__ import annotations

from threading import Barrier, Event, Thread, active_count, current_thread

import pytest

from icf.threads import in_threads


@pytest.mark.parametrize("thread_count", [0, 1, 2, 7])
def test_results_are_in_the_order_of_the_items(thread_count: int) -> None:
    assert in_threads(lambda item: 3 * item, range(100), thread_count) == list(range(0, 300, 3))
    assert in_threads(lambda item: 3 * item, (), thread_count) == []


def test_this_thread_works_beside_the_others() -> None:
    together, before = Barrier(3, timeout=10), active_count()

    def work(_: int) -> Thread:
        together.wait()
        return current_thread()

    assert set(in_threads(work, range(3), 3)) >= {current_thread()}
    assert active_count() == before


def test_an_exception_is_raised_when_all_threads_have_ended() -> None:
    begun, ended, failed, before = [], [], Event(), active_count()

    def work(item: int) -> None:
        begun.append(item)
        if item == 1:
            failed.set()
            raise ValueError("item 1")
        failed.wait(10)
        ended.append(item)

    with pytest.raises(ValueError, match="item 1"):
        in_threads(work, range(1000), 2)
    assert sorted({*ended, 1}) == sorted(begun) and len(begun) < 1000
    assert active_count() == before
