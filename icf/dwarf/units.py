"""The units of an image with their abbreviations, as the kernels read them.

Units in other files, split ones (.dwo) and those of a supplementary file (dwz), follow those of the image, as if its
`.debug_info` went on (`icf.dwarf.parts`). A table cannot name a DIE at an offset after its end.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace

import numpy as np

from icf._strings import hash_references
from icf.columns import I32, I64, U32, U64
from icf.dwarf import columns as col
from icf.dwarf._abbrev import compile_tables
from icf.dwarf._forms import operations, slots
from icf.dwarf._scan import scan
from icf.dwarf._unit_headers import unit_headers
from icf.elf.image import Image
from icf.errors import FormatError

PROBLEMS = {
    col.ERR_CUT: "runs past the end",
    col.ERR_RESERVED_LENGTH: "unit length uses a reserved value",
    col.ERR_VERSION: "version is not 2, 3, 4 or 5",
    col.ERR_UNIT_TYPE: "unit type is unknown",
    col.ERR_ADDRESS_SIZE: "address size is not 4 or 8",
    col.ERR_TABLE: "abbreviation table cannot be read",
    col.ERR_CODE: "abbreviation code is not in the table",
    col.ERR_FORM: "form is unknown",
    col.ERR_NO_DIE: "no DIE starts here",
    col.ERR_SIBLING: "DW_AT_sibling does not point forward within the unit",
    col.ERR_ADDRESS_INDEX: "address index is outside of .debug_addr",
    col.ERR_REFERENCE: "reference is outside of the unit",
    col.ERR_DEPTH: "DIEs are nested too deep",
}
MAX_DEPTH = 1 << 15


@dataclass(slots=True)
class DebugInfo:
    """Sections, units (u64[n, COLUMN_COUNT], see `columns`) and abbreviation programs."""

    path: str
    info: memoryview
    addr: memoryview
    str_: memoryview
    line_str: memoryview
    str_offsets: memoryview
    ranges: memoryview
    rnglists: memoryview
    units: U64
    tables: U64
    decls: U64
    ops: U32
    consts: U64
    restored: dict[str, U64]  # section -> offsets of the words whose tombstone was replaced
    own_unit_count: int  # units of `info`; the others are in `more`
    more: memoryview = memoryview(b"")  # .debug_info of other files
    sup_str: memoryview = memoryview(b"")  # .debug_str of the supplementary file
    split_str: memoryview = memoryview(b"")  # .debug_str.dwo of the split units
    part_starts: list[tuple[int, str, str]] = field(default_factory=list)  # start in `more`, path, section
    abbrev: memoryview = memoryview(b"")
    loc: memoryview = memoryview(b"")  # .debug_loc, and those of split units; only if opened with `locations`
    loclists: memoryview = memoryview(b"")
    split_lists: dict[int, int] = field(default_factory=dict)  # id of a split unit -> where its part of these begins
    has_locations: bool = False
    has_inlines: bool = False  # whether the abbreviations are compiled to read inlined calls
    missing: list[str] = field(default_factory=list)  # a line for each file of debug information that was not read

    def read_unit_dies(self) -> None:
        """Fill the columns of `units` that come from the units' own DIEs."""
        functions = np.empty((1, col.S_COUNT), np.uint64)
        nothing, no_stack = functions[:0], np.empty(0, np.int32)
        result = np.zeros(col.R_SIZE, np.uint64)
        self.run(0, len(self.units), nothing, functions, nothing, no_stack, result, col.READ_UNIT_DIES)

    @property
    def own_units(self) -> U64:
        """The units in `.debug_info` of the image."""
        return self.units[: self.own_unit_count]

    @property
    def die_limit(self) -> int:
        """The limit of offsets: each DIE, in whichever file, has a lower one."""
        return len(self.info) + len(self.more)

    def as_linked(self, image: Image) -> DebugInfo:
        """Return the same, with the addresses that the linker left in the image."""
        own = image.debug.contents(".debug_rnglists")
        rnglists = memoryview(b"".join([own, self.rnglists[len(own) :]])) if len(self.rnglists) > len(own) else own
        info, addr, ranges = map(image.debug.contents, (".debug_info", ".debug_addr", ".debug_ranges"))
        return replace(self, info=info, addr=addr, ranges=ranges, rnglists=rnglists)

    @property
    def unit_count(self) -> int:
        return len(self.units)

    def unit_of(self, offsets: U64) -> I64:
        """Return the unit in which each .debug_info offset lies, -1 if none."""
        starts = self.units[:, col.OFFSET]
        unit = np.searchsorted(starts, offsets, side="right").astype(np.int64) - 1
        ok = unit >= 0
        if len(starts):
            ok &= offsets < self.units[np.maximum(unit, 0), col.END]
        return np.where(ok, unit, -1)

    def run(
        self,
        first: int,
        last: int,
        picks: U64,
        subprograms: U64,
        sites: U64,
        stack: I32,
        result: U64,
        mode: int,
    ) -> None:
        """Call the kernel once on these sections; see `icf.dwarf._scan.scan`."""
        scan(
            self.info,
            self.more,
            self.addr,
            self.str_offsets,
            self.units.data,
            self.tables.data,
            self.decls.data,
            self.ops.data,
            self.consts.data,
            operations().data,
            first,
            last,
            mode,
            picks.data,
            stack.data,
            subprograms.data,
            sites.data,
            result.data,
        )

    def errors(self) -> list[FormatError]:
        """Return the errors of the units that could not be read."""
        found = []
        for unit in self.units[self.units[:, col.ERROR] != 0]:
            path, section, start = self.path, ".debug_info", 0
            if int(unit[col.SHIFT]):
                at = int(unit[col.OFFSET]) - len(self.info)
                start, path, section = self.part_starts[bisect_right(self.part_starts, (at, "\U0010ffff")) - 1]
                start += len(self.info)
            problem = f"unit at {int(unit[col.OFFSET]) - start:#x}: {PROBLEMS[int(unit[col.ERROR])]}"
            found.append(FormatError(path, section, int(unit[col.ERROR_AT]) - start, problem))
        return found

    def string(self, reference: int) -> bytes:
        """Return the string of a reference of the kernels; empty for none or one that points nowhere."""
        start = reference & ((1 << 60) - 1)
        kind = reference >> 60
        if kind == 1 and start >= len(self.info):
            section, start = self.more, start - len(self.info)
        elif 1 <= kind <= 5:
            section = (self.info, self.str_, self.line_str, self.sup_str, self.split_str)[kind - 1]
        else:
            return b""
        step = 256
        while start < len(section):
            chunk = bytes(section[start : start + step])
            end = chunk.find(0)
            if end >= 0:
                return chunk[:end]
            if start + step >= len(section):
                break
            step *= 4
        return b""

    def string_hashes(self, references: U64, *, of_kin: bool = False) -> U64:
        """Return a hash of each referenced string, or of its kin, as `icf.strings` makes them; 0 for none."""
        references = np.ascontiguousarray(references)
        out = np.empty(len(references), np.uint64)
        hash_references(self.info, self.str_, self.line_str, references.data, of_kin, out.data)
        if len(self.more):
            kind, own_end = references >> np.uint64(60), np.uint64(1 << 60 | len(self.info))
            elsewhere = np.flatnonzero((kind >= 4) | ((kind == 1) & (references >= own_end)))
            # the kinds 1, 4, 5 in those sections take the places of 1, 2, 3
            moved = references[elsewhere]
            moved -= np.where(kind[elsewhere] == 1, np.uint64(len(self.info)), np.uint64(2 << 60))
            hashes = np.empty(len(moved), np.uint64)
            hash_references(self.more, self.sup_str, self.split_str, moved.data, of_kin, hashes.data)
            out[elsewhere] = hashes
        return out


def read_unit_headers(info: memoryview) -> U64:
    """Return the units of a section, as far as their headers describe them."""
    capacity = 64 + len(info) // 16384  # most have more than 16 KB
    while True:
        units = np.zeros((capacity, col.COLUMN_COUNT), np.uint64)
        count = unit_headers(info, units.data)
        if count < capacity:
            return units[:count].copy()
        capacity *= 8


def compile_abbreviations(abbrev: memoryview, units: U64, inlines: bool = False) -> tuple[U64, U64, U32, U64]:
    """Compile every table that a unit names; replaces the units' table offsets by rows of `tables`."""
    keys = units[:, [col.TABLE, col.OFFSET_SIZE, col.ADDRESS_SIZE, col.VERSION]].copy()
    keys[:, 3] = np.where(keys[:, 3] == 2, 2, 5)
    distinct, inverse = np.unique(keys, axis=0, return_inverse=True)
    tables = np.zeros((max(len(distinct), 1), 8), np.uint64)
    tables[: len(distinct), :4] = distinct
    size_bytes = len(abbrev)
    # A table is read from its offset to its end and two units rarely share a part of one, so twice the
    # section is ample; what does not fit (a hostile file) is an error of its unit.
    ops = np.empty(size_bytes + 64, np.uint32)
    decls = np.empty((size_bytes // 2 + 64, 4), np.uint64)
    consts = np.empty(size_bytes // 2 + 64, np.uint64)
    used = np.zeros(4, np.uint64)
    compile_tables(
        abbrev, operations().data, slots().data, int(inlines), tables.data, ops.data, decls.data, consts.data, used.data
    )
    decls = decls[: int(used[col.DECL_COUNT])]
    is_sparse = (tables[:, col.T_DENSE] & np.uint64(1) == 0) & (tables[:, col.T_ERROR] == 0)
    for table in tables[is_sparse]:  # sorted for bisection
        part = slice(int(table[col.T_FIRST]), int(table[col.T_FIRST] + table[col.T_COUNT]))
        decls[part] = decls[part][np.argsort(decls[part, col.D_CODE], kind="stable")]
    if len(units):
        units[:, col.TABLE] = inverse.reshape(-1)
    return tables, decls, ops[: int(used[col.OP_COUNT])], consts[: int(used[col.CONST_COUNT])]
