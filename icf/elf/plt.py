"""Names for PLT stubs, decoded from the stubs' own code.

A call into another module goes to a stub that jumps through a GOT slot. A relocation tells the loader how to fill the
slot, and that relocation names the symbol:

    call 401030            401030: jmp *0x2fe2(%rip)  -> slot 404018        R_X86_64_JUMP_SLOT 404018 puts

Linkers differ in the order and size of stubs and in which sections hold them (`.plt`, `.plt.sec`,
`.plt.got`, `.iplt`), so no order is assumed: each jump through a slot that is known from the
relocations marks a stub, which begins at the jump or at the few instructions that may stand before
it (a landing pad, the load of a PLT index). A slot that is filled by an ifunc's resolver is named after
the ifunc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from icf.columns import I64
from icf.elf.types import STB_LOCAL, STT_GNU_IFUNC, Machine
from icf.elf.versions import read_versions
from icf.sets import is_one_of

if TYPE_CHECKING:
    from icf.elf.file import ElfFile
    from icf.elf.relocations import Relocations
    from icf.elf.symbols import Symbols

_STUB_SECTIONS = (".plt", ".plt.sec", ".plt.got", ".plt.bnd", ".iplt")

# (GLOB_DAT, JUMP_SLOT), IRELATIVE
_SLOT_TYPES = {Machine.X86_64: (6, 7), Machine.AARCH64: (1025, 1026)}
_IRELATIVE = {Machine.X86_64: 37, Machine.AARCH64: 1032}

_ENDBR64 = b"\xf3\x0f\x1e\xfa"
_BTI_C = 0xD503245F


def find_got_imports(machine: Machine, loader_relocations: Iterable[Relocations]) -> dict[int, str]:
    """Return the symbol of each GOT slot, by its address, from GLOB_DAT and JUMP_SLOT relocations."""
    imports: dict[int, str] = {}
    for relocations, rows in _fill_slots(machine, loader_relocations):
        names = relocations.symbols.names(relocations.symbol[rows].tolist())
        imports.update(zip(relocations.offset[rows].tolist(), names, strict=True))
    return imports


def find_slot_versions(image: ElfFile, loader_relocations: Iterable[Relocations]) -> dict[int, str]:
    """Return the version of each such slot whose symbol has one, by its address."""
    versions = read_versions(image)
    found: dict[int, str] = {}
    for relocations, rows in _fill_slots(image.machine, loader_relocations):
        names = (versions.name(row) for row in relocations.symbol[rows].tolist())
        found.update((slot, name) for slot, name in zip(relocations.offset[rows].tolist(), names, strict=True) if name)
    return found


def find_plt_slots(image: ElfFile, named_slots: dict[int, str]) -> dict[int, int]:
    """Return, by the address of each PLT stub, the one of `named_slots` that it jumps through."""
    decode = _decode_x86_64 if image.machine is Machine.X86_64 else _decode_aarch64
    stubs: dict[int, int] = {}
    for name in _STUB_SECTIONS:
        section = image.section(name)
        if section is not None:
            stubs.update(decode(bytes(image.contents(section)), section.vaddr, named_slots))
    return stubs


def _fill_slots(machine: Machine, loader_relocations: Iterable[Relocations]) -> Iterator[tuple[Relocations, I64]]:
    """Yield the relocations, and which of them fill a GOT slot with the address of a symbol."""
    for relocations in loader_relocations:
        fills = is_one_of(relocations.type, _SLOT_TYPES[machine]) & (relocations.symbol != 0)
        yield relocations, np.flatnonzero(fills)


def find_ifunc_slots(
    machine: Machine, loader_relocations: Iterable[Relocations], read_symbols: Callable[[], Symbols]
) -> dict[int, str]:
    """Return the ifunc whose resolver fills each GOT slot, by the address of the slot."""
    resolver_by_slot: dict[int, int] = {}
    for relocations in loader_relocations:
        rows = np.flatnonzero(relocations.type == _IRELATIVE[machine])
        resolver_by_slot.update(
            zip(relocations.offset[rows].tolist(), relocations.addend[rows].view(np.uint64).tolist(), strict=True)
        )
    if not resolver_by_slot:
        return {}
    symbols = read_symbols()
    rows = np.flatnonzero((symbols.type == STT_GNU_IFUNC) & symbols.is_defined)
    rows = rows[np.lexsort((rows, symbols.bind[rows] == STB_LOCAL))][::-1]  # the last, a global one, wins
    row_by_resolver = dict(zip(symbols.value[rows].tolist(), rows.tolist(), strict=True))
    return {
        slot: symbols.name(row_by_resolver[resolver])
        for slot, resolver in resolver_by_slot.items()
        if resolver in row_by_resolver
    }


def _decode_x86_64(code: bytes, vaddr: int, slots: dict[int, str]) -> Iterator[tuple[int, int]]:
    """Yield (stub address, slot) for each `jmp *slot(%rip)`, and lld's retpoline `mov slot(%rip), %r11`."""
    for opcode in (b"\xff\x25", b"\x4c\x8b\x1d"):
        pos = code.find(opcode)
        while pos >= 0:
            end = pos + len(opcode) + 4
            slot = vaddr + end + int.from_bytes(code[end - 4 : end], "little", signed=True)
            if end <= len(code) and slot in slots:
                yield vaddr + _stub_start_x86_64(code, pos), slot
                pos = end - 1
            pos = code.find(opcode, pos + 1)


def _stub_start_x86_64(code: bytes, jump: int) -> int:
    """Return where the stub with this jump begins: the jump may follow bnd, a PLT index in r11d, endbr64."""
    start = jump
    if start >= 1 and code[start - 1] == 0xF2:
        start -= 1
    if start >= 6 and code[start - 6 : start - 4] == b"\x41\xbb":
        start -= 6
    if start >= 4 and code[start - 4 : start] == _ENDBR64:
        return start - 4
    return start


def _decode_aarch64(code: bytes, vaddr: int, slots: dict[int, str]) -> Iterator[tuple[int, int]]:
    """Yield (stub address, slot) for each `adrp x16, page; ldr x17, [x16, #low]`."""
    words = np.frombuffer(code[: len(code) // 4 * 4], dtype="<u4").tolist()
    for index in range(len(words) - 1):
        adrp, load = words[index], words[index + 1]
        if adrp & 0x9F00001F != 0x90000010 or load & 0xFFC003FF != 0xF9400211:
            continue
        page = (adrp >> 5 & 0x7FFFF) << 2 | (adrp >> 29 & 3)
        page -= (page & 1 << 20) << 1
        place = vaddr + 4 * index
        slot = (place & ~0xFFF) + (page << 12) + (load >> 10 & 0xFFF) * 8
        if slot in slots:
            has_landing_pad = index > 0 and words[index - 1] == _BTI_C
            yield place - 4 * has_landing_pad, slot
