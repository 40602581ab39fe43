"""The fields of a sample after those of fixed size: which bytes are its call chain, its branches, its user's state.

In this order, each there if its bit is set in `sample_type`:

    READ             by read_format: u64 value, times, id, `lost`; or with GROUP u64 count, times, and these for each
    CALLCHAIN        u64 count, u64 each
    RAW              u32 size_bytes, bytes
    BRANCH_STACK     u64 count, i64 hw_index (with HW_INDEX), (u64 from, to, flags) each, u64 each (with COUNTERS)
    REGS_USER        u64 abi; unless that is 0 a u64 for each bit of sample_regs_user
    STACK_USER       u64 size_bytes, bytes, and unless that is 0 u64 how many of them are the stack's
    WEIGHT, DATA_SRC, TRANSACTION: u64 each     REGS_INTR     PHYS_ADDR, CGROUP, DATA_PAGE_SIZE, CODE_PAGE_SIZE: u64
    AUX              u64 size_bytes, bytes

Nothing after STACK_USER is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from unwind.readers.perf_data.events import Attr
from unwind.readers.perf_data.layout import (
    BRANCH_COUNTERS,
    BRANCH_HW_INDEX,
    FORMAT_GROUP,
    FORMAT_ID,
    FORMAT_LOST,
    FORMAT_TOTAL_TIME_ENABLED,
    FORMAT_TOTAL_TIME_RUNNING,
    SAMPLE_BRANCH_STACK,
    SAMPLE_CALLCHAIN,
    SAMPLE_RAW,
    SAMPLE_READ,
    SAMPLE_REGS_USER,
    SAMPLE_STACK_USER,
    U64,
)
from unwind.readers.perf_data.records import Records

_BRANCH_BYTES = 24


@dataclass(slots=True, eq=False)
class UserState:
    """Registers and stack of the user's code when a sample was taken: what an unwinder needs.

    `registers` are u64 each, those of the bits of `mask` in ascending order (`asm/perf_regs.h`); `stack` begins at the
    stack pointer.
    """

    abi: int  # 1: 32 bits, 2: 64 bits
    mask: int
    registers: memoryview
    stack: memoryview

    def register(self, number: int) -> int | None:
        """Return the value of a register; None if it was not recorded."""
        if not self.mask >> number & 1:
            return None
        at = 8 * (self.mask & (1 << number) - 1).bit_count()
        return int.from_bytes(self.registers[at : at + 8], "little")


class Fields:
    """Reads the fields of one sample, in this order."""

    def __init__(self, attr: Attr, records: Records, buffer: bytes, at: int, end: int) -> None:
        self._attr, self._records, self._buffer, self._at, self._end = attr, records, buffer, at, end

    def chain(self) -> tuple[int, int]:
        """Return where the call chain starts and ends."""
        if self._attr.sample_type & SAMPLE_READ:
            self._skip_read()
        if not self._attr.sample_type & SAMPLE_CALLCHAIN:
            return 0, 0
        return self._take(8 * self._u64(), "call chain")

    def branches(self) -> tuple[int, ...]:
        """Return from and to of the branches one after the other, the last branch first."""
        sample_type = self._attr.sample_type
        if sample_type & SAMPLE_RAW:
            start, end = self._take(4, "raw data")
            self._take(int.from_bytes(self._buffer[start:end], "little"), "raw data")
        if not sample_type & SAMPLE_BRANCH_STACK:
            return ()
        count = self._u64()
        if self._attr.branch_sample_type & BRANCH_HW_INDEX:
            self._take(8, "branch stack")
        start, end = self._take(_BRANCH_BYTES * count, "branch stack")
        if self._attr.branch_sample_type & BRANCH_COUNTERS:
            self._take(8 * count, "branch counters")
        values = memoryview(self._buffer)[start:end].cast("Q")
        return tuple(value for at, value in enumerate(values) if at % 3 != 2)

    def user_state(self) -> UserState | None:
        """Return registers and stack of the user's code; None if the sample has none."""
        sample_type, view = self._attr.sample_type, memoryview(self._buffer)
        abi, registers, stack = 0, view[:0], view[:0]
        if sample_type & SAMPLE_REGS_USER:
            abi = self._u64()
            if abi:
                start, end = self._take(8 * self._attr.regs_user.bit_count(), "registers")
                registers = view[start:end]
        if sample_type & SAMPLE_STACK_USER:
            start, end = self._take(self._u64(), "stack")
            if start < end:
                stack = view[start : start + min(self._u64(), end - start)]
        return UserState(abi, self._attr.regs_user, registers, stack) if abi else None

    def _skip_read(self) -> None:
        form = self._attr.read_format
        times = bool(form & FORMAT_TOTAL_TIME_ENABLED) + bool(form & FORMAT_TOTAL_TIME_RUNNING)
        width = 1 + bool(form & FORMAT_ID) + bool(form & FORMAT_LOST)
        count = self._u64() if form & FORMAT_GROUP else 1
        self._take(8 * (times + width * count), "values read")

    def _u64(self) -> int:
        start, _ = self._take(U64.size, "a count")
        value: int = U64.unpack_from(self._buffer, start)[0]
        return value

    def _take(self, size_bytes: int, what: str) -> tuple[int, int]:
        start = self._at
        if size_bytes > self._end - start:
            raise self._records.error(start, f"sample: {what} of {size_bytes} bytes, {self._end - start} are left")
        self._at = start + size_bytes
        return start, self._at
