"""Functions whose address is taken, by the relocations of an image that was linked with --emit-relocs.

A relocation that is not the operand of a call or jump names the function whose address stands there:

    lea  f(%rip), %rax     R_X86_64_PC32 f       taken
    call f                 R_X86_64_PLT32 f      not
    .quad f                R_X86_64_64 f         taken, or a slot of a vtable

That holds for the code and data that the linker kept. Where it was folded, too, the folded copy may have named another
function of the same body, so there the relocation shows no more than the address does.

    place                                   the relocation names
    a function that is not merged           the function
    a merged function                       any function of the body: the others may have taken another one
    data that is written to                 the function
    other data                              any: lld folds it as it folds code, and leaves no symbol of some of it
    a vtable that is that of one class      the function

A local function is named by its section and its place in it: then any local function of the body is meant, or a global
one for which clang uses a local alias (`Linked.section_members`). Some bits of such an address may be a tag.
"""

from __future__ import annotations

import numpy as np

from icf.columns import I64, U32, U64, Mask
from icf.elf.image import Image
from icf.elf.relocations import Relocations
from icf.elf.types import SHF_EXECINSTR, SHF_WRITE, SHT_RELA, STT_SECTION, Machine, Section
from icf.sets import is_in, is_one_of
from icf.vtables.layout import Vtables
from linkpass.linked import Linked
from linkpass.relocation_types import A64_BRANCHES, GOT_LOADS, RELATIVE, x86_64_branches

ANY, OF_SECTION = -1, -2  # in place of a member: any; those that a relocation against the section can mean

_UNWIND = (".eh_frame", ".gcc_except_table")
_OPERAND_BYTES = 4
_NO_PLACES, _NO_MEMBERS = np.empty(0, np.uint64), np.empty(0, np.int64)
TAG_LIMIT = 16  # functions are aligned: an addend below this may be a tag of the pointer


class TakenByRelocation:
    """The members that the relocations name: columns of places, bodies and what is meant there.

    `meant` is a member, ANY or OF_SECTION. `knows_got`: the GOT's slots are covered.
    """

    def __init__(self, linked: Linked, vtables: Vtables, targets: U64) -> None:
        self.knows_got = False
        lost_got = False
        self._linked, self._vtables, self._targets = linked, vtables, targets
        symbols = linked.image.symbols
        self._wanted_symbol = is_in(symbols.value, targets) & symbols.is_defined & (symbols.type != STT_SECTION)
        found = [(_NO_PLACES, _NO_PLACES, _NO_MEMBERS)]
        for section in linked.image.sections if len(targets) else ():
            if section.type != SHT_RELA or section.is_alloc or not 0 < section.info < len(linked.image.sections):
                continue
            where = linked.image.sections[section.info]
            relocations = linked.image.relocations(section) if where.is_alloc else None
            if relocations is None or not relocations.count or relocations.symbols is not symbols:
                continue
            if where.flags & SHF_EXECINSTR:  # mold drops the symbols of folded sections
                self.knows_got = True
                lost_got |= bool(
                    (is_one_of(relocations.type, GOT_LOADS[linked.image.machine]) & (relocations.symbol == 0)).any()
                )
            if where.name not in _UNWIND:
                found.append(self._read(relocations, where))
        self.knows_got &= not lost_got
        self.place, self.target, self.meant = (np.concatenate(column) for column in zip(*found, strict=True))

    def _read(self, relocations: Relocations, where: Section) -> tuple[U64, U64, I64]:
        """Return the places in a section that refer to a body, the bodies, and the members that are meant."""
        image = self._linked.image
        symbols, symbol = relocations.symbols, relocations.symbol
        is_code = bool(where.flags & SHF_EXECINSTR)
        value: U64 = symbols.value[symbol] + relocations.addend.astype(np.uint64)
        if image.machine is Machine.X86_64:
            value += np.where(is_one_of(relocations.type, RELATIVE), np.uint64(_OPERAND_BYTES), np.uint64(0))
        named = self._wanted_symbol[symbol]
        value[named] = symbols.value[symbol[named]]
        at_body = np.zeros(len(value), np.bool_)
        rest = np.flatnonzero(~named)
        before = self._targets[np.maximum(np.searchsorted(self._targets, value[rest], side="right") - 1, 0)]
        at_body[rest] = (value[rest] >= before) & (value[rest] - before < TAG_LIMIT)
        value[rest] = before
        rows = np.flatnonzero(named | at_body)
        if is_code:
            rows = rows[~is_branch(image, relocations, rows, where)]
        place, target = relocations.offset[rows], value[rows]
        meant = np.where(self._are_exact(place, where), self._members(target, symbol[rows], named[rows]), ANY)
        return place, target, meant

    def _are_exact(self, places: U64, where: Section) -> Mask:
        """Return whether what stands at each place was not folded with something that named another function."""
        tables = self._vtables.at(places)
        if where.flags & SHF_EXECINSTR:
            linked = self._linked
            body = linked.bodies.starts_at(places)
            merged = is_in(body, linked.vaddrs) | is_in(body, np.array(list(linked.undescribed), np.uint64))
            elsewhere = ~merged & (body != 0)
        else:
            elsewhere = np.full(len(places), not is_relro(where.name, where.flags))
        return np.where(tables != 0, self._vtables.are_one(tables), elsewhere)

    def _members(self, targets: U64, symbols: U32, named: Mask) -> I64:
        """Return the members of bodies that symbols, or their sections, can mean."""
        linked = self._linked
        body, member = linked.places_of_symbols(symbols)
        is_section = (linked.image.symbols.type[symbols] == STT_SECTION) & (symbols != 0)
        found = np.where(~named & is_section, OF_SECTION, ANY)
        found = np.where(named & (body == targets), member, found)
        return np.where(is_in(targets, linked.vaddrs), found, 0)


def is_branch(image: Image, relocations: Relocations, rows: I64, where: Section) -> Mask:
    """Return which relocations of the section `where` stand in calls and direct jumps."""
    types = relocations.type[rows]
    if image.machine is Machine.AARCH64:
        return is_one_of(types, A64_BRANCHES)
    code = np.frombuffer(image.contents(where), np.uint8)
    at = (relocations.offset[rows] - np.uint64(where.vaddr)).astype(np.int64)
    inside = (at >= 2) & (at + _OPERAND_BYTES <= len(code))
    return inside & x86_64_branches(code, np.where(inside, at, 2), types)


def is_relro(name: str, flags: int) -> bool:
    """Return whether linkers fold a section like code: it does not change once the program runs."""
    return not flags & SHF_WRITE or name.startswith(".data.rel.ro")
