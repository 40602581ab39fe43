"""Whether the code of a function may form one of some addresses: by itself, or by loading it from a constant.

    lea  _ZTV4Base+16(%rip), %rax        adrp x8, _ZTV4Base        mov $_ZTV4Base+16, %eax (not position-independent)
    mov  _ZTV4Base@GOTPCREL(%rip), %rax  adrp x8, :got:_ZTV4Base       mov _ZTT7Derived+8(%rip), %rax

The answer is a superset: on x86-64 any four bytes in a row count that hold such an address or, from their end, the
distance to it; on AArch64 every `adrp` to a page that holds one.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from icf.columns import U64
from icf.elf.types import Machine

if TYPE_CHECKING:
    from unwind.program.facts import CodeFacts

_WORD_BYTES = 8
_PAGE_BITS = 12
_VTABLE, _VTT = "_ZTV", "_ZTT"  # Itanium C++ ABI, 5.1.4.1


class Constants:
    """The addresses in the code of one image."""

    def __init__(self, facts: CodeFacts) -> None:
        self._facts = facts
        self._places: dict[range, list[range]] = {}
        self._slots: dict[str, list[int]] = {}

    def may_form(self, start: int, end: int, addresses: range) -> bool:
        """Return whether the code in `start:end` may form one of `addresses`; true where it cannot be read."""
        places = self._places.get(addresses)
        if places is None:
            places = self._places[addresses] = [addresses, *self._holding(addresses)]
        code = self._facts.read(start, end - start)
        if len(code) < end - start:
            return True
        holds = _aarch64 if self._facts.machine is Machine.AARCH64 else _x86_64
        return any(holds(code, start, place) for place in places)

    def may_load(self, start: int, end: int, vtables: str) -> bool:
        """Return whether the code in `start:end` may load the address of another module's vtables, by their symbol.

        It may also load that of a VTT of the class, in which it stands; a base's vtable is in that of whichever class.
        """
        return any(self.may_form(start, end, range(slot, slot + 1)) for slot in self._slots_of(vtables))

    def some_may_load(self, vtables: str) -> bool:
        """Return whether some code of the image may load it."""
        return bool(self._slots_of(vtables))

    def _slots_of(self, vtables: str) -> list[int]:
        """Return where the loader puts the address of these vtables, or of their VTT."""
        slots = self._slots.get(vtables)
        if slots is None:
            of_class = _VTT + vtables.removeprefix(_VTABLE)
            slots = self._slots[vtables] = [
                slot
                for slot, symbol in self._facts.imports.items()
                for name in [symbol.partition("@")[0]]
                if name in (vtables, of_class) or not vtables.startswith(_VTABLE) and name.startswith(_VTT)
            ]
        return slots

    def _holding(self, addresses: range) -> list[range]:
        """Return the words of data that hold one of them."""
        place, value = self._words
        at = (value >= addresses[0]) & (value <= addresses[-1])
        return [range(found, found + 1) for found in place[at].tolist()]

    @cached_property
    def _words(self) -> tuple[U64, U64]:
        return self._facts.constants()


def _x86_64(code: memoryview, vaddr: int, addresses: range) -> bool:
    raw = np.frombuffer(code, np.uint8)
    if len(raw) < 4:
        return False
    words = np.zeros(len(raw) - 3, np.uint32)
    for at in range(4):
        words |= raw[at : len(raw) - 3 + at].astype(np.uint32) << np.uint32(8 * at)
    first, count = np.uint32(addresses[0] & 0xFFFFFFFF), len(addresses)
    ends = np.arange(vaddr + 4, vaddr + 4 + len(words), dtype=np.uint64).astype(np.uint32)
    return bool((words - first < count).any() or (words + ends - first < count).any())


def _aarch64(code: memoryview, vaddr: int, addresses: range) -> bool:
    words = np.frombuffer(code[: len(code) // 4 * 4], "<u4").astype(np.int64)
    at = np.flatnonzero(words & 0x1F000000 == 0x10000000)  # adr and adrp: 21 bits, of which two stand apart
    word = words[at]
    immediate = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
    immediate -= (immediate >> 20) << 21
    place = vaddr + 4 * at
    is_page = word >> 31 == 1
    value = np.where(is_page, (place >> _PAGE_BITS) + immediate, place + immediate)
    low = np.where(is_page, addresses[0] >> _PAGE_BITS, addresses[0])
    high = np.where(is_page, addresses[-1] >> _PAGE_BITS, addresses[-1])
    return bool(((value >= low) & (value <= high)).any())
