"""Call chains to frames. A chain is u64 numbers, innermost first, with markers that say whose code follows:

    KERNEL ip, return addresses .. USER pc, return addresses ..
    USER_DEFERRED cookie                        the user's part comes later, in a record of its own with this cookie

The first address after a marker is a program counter: of the sample, or where the program entered the kernel.

A recording has millions of chains, and a program some ten thousand places where they lead. So an address is looked up
once for each view of an address space (`spaces`), and what chains have in common once for all (`chain_tree`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from unwind.readers.perf_data.layout import (
    CONTEXT_GUEST,
    CONTEXT_GUEST_KERNEL,
    CONTEXT_GUEST_USER,
    CONTEXT_HYPERVISOR,
    CONTEXT_KERNEL,
    CONTEXT_MAX,
    CONTEXT_USER_DEFERRED,
)
from unwind.samples.recording import RecordedFrame

Frames = tuple[RecordedFrame, ...]
_KEPT_FRAMES = 1 << 18
_OTHERS = {
    CONTEXT_HYPERVISOR: "[hypervisor]",
    CONTEXT_GUEST: "[guest]",
    CONTEXT_GUEST_KERNEL: "[guest.kernel]",
    CONTEXT_GUEST_USER: "[guest]",
}


class FrameTable(dict[int, RecordedFrame]):
    """The frames of addresses, made when they are asked for first."""

    def __init__(self, make: Callable[[int, bool], RecordedFrame], is_exact: bool) -> None:
        super().__init__()
        self._make, self._is_exact = make, is_exact

    def __missing__(self, address: int) -> RecordedFrame:
        if len(self) >= _KEPT_FRAMES:
            self.clear()
        frame = self[address] = self._make(address, self._is_exact)
        return frame


class Tables:
    """The frames of one space: those of program counters, and those of return addresses."""

    __slots__ = ("exact", "called")

    def __init__(self, make: Callable[[int, bool], RecordedFrame]) -> None:
        self.exact, self.called = FrameTable(make, True), FrameTable(make, False)


def other_tables(kernel: Callable[[int, bool], RecordedFrame]) -> dict[int, Tables]:
    """Return the frames by the markers of all that is not of a process."""
    tables = {marker: Tables(_named(name)) for marker, name in _OTHERS.items()}
    tables[CONTEXT_KERNEL] = Tables(kernel)
    return tables


def frames_of(chain: bytes, default: int, user: Tables, others: Mapping[int, Tables]) -> tuple[Frames, int]:
    """Return the frames of a call chain, and the cookie of the part that is still to come; 0 if none is.

    `default` is the marker for what stands before the first one.
    """
    values = memoryview(chain).cast("Q")
    frames: list[RecordedFrame] = []
    tables, is_first, cookie = others.get(default, user), True, 0
    numbers = iter(values)
    for value in numbers:
        if value == CONTEXT_USER_DEFERRED:
            cookie = next(numbers, 0)
            tables, is_first = user, True
        elif value >= CONTEXT_MAX:
            tables, is_first = others.get(value, user), True
        else:
            frames.append((tables.exact if is_first else tables.called)[value])
            is_first = False
    return tuple(frames), cookie


def _named(name: str) -> Callable[[int, bool], RecordedFrame]:
    return lambda address, is_exact: RecordedFrame(address, name=name, is_exact=is_exact)
