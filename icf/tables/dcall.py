"""`.debug_dcall`: which function each direct call meant, though the linker folded it with others.

A unit is a header (`callunit`) and entries of a call site and a ULEB128 DIE offset, relative to the
unit that the header's `debug_info` names:

    call_site != 0    a record: the callee of the call that returns to `call_site` is the function of that DIE
    call_site == 0    a caller record: the entries that follow, up to the next one or the end of the
                      unit, are calls made by the function of that DIE

A merged caller has one body and so one set of return addresses for several functions: two records with
one call site and different callers are not a contradiction but the point of the table. Before the
first caller record of a unit the caller is not known (0); the proposal's own tables have none at all.

The writer groups records by the unit that holds both their DIEs; a record that spans two units goes
into a contribution whose `debug_info` is 0, so that its offsets are those of `.debug_info` itself. In it,
records ascend by caller and call site, those without a caller first, and each caller is recorded once.

Columns hold absolute DIE offsets. One row is 24 bytes for at least 5 in the file, so the size of a corrupt section
bounds what its reader allocates. 100,000 records (1 MB) take 5 ms to parse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from icf.columns import I64, U64
from icf.reader import Reader
from icf.tables import _leb
from icf.tables.callunit import CallUnit, Dialect, parse_units, unit_header

__all__ = ["CallUnit", "Dialect", "DirectCalls", "encode_dcall", "parse_dcall"]


@dataclass(frozen=True, slots=True)
class DirectCalls:
    """Direct-call records as columns, in section order; `units` has the layout of each unit."""

    call_site: U64
    callee_die: U64  # offset in .debug_info
    caller_die: U64  # 0 where no caller record precedes
    units: tuple[CallUnit, ...] = ()
    unit_row: tuple[int, ...] = ()  # the first row of each unit

    def __len__(self) -> int:
        return len(self.call_site)

    @classmethod
    def of(cls, records: Sequence[tuple[int, int, int]]) -> DirectCalls:
        """Return the columns of (call site, callee DIE, caller DIE) triples."""
        rows = np.array(records, dtype=np.uint64).reshape(len(records), 3)
        site, callee, caller = (np.ascontiguousarray(rows[:, idx]) for idx in range(3))
        return cls(site, callee, caller)


def parse_dcall(buffer: bytes | memoryview, path: str, section: str = ".debug_dcall") -> DirectCalls:
    """Return all records of the section, whatever dialects its units are in."""
    view = memoryview(buffer).cast("B")
    units = parse_units(view, path, section, has_debug_info=True)
    row_limit = sum((unit.end - unit.start) // (unit.site_size + 1) for unit in units)
    site, callee, caller = (np.empty(row_limit, np.uint64) for _ in range(3))
    columns = site.data, callee.data, caller.data
    unit_row = []
    row = 0
    for unit in units:
        unit_row.append(row)
        reached = _leb.call_run(view, unit.start, unit.end, unit.site_size, unit.debug_info, *columns, row)
        if reached < 0:
            _refuse_entry(Reader(view, path, section, -1 - reached, unit.end), unit)
        row = reached
    if row < row_limit:
        site, callee, caller = site[:row].copy(), callee[:row].copy(), caller[:row].copy()
    return DirectCalls(site, callee, caller, tuple(units), tuple(unit_row))


def encode_dcall(
    calls: DirectCalls,
    unit_starts: U64,
    unit_ends: U64,
    *,
    dialect: Dialect = Dialect.PROPOSAL,
    dwarf64: bool = False,
    address_size: int = 8,
) -> tuple[bytes, I64]:
    """Return the section for `calls`, and `order`: written record `i` is row `order[i]` of `calls`.

    `unit_starts` ascends and `unit_ends` goes with it: the units of `.debug_info`.
    """
    offset_size = 8 if dwarf64 else 4
    site_size = offset_size if dialect is Dialect.GCC else address_size
    site = np.ascontiguousarray(calls.call_site, dtype=np.uint64)
    callee = np.ascontiguousarray(calls.callee_die, dtype=np.uint64)
    caller = np.ascontiguousarray(calls.caller_die, dtype=np.uint64)
    if not len(site):
        return b"", np.empty(0, np.int64)
    if not site.all():
        raise ValueError(f"record {int(np.argmin(site != 0))} has call site 0, which marks a caller record")
    if site_size < 8 and int(site.max()) >> (8 * site_size):
        raise ValueError(f"call site {int(site.max()):#x} does not fit {site_size} bytes")

    starts = np.ascontiguousarray(unit_starts, dtype=np.uint64)
    ends = np.ascontiguousarray(unit_ends, dtype=np.uint64)
    base = _unit_start(callee, starts, ends)
    caller_base = np.where(caller == 0, base, _unit_start(np.where(caller == 0, callee, caller), starts, ends))
    base = np.where(base == caller_base, base, np.uint64(0))
    order = np.lexsort((callee, site, caller, base))
    site, callee, caller, base = site[order], callee[order], caller[order], base[order]

    # a caller record goes before each row whose (base, caller) differs from the row above
    fresh = np.ones(len(site), dtype=bool)
    fresh[1:] = (base[1:] != base[:-1]) | (caller[1:] != caller[:-1])
    if dialect is Dialect.PROPOSAL:
        # GCC's units begin with a caller record, by which the dialects are recognized: DIE 0 is not one
        fresh &= caller != 0
    entry_of_row = np.arange(len(site)) + np.cumsum(fresh)
    entry_count = len(site) + int(fresh.sum())
    entry_site, entry_value = np.zeros(entry_count, np.uint64), np.zeros(entry_count, np.uint64)
    entry_site[entry_of_row] = site
    entry_value[entry_of_row] = callee - base
    entry_value[entry_of_row[fresh] - 1] = np.where(caller == 0, caller, caller - base)[fresh]

    first_row = np.flatnonzero(np.append(True, base[1:] != base[:-1]))
    first_entry = entry_of_row[first_row] - fresh[first_row]
    chunks = []
    for row, start, end in zip(first_row, first_entry, [*first_entry[1:], entry_count], strict=True):
        entries = np.empty((end - start) * (site_size + 10), np.uint8)
        size_bytes = _leb.entry_write(entry_site[start:end].data, entry_value[start:end].data, site_size, entries.data)
        chunks.append(unit_header(dialect, offset_size, address_size, int(base[row]), size_bytes))
        chunks.append(entries[:size_bytes].tobytes())
    return b"".join(chunks), order.astype(np.int64)


def _unit_start(die: U64, starts: U64, ends: U64) -> U64:
    """Return the start of the unit that each DIE lies in."""
    unit_idx = np.searchsorted(starts, die, side="right") - 1
    inside = unit_idx >= 0
    if len(starts):
        inside &= die < ends[np.maximum(unit_idx, 0)]
    if not inside.all():
        raise ValueError(f"DIE {int(die[np.argmin(inside)]):#x} lies in no unit")
    return starts[unit_idx]


def _refuse_entry(reader: Reader, unit: CallUnit) -> None:
    """Raise the error for the entry at which the kernel stopped."""
    offset = reader.pos
    reader.take(unit.site_size)
    die = reader.uleb()
    raise reader.error(f"DIE {die:#x} of the unit at {unit.debug_info:#x} exceeds 64 bits", offset)
