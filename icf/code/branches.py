"""All direct calls and jumps of an image to a set of addresses, as columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icf.code._branches import find_aarch64, find_x86_64
from icf.columns import U8, U64
from icf.elf.types import SHF_EXECINSTR, SHT_NOBITS, Machine, Section
from icf.errors import FormatError
from icf.sets import distinct

if TYPE_CHECKING:
    from icf.elf.image import Image
    from icf.image import AnyImage

_KEPT_CODE_BYTES = 1 << 24  # longer sections are read again for each scan: memory for them is lacking elsewhere
_REACH_BYTES = {Machine.X86_64: 1 << 31, Machine.AARCH64: 1 << 27}  # of a call or jump, both ways
_LAST_VADDR = (1 << 64) - 1


class Branches(NamedTuple):
    """One row for each branch, by address. `end` is the address after the instruction: of a call, its return
    address."""

    end: U64
    target: U64
    kind: U8


class CodeSection:
    """A section that holds code in the file: `vaddr` and `size_bytes` of it are loaded."""

    def __init__(self, name: str, vaddr: int, size_bytes: int, read: Callable[[], memoryview]) -> None:
        self.name, self.vaddr, self.size_bytes, self._read = name, vaddr, size_bytes, read

    @property
    def code(self) -> memoryview:
        """The bytes, read from the file."""
        return self._read()


def executable_sections(image: AnyImage) -> list[CodeSection]:
    """Return the sections that hold code in this file; raise FormatError if it is too short for all of them."""
    if image.format == "PE":  # whose headers have been checked
        parts = image.code_sections
        return [CodeSection(each.name, each.vaddr, each.stored_bytes, partial(image.contents, each)) for each in parts]
    found = [
        CodeSection(section.name, section.vaddr, section.size_bytes, partial(_read, image, section))
        for section in image.sections
        if section.flags & SHF_EXECINSTR and section.type != SHT_NOBITS and section.size_bytes
    ]
    if sum(each.size_bytes for each in found) > len(image.data):
        raise FormatError(image.path, found[0].name, 0, "sections with code overlap in the file")
    return found


def _read(image: Image, section: Section) -> memoryview:
    return image.unkept(section, _KEPT_CODE_BYTES)[:]


def find_branches(image: AnyImage, call_targets: U64, jump_targets: U64) -> Branches:
    """Direct calls to `call_targets` and direct jumps to `jump_targets`, anywhere in the code."""
    rows: list[U64] = [np.empty((0, 3), np.uint64)]
    wanted = _Wanted(call_targets, jump_targets)
    for section in executable_sections(image):
        rows.append(_find(image.machine, section.code, section.vaddr, wanted))
    found = np.concatenate(rows)
    found = found[np.argsort(found[:, 0], kind="stable")]
    return Branches(found[:, 0].copy(), found[:, 1].copy(), found[:, 2].astype(np.uint8))


def find_branches_in(machine: Machine, text: memoryview, vaddr: int, call_targets: U64, jump_targets: U64) -> U64:
    """Return what `find_branches` finds in code that lies at `vaddr`: u64[n, 3] of end, target, kind."""
    return _find(machine, text, vaddr, _Wanted(call_targets, jump_targets))


def _find(machine: Machine, text: memoryview, vaddr: int, wanted: _Wanted) -> U64:
    find = find_x86_64 if machine is Machine.X86_64 else find_aarch64
    reach_bytes = _REACH_BYTES[machine]
    rows: list[U64] = [np.empty((0, 3), np.uint64)]
    if wanted.choose(vaddr - reach_bytes, vaddr + len(text) + reach_bytes):
        call_bits, jump_bits = wanted.call_bits.data, wanted.jump_bits.data
        out, result = np.empty((1 << 15, 3), np.uint64), np.zeros(2, np.uint64)
        start = 0
        while start < len(text):
            find(text, vaddr, wanted.low, call_bits, jump_bits, start, out.data, result.data)
            rows.append(out[: int(result[0])].copy())
            start = int(result[1])
    return np.concatenate(rows)


class _Wanted:
    """Bitmaps of the targets that one section can reach: their size does not depend on the file."""

    def __init__(self, call_targets: U64, jump_targets: U64) -> None:
        self._calls, self._jumps = distinct(call_targets), distinct(jump_targets)
        self._rows: tuple[int, ...] = ()
        self.low = 0
        self.call_bits = self.jump_bits = np.zeros(0, np.uint8)

    def choose(self, first: int, last: int) -> bool:
        """Take the targets in first..last; False if there are none."""
        bounds = np.array([max(first, 0), min(last, _LAST_VADDR)], np.uint64)
        call_first, call_last = np.searchsorted(self._calls, bounds).tolist()
        jump_first, jump_last = np.searchsorted(self._jumps, bounds).tolist()
        calls, jumps = self._calls[call_first:call_last], self._jumps[jump_first:jump_last]
        both = [targets for targets in (calls, jumps) if len(targets)]
        if both and self._rows != (call_first, call_last, jump_first, jump_last):
            self._rows = (call_first, call_last, jump_first, jump_last)
            self.low = min(int(targets[0]) for targets in both)
            high = max(int(targets[-1]) for targets in both) + 1
            self.call_bits, self.jump_bits = _bitmap(calls, self.low, high), _bitmap(jumps, self.low, high)
        return bool(both)


def _bitmap(targets: U64, low: int, high: int) -> U8:
    bits = np.zeros((high - low + 7) // 8, np.uint8)
    offset = targets - np.uint64(low)
    np.bitwise_or.at(bits, (offset >> np.uint64(3)).astype(np.intp), (1 << (offset & np.uint64(7))).astype(np.uint8))
    return bits
