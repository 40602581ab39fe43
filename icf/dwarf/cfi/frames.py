"""The rows of an image's call frame information: for an address, where the caller's registers are.

    frames = CallFrames(image)
    row = frames.row_at(vaddr)          # columns: icf.dwarf.cfi.rules
    block = row.block(offset)           # the operations of an expression

`.eh_frame` is looked at first, since it is what programs unwind with, then `.debug_frame`, of the image or of its debug
file. A malformed entry is a `FormatError`; all others can still be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icf.dwarf.cfi import _rows, rules
from icf.dwarf.cfi.entries import Fde, FrameSection
from icf.dwarf.cfi.index import FdeIndex, find_eh_frame
from icf.dwarf.cfi.pointers import ABSOLUTE, INDIRECT, RELATIVE
from icf.elf.image import Image
from icf.elf.types import Machine

_MASK = (1 << 64) - 1
_POINTER_BYTES = {0: 8, 3: 4, 4: 8, 11: 4, 12: 8}
_FIRST_CAPACITY = 64
_PROBLEMS = {
    rules.CUT_SHORT: "call frame instruction is cut short",
    rules.LEB_TOO_LONG: "call frame instruction has a number that does not fit 64 bits",
    rules.UNKNOWN_OPCODE: "call frame instruction is unknown",
    rules.MOVES_IN_CIE: "call frame instruction of a CIE moves to another address",
    rules.MOVES_BACK: "call frame instruction moves to an address below the last one",
    rules.NOTHING_SAVED: "DW_CFA_restore_state has no state to restore",
    rules.TOO_DEEP: f"DW_CFA_remember_state is nested deeper than {rules.SAVED_LIMIT}",
    rules.CFA_IS_NO_REGISTER: "call frame instruction changes a part of a CFA that is an expression",
    rules.BAD_REGISTER: "call frame instruction needs a register that is not recovered",
}


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """Where the caller's registers are, for the addresses from START to END; `icf.dwarf.cfi.rules` has the columns."""

    columns: NDArray[np.uint64]
    section: FrameSection

    def block(self, offset: int) -> bytes:
        """Return the operations of an expression, whose size stands at an offset."""
        reader = self.section.reader(offset)
        return bytes(reader.take(reader.uleb()))


class _Section:
    """One section with its index."""

    def __init__(self, section: FrameSection, index: FdeIndex) -> None:
        self.section, self.index = section, index
        self._programs: dict[int, memoryview] = {}  # of FDEs in which an address was looked up, by offset
        self._row = np.zeros(rules.WIDTH, np.uint64)
        self._initial = np.zeros(rules.WIDTH, np.uint64).data
        self._saved = np.zeros((rules.SAVED_LIMIT, rules.WIDTH), np.uint64).data
        self._out = np.zeros((_FIRST_CAPACITY, rules.WIDTH), np.uint64)

    def row_at(self, vaddr: int) -> NDArray[np.uint64] | None:
        """Return the row of an address: u64[WIDTH]; None if no FDE covers it."""
        fde = self.index.find(vaddr)
        if fde is None:
            return None
        program = self._programs.get(fde.offset)
        if program is None:
            program = self._programs[fde.offset] = self._program(fde)
        rows = self._run(program, vaddr)
        return rows[0] if len(rows) else None

    def rows(self, fde: Fde) -> NDArray[np.uint64]:
        """Return the rows of an FDE: u64[n, WIDTH]."""
        return self._run(self._program(fde), None)

    def _run(self, program: memoryview, target: int | None) -> NDArray[np.uint64]:
        while True:
            self._row.fill(0)
            count, problem, at = _rows.run(
                self.section.data, program, target or 0, target is not None, self._row.data, self._initial,
                self._saved, self._out.data,
            )  # fmt: skip
            if problem != rules.OUT_OF_ROWS:
                break
            self._out = np.zeros((2 * len(self._out), rules.WIDTH), np.uint64)
        if problem != rules.FINE:
            raise self.section.error(at, _PROBLEMS[problem])
        return self._out[:count].copy()

    def _program(self, fde: Fde) -> memoryview:
        cie = self.index.cie(fde.cie_offset)
        section = self.section
        for start, end in ((cie.start, cie.end), (fde.start, fde.end)):
            if end - start > rules.PROGRAM_LIMIT:
                raise section.error(start, f"{end - start} bytes of call frame instructions")
        if cie.return_address >= rules.REGISTER_COUNT:
            raise section.error(cie.offset, f"return address is in register {cie.return_address}")
        pointer_bytes = _POINTER_BYTES.get(cie.encoding & 0xF, 0)
        is_relative = cie.encoding & 0x70 == RELATIVE
        if not pointer_bytes or cie.encoding & INDIRECT or cie.encoding & 0x70 not in (ABSOLUTE, RELATIVE):
            pointer_bytes = len(section.data) + 1  # DW_CFA_set_loc is then refused
        flags = rules.IS_SIGNAL_FRAME if cie.is_signal_frame else 0
        return np.array(
            [
                cie.start, cie.end, fde.start, fde.end, fde.low, fde.high, cie.code_align, cie.data_align & _MASK,
                cie.return_address, pointer_bytes, is_relative, section.vaddr,
                section.machine is Machine.AARCH64, flags,
            ],
            np.uint64,
        ).data  # fmt: skip


class CallFrames:
    """The call frame information of an image."""

    def __init__(self, image: Image) -> None:
        self._sections = [*_eh_frame(image), *_debug_frame(image)]

    def row_at(self, vaddr: int) -> Row | None:
        """Return the row of an address; None if no FDE covers it. Raises `FormatError` where that is malformed."""
        for each in self._sections:
            row = each.row_at(vaddr)
            if row is not None:
                return Row(row, each.section)
        return None

    def part_at(self, vaddr: int) -> tuple[int, int, bool] | None:
        """Return start and end of the code that shares a call frame program, and whether it may have landing pads.

        None if no FDE covers the address. Raises `FormatError` where that is malformed.
        """
        for each in self._sections:
            fde = each.index.find(vaddr)
            if fde is not None:
                return fde.low, fde.high, "L" in each.index.cie(fde.cie_offset).augmentation
        return None

    def rows(self) -> Iterator[tuple[FrameSection, Fde, NDArray[np.uint64]]]:
        """Yield all FDEs with their rows."""
        for each in self._sections:
            for fde in each.index.scan():
                yield each.section, fde, each.rows(fde)


def _eh_frame(image: Image) -> Iterator[_Section]:
    found = find_eh_frame(image)
    if found is not None:
        section, table = found
        yield _Section(section, FdeIndex(section, table))


def _debug_frame(image: Image) -> Iterator[_Section]:
    data = image.debug.contents(".debug_frame")
    if len(data):
        section = FrameSection(image.debug.path, ".debug_frame", data, 0, image.machine)
        yield _Section(section, FdeIndex(section))
