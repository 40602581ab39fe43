"""Which functions' addresses the objects of a link hold, other than to call them: in code, in data, in vftables.

    ??_7Book@@6B@   ADDR64  ?price@Book@@UEAAHH@Z    slot 0 of a vftable of Book
    .data           ADDR64  ?on_exit@@YAXXZ          taken
    .text   lea     REL32   ?compare@@YAHHH@Z        taken
    .text   call    REL32   ?count@@YAXH@Z           a call: not taken
    .xdata          ADDR32NB __CxxFrameHandler3      taken: Windows calls it
    .pdata, .debug$S                                 not: they describe the function

A vftable with external linkage lies in a section of its own, after the pointer to its RTTI (`??_R4`), so each function
in that section after its symbol is in a slot. Of others (clang puts those of an unnamed namespace into one section,
with constants that have no symbol) no slots are known, and the functions in them count as taken. So do the functions of
a section that is not linked. Unwind information refers to the code that it describes, which says nothing; but where
that has handlers of exceptions (`?dtor$2@...`), Windows calls them, and they are a part of the function's body.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from icf.coff.objectfile import ADDR64, EXTERNAL, REL32, CoffObject
from icf.errors import FormatError
from icf.pe.vftables import VFTABLE
from linkpass.pe.branch_sites import branch_opcode_bytes
from linkpass.pe.inputs import Input
from linkpass.pe.members import Function, Members

_POINTER_TO_IMPORT = "__imp_"  # of a function of this image: the linker makes the pointer
_HANDLER = re.compile(r"\?(?:catch|dtor|filt|fin)\$")
_WORD_BYTES, _OPERAND_BYTES, _TAG_LIMIT = 8, 4, 16  # functions are aligned: a number below this may be a tag
_PLAIN_KINDS = (0, 10, 11)  # nothing, number of a section, offset in one


class TableSlot(NamedTuple):
    """A slot of a vftable."""

    table: str  # linkage name
    slot: int


class References:
    """Reads objects; `slots` has the functions in each slot, None among them for one that is not known."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self.taken: set[Function] = set()
        self.slots: dict[TableSlot, set[Function | None]] = {}

    def read(self, each: Input) -> None:
        """Read an object; raise FormatError if a relocation is outside of its section."""
        obj, owners, starts = each.object, each.object.owners(), _Starts(each.object)
        tables, is_open = _tables(obj), False
        for number, section in enumerate(obj.sections):
            if not section.is_loaded or not section.relocation_count:
                continue
            content = obj.contents(number)
            table, table_start = tables.get(number, ("", 0))
            for offset, symbol, kind in obj.relocation_rows(number):
                if offset >= len(content):
                    problem = f"a relocation at {offset:#x} of a section of {len(content)} bytes"
                    raise FormatError(obj.path, f"section {number + 1}", offset, problem)
                is_branch = section.is_code and kind == REL32 and branch_opcode_bytes(content, offset) > 0
                if is_branch or kind in _PLAIN_KINDS:
                    continue
                size_bytes = _WORD_BYTES if kind == ADDR64 else _OPERAND_BYTES
                addend = int.from_bytes(content[offset : offset + size_bytes], "little", signed=True)
                found = self._meant(each, symbol, addend, starts, owners.get(number, -1))
                if found is None:
                    continue
                slot, rest = divmod(offset - table_start, _WORD_BYTES)
                if table and slot >= 0 and not rest and kind == ADDR64:
                    self.slots.setdefault(TableSlot(table, slot), set()).update(found or {None})
                else:
                    self.taken |= found
                is_open |= not found
        if is_open:  # the PDB spells a name in another way
            self.taken |= self._members.statics.all_of(each)

    def _meant(self, each: Input, symbol: int, addend: int, starts: _Starts, owner: int) -> frozenset[Function] | None:
        """Return the functions that a relocation may refer to; None if it refers to none of the program."""
        obj, members = each.object, self._members
        name, section = obj.name(symbol), obj.section_of(symbol)
        if section < 0:
            found = members.meant_by(each, symbol)
            if name.startswith(_POINTER_TO_IMPORT):
                found |= members.external(name.removeprefix(_POINTER_TO_IMPORT))
            return found or None
        if not obj.sections[section].is_code:
            return None
        if obj.is_function(symbol):
            found = members.meant_by(each, symbol)
            if not found and _HANDLER.match(name):
                return self._around(each, symbol, starts)
            return None if section == owner and found else found
        if section == owner:
            return None
        place = int(obj.symbols[symbol]["value"]) + addend  # a label, or the whole section
        found = frozenset[Function]()
        functions = [row for back in range(_TAG_LIMIT) for row in starts.at(section, place - back)]
        for row in functions:
            meant = members.meant_by(each, row)
            if not meant:
                return meant
            found |= meant
        return found or None

    def _around(self, each: Input, handler: int, starts: _Starts) -> frozenset[Function]:
        """Return the functions after which a handler of exceptions lies; none if they are not known."""
        section, place = each.object.section_of(handler), int(each.object.symbols[handler]["value"])
        return frozenset().union(*(self._members.meant_by(each, row) for row in starts.before(section, place)))


class _Starts:
    """The symbols of the functions of an object, by section and place."""

    def __init__(self, obj: CoffObject) -> None:
        self._rows: dict[int, dict[int, list[int]]] = {}
        self._places: dict[int, list[int]] = {}  # ascending, without handlers of exceptions
        for each in obj.functions():  # ascending
            rows = self._rows.setdefault(each.section, {}).setdefault(each.start, [])
            rows.append(each.symbol)
            if len(rows) == 1 and not _HANDLER.match(each.name):
                self._places.setdefault(each.section, []).append(each.start)

    def at(self, section: int, place: int) -> Iterable[int]:
        """Return the functions at a place."""
        return self._rows.get(section, {}).get(place, ())

    def before(self, section: int, place: int) -> Iterable[int]:
        """Return the functions at the last place before another one; handlers of exceptions do not count."""
        places = self._places.get(section, [])
        idx = bisect_left(places, place)
        return self.at(section, places[idx - 1]) if idx else ()


def _tables(obj: CoffObject) -> dict[int, tuple[str, int]]:
    """Return name and place of each vftable that is alone in its section."""
    found: dict[int, tuple[str, int]] = {}
    several = set()
    for symbol in obj.named(VFTABLE):
        section = obj.section_of(symbol)
        if section >= 0 and obj.sections[section].is_comdat and not obj.sections[section].is_code:
            if section in found:
                several.add(section)
            if int(obj.symbols[symbol]["storage"]) == EXTERNAL:
                found[section] = obj.name(symbol), int(obj.symbols[symbol]["value"])
    return {section: table for section, table in found.items() if section not in several}
