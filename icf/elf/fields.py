"""The symbol addresses that a linker put into relocated fields, read back from the linked image.

A relocation of an object describes what the linker wrote where. Solved for the symbol S, the bytes yield its address,
with A the addend and P the address of the field:

    R_X86_64_PC32, PLT32     S + A - P           S = field + P - A
    R_X86_64_64              S + A               S = word - A, the word with the value that the loader stores
    R_X86_64_GOTPCRELX       slot + A - P        S = word in the slot; or a relaxed instruction, which holds S itself
    R_AARCH64_CALL26         S + A - P           S = field + P - A; adrp and add are read as a pair

S may also be a stub that the linker put in between, for a function of another module or one that is too far away.
Fields of other types, and instructions that were rewritten in unknown ways, have no answer. Addresses have 64 bits and
wrap around.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from icf.columns import I64, U32, Mask
from icf.elf.image import Image
from icf.elf.types import SHT_RELA, Machine
from icf.filebytes import BLOCK_BITS, FileBytes
from icf.sets import is_one_of

# (absolute with symbol, relative, GOT slot, PLT slot): dynamic relocations that fill a word
_DYNAMIC_TYPES = {Machine.X86_64: (1, 8, 6, 7), Machine.AARCH64: (257, 1027, 1025, 1026)}
_X86_64, _X86_PC32, _X86_PLT32, _X86_32, _X86_32S, _X86_PC64 = 1, 2, 4, 10, 11, 24
_X86_GOT_LOADS = (9, 41, 42)
_A64_ABS64, _A64_PREL32, _A64_PAGE, _A64_ADD = 257, 261, 275, 277
_A64_BRANCHES = (282, 283)
_PAGE = np.int64(0xFFF)


class Fields:
    """Fields of one image by their addresses."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._starts = np.array([start for start, _, _ in image.backed], np.int64)
        self._ends = np.array([end for _, end, _ in image.backed], np.int64)
        self._offsets = np.array([offset for _, _, offset in image.backed], np.int64)
        self._filled_at, self._filled_with = _dynamic_words(image)

    def symbols(self, vaddrs: I64, types: U32, addends: I64, targets: I64) -> tuple[I64, Mask]:
        """Return the address of the symbol of each relocation, and whether it is known.

        The columns are those of the relocations, in the order of the code; `targets` is equal for equal symbols.
        """
        if self._image.machine is Machine.AARCH64:
            return self._aarch64(vaddrs, types, addends, targets)
        return self._x86_64(vaddrs, types, addends)

    def words(self, vaddrs: I64) -> tuple[I64, Mask]:
        """Return the 64-bit words with the values that the loader stores (at the image's link-time addresses)."""
        words, known = self._read(vaddrs, "<i8")
        if len(self._filled_at):
            at = np.minimum(np.searchsorted(self._filled_at, vaddrs), len(self._filled_at) - 1)
            filled = self._filled_at[at] == vaddrs
            words = np.where(filled, self._filled_with[at], words)
        return words, known

    def _read(self, vaddrs: I64, dtype: str) -> tuple[I64, Mask]:
        """Return the number at each address, and whether the file has it."""
        item = np.dtype(dtype)
        values = np.zeros(len(vaddrs), np.int64)
        known = np.zeros(len(vaddrs), np.bool_)
        if not len(self._starts) or not len(vaddrs):
            return values, known
        at = np.searchsorted(self._starts, vaddrs, side="right") - 1
        known = (at >= 0) & (vaddrs <= self._ends[at] - item.itemsize)
        places = self._offsets[at[known]] + vaddrs[known] - self._starts[at[known]]
        data = self._bytes_at(places, item.itemsize)
        anywhere: NDArray[np.generic] = np.ndarray((len(data) - item.itemsize + 1,), item, data, strides=(1,))
        values[known] = anywhere[places].astype(np.int64)
        return values, known

    def _bytes_at(self, places: I64, size_bytes: int) -> memoryview:
        """Return a view of the file of which at least the bytes at these places have been read."""
        data = self._image.data
        if not isinstance(data, FileBytes):
            return data
        is_needed = np.zeros((len(data) >> BLOCK_BITS) + 1, np.bool_)
        is_needed[places >> BLOCK_BITS] = True
        is_needed[places + (size_bytes - 1) >> BLOCK_BITS] = True
        return data.having(np.flatnonzero(is_needed).tolist())

    def _x86_64(self, vaddrs: I64, types: U32, addends: I64) -> tuple[I64, Mask]:
        found = np.zeros(len(vaddrs), np.int64)
        known = np.zeros(len(vaddrs), np.bool_)
        for dtype, is_relative, kinds in (
            ("<i4", True, (_X86_PC32, _X86_PLT32)),
            ("<i8", True, (_X86_PC64,)),
            ("<u4", False, (_X86_32,)),
            ("<i4", False, (_X86_32S,)),
        ):
            rows = np.flatnonzero(is_one_of(types, kinds))
            values, known[rows] = self._read(vaddrs[rows], dtype)
            found[rows] = values - addends[rows] + (vaddrs[rows] if is_relative else 0)
        rows = np.flatnonzero(types == _X86_64)
        values, known[rows] = self.words(vaddrs[rows])
        found[rows] = values - addends[rows]
        rows = np.flatnonzero(is_one_of(types, _X86_GOT_LOADS) & (addends == -4))
        found[rows], known[rows] = self._got_loads(vaddrs[rows])
        return found, known

    def _got_loads(self, vaddrs: I64) -> tuple[I64, Mask]:
        """Return the symbols of loads, calls and jumps through the GOT, relaxed or not.

        The field ends the instruction.
        """
        first, is_there = self._read(vaddrs - 2, "u1")
        second, _ = self._read(vaddrs - 1, "u1")
        direct, _ = self._read(vaddrs, "<i4")
        direct += vaddrs + 4
        shorter, _ = self._read(vaddrs - 1, "<i4")
        slots, has_slot = self.words(direct)
        is_memory = second & 0xC7 == 0x05  # ModRM of disp32(%rip)
        is_lea = (first == 0x8D) & is_memory
        is_branch = is_one_of(first, (0x67, 0x90)) & is_one_of(second, (0xE8, 0xE9))  # addr32 call, nop; jmp
        is_short_jump = first == 0xE9  # jmp; nop
        is_load = ((first == 0x8B) | (first == 0xFF)) & is_memory & has_slot
        found = np.select([is_lea | is_branch, is_short_jump, is_load], [direct, shorter + vaddrs + 3, slots])
        return found, is_there & (is_lea | is_branch | is_short_jump | is_load)

    def _aarch64(self, vaddrs: I64, types: U32, addends: I64, targets: I64) -> tuple[I64, Mask]:
        words, there = self._read(vaddrs, "<u4")
        found = np.zeros(len(vaddrs), np.int64)
        known = np.zeros(len(vaddrs), np.bool_)
        rows = np.flatnonzero(is_one_of(types, _A64_BRANCHES))
        found[rows] = vaddrs[rows] + _signed((words[rows] & 0x3FFFFFF) << 2, 28) - addends[rows]
        known[rows] = there[rows] & (words[rows] & 0x7C000000 == 0x14000000)
        rows = np.flatnonzero(types == _A64_PREL32)
        values, known[rows] = self._read(vaddrs[rows], "<i4")
        found[rows] = values + vaddrs[rows] - addends[rows]
        rows = np.flatnonzero(types == _A64_ABS64)
        values, known[rows] = self.words(vaddrs[rows])
        found[rows] = values - addends[rows]
        pages = np.flatnonzero((types[:-1] == _A64_PAGE) & (types[1:] == _A64_ADD))
        pages = pages[(targets[pages] == targets[pages + 1]) & (addends[pages] == addends[pages + 1])]
        adrp, add = words[pages], words[pages + 1]
        distance = _signed(((adrp >> 5 & 0x7FFFF) << 2 | adrp >> 29 & 3) << 12, 33)
        found[pages] = (vaddrs[pages] & ~_PAGE) + distance + (add >> 10 & 0xFFF) - addends[pages]
        known[pages] = there[pages] & there[pages + 1] & (adrp & 0x9F000000 == 0x90000000)
        known[pages] &= add & 0xFFC00000 == 0x91000000
        found[pages + 1], known[pages + 1] = found[pages], known[pages]
        return found, known


def _signed(values: I64, bits: int) -> I64:
    return values - ((values >> bits - 1 & 1) << bits)


def _dynamic_words(image: Image) -> tuple[I64, I64]:
    """Return the addresses of the words in which the loader stores an address in this image, ascending, and these
    addresses.
    """
    symbolic, relative, *slots = _DYNAMIC_TYPES[image.machine]
    places, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for section in image.sections:
        relocations = image.relocations(section) if section.type == SHT_RELA and section.is_alloc else None
        if relocations is None:
            continue
        rows = np.flatnonzero(relocations.type == relative)
        places.append(relocations.offset[rows].view(np.int64))
        values.append(relocations.addend[rows])
        rows = np.flatnonzero(is_one_of(relocations.type, (symbolic, *slots)))
        symbols = relocations.symbols
        rows = rows[symbols.is_defined[relocations.symbol[rows]]] if symbols.count else rows[:0]
        addends = np.where(relocations.type[rows] == symbolic, relocations.addend[rows], 0)
        places.append(relocations.offset[rows].view(np.int64))
        values.append(symbols.value[relocations.symbol[rows]].view(np.int64) + addends)
    place, value = np.concatenate(places), np.concatenate(values)
    order = np.argsort(place, kind="stable")
    return place[order], value[order]
