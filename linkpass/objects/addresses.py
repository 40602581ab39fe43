"""The addresses that one object takes: relocations of named symbols, and of sections with code.

    lea  f(%rip), %rax   R_X86_64_PC32   f        a row
    call g               R_X86_64_PLT32  g        no row: an operand of a call or direct jump

Unwind information is left out. Only the object is needed, so it can be read while the linker runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64, Mask
from icf.elf.objectfile import Entries, ObjectFile
from icf.elf.types import SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, STB_LOCAL, STT_OBJECT, STT_SECTION, Machine
from icf.sets import distinct, is_one_of
from icf.vtables.layout import are_vtable_names
from linkpass.relocation_types import A64_BRANCHES, RELATIVE, x86_64_branches

_OPERAND_BYTES = 4
_UNWIND = (".eh_frame", ".gcc_except_table")


class Addresses(NamedTuple):
    """A place that holds the address of a named symbol, or of something in a section with code; a row each."""

    object_idx: I64
    name_hash: U64  # of the symbol that is named
    section: I64  # where the address lies in the object; used only for a symbol that stands for a section
    offset: I64
    is_local: Mask
    is_section: Mask  # the symbol stands for a section
    is_slot: Mask  # the place is in a vtable


def read_addresses(object_idx: int, object_file: ObjectFile) -> Addresses:
    """Return the addresses in an object that are not operands of calls and jumps."""
    symbols, table = object_file.symbols, object_file.sections
    hashes = symbols.strings.hashes(symbols.name_offset)
    is_section = symbols.type == STT_SECTION
    is_wanted = (symbols.name_offset != 0) & ~is_section
    rows = np.flatnonzero(is_section & (symbols.shndx < table.count))
    is_wanted[rows] = table.is_code[symbols.shndx[rows]]
    is_source = ((table.flags & np.uint64(SHF_ALLOC)) != 0) & (object_file.relocation_section != 0)
    for section in np.flatnonzero(is_source & ((table.flags & np.uint64(SHF_EXECINSTR | SHF_WRITE)) == 0)).tolist():
        is_source[section] = table.name(section) not in _UNWIND
    source, entries = object_file.relocations_in(np.flatnonzero(is_source))
    keep = np.flatnonzero(is_wanted[entries["symbol"]])
    source, entries = source[keep], entries[keep]
    keep = np.flatnonzero(~_are_branches(object_file, source, entries))
    source, entries = source[keep], entries[keep]
    symbol, offset = entries["symbol"], entries["addend"]
    if object_file.machine is Machine.X86_64:
        offset = offset + np.where(is_one_of(entries["type"], RELATIVE), _OPERAND_BYTES, 0)
    return Addresses(
        np.full(len(entries), object_idx, np.int64),
        hashes[symbol],
        symbols.shndx[symbol].astype(np.int64),
        symbols.value[symbol].view(np.int64) + offset,
        symbols.bind[symbol] == STB_LOCAL,
        is_section[symbol],
        _in_vtables(object_file, source, entries),
    )


def _are_branches(object_file: ObjectFile, source: I64, entries: Entries) -> Mask:
    """Return which relocations are operands of calls and direct jumps."""
    types, table = entries["type"], object_file.sections
    is_code = table.is_code[source]
    if object_file.machine is Machine.AARCH64:
        return np.asarray(is_code & is_one_of(types, A64_BRANCHES))
    inside = is_code & (entries["offset"] >= 2) & (entries["offset"] + np.uint64(4) <= table.size_bytes[source])
    table.check_stored(distinct(source))
    at = np.where(inside, table.offset[source] + entries["offset"], np.uint64(2)).astype(np.int64)
    return inside & x86_64_branches(np.frombuffer(object_file.data, np.uint8), at, types)


def _in_vtables(object_file: ObjectFile, source: I64, entries: Entries) -> Mask:
    """Return which relocations stand in the symbol of a vtable."""
    symbols = object_file.symbols
    rows = np.flatnonzero((symbols.type == STT_OBJECT) & symbols.is_defined)
    rows = rows[are_vtable_names(symbols, rows)]
    key = symbols.shndx[rows].astype(np.uint64) << np.uint64(40) | symbols.value[rows]
    order = np.argsort(key)
    key, end = key[order], (key + symbols.size_bytes[rows])[order]
    place = source.astype(np.uint64) << np.uint64(40) | entries["offset"]
    row = np.searchsorted(key, place, side="right").astype(np.int64) - 1
    if not len(key):
        return np.zeros(len(place), np.bool_)
    return np.asarray((row >= 0) & (place < end[np.maximum(row, 0)]))
