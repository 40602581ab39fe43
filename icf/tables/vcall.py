"""`.debug_vcall`: from which vtable slot each virtual call loads its target.

A unit is a header without `debug_info` (`callunit`) and entries of a call site and the ULEB128 index of a
slot. There are no caller records: the slot is a property of the instruction, and every function that
shares the body loads from the same one. A call site of 0 is therefore an ordinary entry here; a linker
leaves one where it discarded the function, and the address check of the pass drops it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from icf.columns import I64, U64
from icf.reader import Reader
from icf.tables import _leb
from icf.tables.callunit import CallUnit, Dialect, parse_units, unit_header

__all__ = ["CallUnit", "Dialect", "VirtualCalls", "encode_vcall", "parse_vcall"]


@dataclass(frozen=True, slots=True)
class VirtualCalls:
    """Virtual-call records as columns, in section order."""

    call_site: U64
    vtable_slot: U64
    units: tuple[CallUnit, ...] = ()
    unit_row: tuple[int, ...] = ()  # the first row of each unit

    def __len__(self) -> int:
        return len(self.call_site)

    @classmethod
    def of(cls, records: Sequence[tuple[int, int]]) -> VirtualCalls:
        """Return the columns of (call site, vtable slot) pairs."""
        rows = np.array(records, dtype=np.uint64).reshape(len(records), 2)
        return cls(np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1]))


def parse_vcall(buffer: bytes | memoryview, path: str, section: str = ".debug_vcall") -> VirtualCalls:
    """Return all records of the section, whatever dialects its units are in."""
    view = memoryview(buffer).cast("B")
    units = parse_units(view, path, section, has_debug_info=False)
    row_limit = sum((unit.end - unit.start) // (unit.site_size + 1) for unit in units)
    site, slot = np.empty(row_limit, np.uint64), np.empty(row_limit, np.uint64)
    unit_row = []
    row = 0
    for unit in units:
        unit_row.append(row)
        reached = _leb.slot_run(view, unit.start, unit.end, unit.site_size, site.data, slot.data, row)
        if reached < 0:
            reader = Reader(view, path, section, -1 - reached, unit.end)
            reader.take(unit.site_size)
            reader.uleb()  # one of the two raises its error
        row = reached
    return VirtualCalls(site[:row].copy(), slot[:row].copy(), tuple(units), tuple(unit_row))


def encode_vcall(
    calls: VirtualCalls, *, dialect: Dialect = Dialect.PROPOSAL, dwarf64: bool = False, address_size: int = 8
) -> tuple[bytes, I64]:
    """Return the section for `calls` as one unit that ascends by call site; written record `i` is row `order[i]`."""
    offset_size = 8 if dwarf64 else 4
    site_size = offset_size if dialect is Dialect.GCC else address_size
    site = np.ascontiguousarray(calls.call_site, dtype=np.uint64)
    slot = np.ascontiguousarray(calls.vtable_slot, dtype=np.uint64)
    if not len(site):
        return b"", np.empty(0, np.int64)
    if site_size < 8 and int(site.max()) >> (8 * site_size):
        raise ValueError(f"call site {int(site.max()):#x} does not fit {site_size} bytes")
    order = np.lexsort((slot, site)).astype(np.int64)
    entries = np.empty(len(site) * (site_size + 10), np.uint8)
    size_bytes = _leb.entry_write(site[order].data, slot[order].data, site_size, entries.data)
    header = unit_header(dialect, offset_size, address_size, None, size_bytes)
    return header + entries[:size_bytes].tobytes(), order
