"""How functions of a PE image for x86-64 are unwound: `.pdata` and `.xdata`.

    exception directory    12 bytes a function, by address: RVA of its begin, of its end, of its unwind information
    unwind information     u8 version and flags << 3 | u8 size of the prologue | u8 slots of codes
                           u8 frame register and its offset / 16 << 4 | codes, 2 bytes a slot | more by flags

A code undoes one instruction of the prologue. It has the offset of the next instruction, an operation and a number of 4
bits; some have a number in one or two more slots. The last instruction comes first. With CHAINED the 12 bytes after the
codes are another function, whose prologue ran before. Version 2 adds codes that say where epilogues are.

Source: Microsoft, "x64 exception handling", struct RUNTIME_FUNCTION and UNWIND_INFO.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icf.columns import U64
from icf.errors import FormatError
from icf.pe.headers import EXCEPTIONS
from icf.reader import Reader

if TYPE_CHECKING:
    from icf.pe.image import PeImage

(
    PUSH_NONVOL, ALLOC_LARGE, ALLOC_SMALL, SET_FPREG, SAVE_NONVOL, SAVE_NONVOL_FAR, EPILOG, _SPARE,
    SAVE_XMM128, SAVE_XMM128_FAR, PUSH_MACHFRAME,
) = range(11)  # fmt: skip
CHAINED = 4  # bit of the flags
_VERSIONS = (1, 2)
_FUNCTION_BYTES, _SLOT_BYTES = 12, 2
_HANDLERS = 3  # bits of the flags: a handler of exceptions, one of terminations
_CHAIN_LIMIT = 32
_INDIRECT = 1  # bit of the RVA: there is another entry of `.pdata`
_PLACE = "unwind information"


class RuntimeFunction(NamedTuple):
    """An entry of `.pdata`, with RVAs."""

    begin: int
    end: int
    info: int


class UnwindCode(NamedTuple):
    """One instruction of a prologue."""

    offset: int  # of the next instruction in the function
    operation: int
    number: int  # a register, by Microsoft's numbers, or a flag
    value: int = 0  # in bytes: what was allocated, or where the register was saved


class UnwindInfo(NamedTuple):
    """What undoes the prologue of a function."""

    version: int
    flags: int
    prologue_bytes: int
    frame_register: int  # 0: none
    frame_offset: int  # of the stack pointer below the frame register
    codes: tuple[UnwindCode, ...]  # the last instruction first
    chained: RuntimeFunction | None  # the function whose prologue ran before
    handler: int  # RVA; 0: none


class UnwindTable:
    """The unwind information of an image for x86-64."""

    def __init__(self, image: PeImage) -> None:
        self._image = image
        directory = image.headers.directory(EXCEPTIONS)
        content = image.read(image.base + directory.rva, directory.size_bytes) if directory.rva else memoryview(b"")
        if len(content) < directory.size_bytes:
            problem = f"{directory.size_bytes} bytes at RVA {directory.rva:#x} are not in a section"
            raise FormatError(image.path, "exception directory", 0, problem)
        self._words = memoryview(bytes(content[: len(content) // _FUNCTION_BYTES * _FUNCTION_BYTES])).cast("I")

    def __len__(self) -> int:
        return len(self._words) // 3

    def __iter__(self) -> Iterator[RuntimeFunction]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, row: int) -> RuntimeFunction:
        return RuntimeFunction(*self._words[3 * row : 3 * row + 3])

    def ranges(self) -> tuple[U64, U64]:
        """Return the RVAs of the begins and of the ends of all entries."""
        words = np.frombuffer(self._words, np.uint32).reshape(-1, 3)
        return words[:, 0].astype(np.uint64), words[:, 1].astype(np.uint64)

    def find(self, rva: int) -> RuntimeFunction | None:
        """Return the function at an RVA; None for one of a leaf function, which changes no register but the volatile.

        Raises:
            FormatError: entries lead to each other without end.
        """
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._words[3 * middle] <= rva:
                low = middle + 1
            else:
                high = middle
        if not low:
            return None
        found: RuntimeFunction | None = self._followed(self[low - 1])
        for _ in range(_CHAIN_LIMIT):  # LLVM writes functions that enclose those that are chained to them
            if found is None or found.begin <= rva < found.end:
                break
            found = self.read(found).chained
        return found

    def read(self, function: RuntimeFunction) -> UnwindInfo:
        """Return the unwind information of a function.

        Args:
            function: one of the table, or of the information of another.

        Raises:
            FormatError: it is not in the image, of another version, or has a code that is not known.
        """
        reader = self._reader(function.info, 4)
        head, prologue_bytes, slot_count, frame = (reader.u8() for _ in range(4))
        version, flags = head & 7, head >> 3
        if version not in _VERSIONS:
            raise self._error(function.info, f"version {version}, can read 1 and 2")
        more_bytes = 12 if flags & CHAINED else 4 if flags & _HANDLERS else 0
        after = 4 + _SLOT_BYTES * (slot_count + (slot_count % 2 if more_bytes else 0))
        reader = self._reader(function.info, after + more_bytes)
        reader.pos, reader.end = 4, 4 + _SLOT_BYTES * slot_count
        codes = []
        while reader.remaining:
            codes.append(self._code(reader, version, function))
        reader.pos, reader.end = after, after + more_bytes
        chained, handler = None, 0
        if flags & CHAINED:
            chained = self._followed(RuntimeFunction(reader.u32(), reader.u32(), reader.u32()))
        elif flags & _HANDLERS:
            handler = reader.u32()
        return UnwindInfo(
            version, flags, prologue_bytes, frame & 15, 16 * (frame >> 4), tuple(codes), chained, handler
        )  # fmt: skip

    def chain(self, function: RuntimeFunction) -> list[UnwindInfo]:
        """Return the information of a function, then of those whose prologues ran before; raise FormatError."""
        found = [self.read(function)]
        while (before := found[-1].chained) is not None:
            if len(found) >= _CHAIN_LIMIT:
                raise self._error(function.info, f"more than {_CHAIN_LIMIT} functions are chained")
            found.append(self.read(before))
        return found

    def _code(self, reader: Reader, version: int, function: RuntimeFunction) -> UnwindCode:
        offset, second = reader.u8(), reader.u8()
        operation, number = second & 15, second >> 4
        value = 0
        if operation == ALLOC_LARGE and number == 0:
            value = 8 * reader.u16()
        elif operation == ALLOC_LARGE and number == 1:
            value = reader.u32()
        elif operation == ALLOC_SMALL:
            value = 8 * number + 8
        elif operation == SAVE_NONVOL:
            value = 8 * reader.u16()
        elif operation == SAVE_XMM128:
            value = 16 * reader.u16()
        elif operation in (SAVE_NONVOL_FAR, SAVE_XMM128_FAR):
            value = reader.u32()
        elif operation == PUSH_MACHFRAME and number > 1:
            raise self._error(function.info, f"machine frame of kind {number}, must be 0 or 1")
        elif operation not in (PUSH_NONVOL, SET_FPREG, PUSH_MACHFRAME) and (operation != EPILOG or version == 1):
            raise self._error(function.info, f"code {operation} with number {number} is not known")
        return UnwindCode(offset, operation, number, value)

    def _followed(self, function: RuntimeFunction) -> RuntimeFunction:
        """Return the entry that has the information of a function."""
        for _ in range(_CHAIN_LIMIT):
            if not function.info & _INDIRECT:
                return function
            reader = self._reader(function.info - _INDIRECT, _FUNCTION_BYTES)
            function = RuntimeFunction(reader.u32(), reader.u32(), reader.u32())
        raise self._error(function.info, f"more than {_CHAIN_LIMIT} entries lead to each other")

    def _reader(self, rva: int, size_bytes: int) -> Reader:
        content = self._image.read(self._image.base + rva, size_bytes)
        if len(content) < size_bytes:
            raise self._error(rva, f"{size_bytes} bytes are not in a section")
        return Reader(content, self._image.path, _PLACE)

    def _error(self, rva: int, problem: str) -> FormatError:
        return FormatError(self._image.path, _PLACE, rva, problem)
