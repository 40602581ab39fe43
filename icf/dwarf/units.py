"""The units of an image with their abbreviations, as the kernels read them.

Units in other files, split ones (.dwo) and those of a supplementary file (dwz), follow those of the image, as if its
`.debug_info` went on (`icf.dwarf.parts`). A table cannot name a DIE at an offset after its end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from threading import local

import numpy as np

from icf.columns import I32, I64, U8, U32, U64
from icf.contents import Contents, string_at
from icf.dwarf import columns as col
from icf.dwarf._abbrev import compile_tables
from icf.dwarf._forms import operations, slots
from icf.dwarf._scan import scan
from icf.dwarf._unit_headers import unit_headers
from icf.elf.image import Image
from icf.errors import FormatError
from icf.heap import trim_heap
from icf.sets import distinct
from icf.string_kinds import IN_INFO, IN_LINE_STR, IN_SPLIT_STR, IN_STR, IN_SUP_STR, STRING_KIND
from icf.strings import hash_table, share_too_much, string_parts, texts

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
_OFFSET = (1 << STRING_KIND) - 1
_GCC = b"GNU "  # begins DW_AT_producer
_HEADER_BYTES = 1 << 14  # of .debug_info, that are read for the headers in them
_WINDOW_BYTES = 4 << 20  # of .debug_info, that are in memory at a time; a larger unit is so as a whole
_WINDOW_UNITS = 1 << 14  # or DIEs
_REFERENCE_BYTES = 4  # of a name, the least: DW_FORM_strp


class _Window(local):
    """The bytes of `info` that a thread has read last, and where they begin; the next ones take their place."""

    def __init__(self) -> None:
        self.at_hand = 0, memoryview(b"")
        self._room = memoryview(b"")  # memory that is new each time costs more than to read into it

    def read(self, info: Contents, start: int, end: int) -> tuple[int, memoryview]:
        """Read these bytes."""
        self.at_hand = 0, memoryview(b"")
        size_bytes = end - start
        if not size_bytes <= len(self._room) <= 2 * max(size_bytes, _WINDOW_BYTES):
            self._room = memoryview(bytearray(size_bytes))
        found = self._room[:size_bytes]
        info.read_into(found, start)
        self.at_hand = start, found
        return self.at_hand


@dataclass(slots=True)
class DebugInfo:
    """Sections, units (u64[n, COLUMN_COUNT], see `columns`) and abbreviation programs."""

    path: str
    info: Contents
    addr: Contents
    str_: Contents
    line_str: memoryview
    str_offsets: Contents
    ranges: memoryview
    rnglists: Contents
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
    is_large: bool = False  # sections of which the units have parts are not kept in memory
    has_locations: bool = False
    has_inlines: bool = False  # whether the abbreviations are compiled to read inlined calls
    _last_window: _Window = field(default_factory=_Window)
    _starts_of_parts: dict[int, U64] = field(default_factory=dict)  # by column of `units`
    starts_of_lists: U64 | None = None  # where the contributions to `rnglists` begin, if that is known
    _held: tuple[int, memoryview] = (0, memoryview(b""))  # of `info`: see `hold`
    # by column of `units`: from where to where a section was read, and this section
    _parts_at_hand: dict[int, tuple[int, int, memoryview]] = field(default_factory=dict)
    _held_parts: dict[int, tuple[int, int, memoryview]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)  # a line for each file of debug information that was not read

    def trim_heap(self) -> None:
        """Return free memory to the system, if so much is read that it matters."""
        if self.is_large:
            trim_heap()

    def read_unit_dies(self) -> None:
        """Fill the columns of `units` that come from the units' own DIEs."""
        functions = np.empty((1, col.S_COUNT), np.uint64)
        nothing, no_stack = functions[:0], np.empty(0, np.int32)
        result = np.zeros(col.R_SIZE, np.uint64)
        streamed = self.addr, self.str_offsets
        self.addr, self.str_offsets = (Contents(contents[:]) for contents in streamed)  # no part is known before
        while result[col.R_NEXT] < len(self.units):
            first = int(result[col.R_NEXT])
            self.run(first, len(self.units), nothing, functions, nothing, no_stack, result, col.READ_UNIT_DIES)
        self.addr, self.str_offsets = streamed
        self._starts_of_parts.clear()
        self._parts_at_hand.clear()

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
        if len(self.rnglists) > len(own):
            own = memoryview(b"".join([own, self.rnglists[len(own) :]]))
        addr = Contents(image.debug.contents(".debug_addr"))
        nothing = (0, memoryview(b""))
        return replace(
            self,
            info=image.debug.streamed(".debug_info"),
            _last_window=_Window(),
            _held=nothing,
            _parts_at_hand={},
            _held_parts={},
            addr=addr,
            ranges=image.debug.contents(".debug_ranges"),
            rnglists=Contents(own),
        )

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
        """Call the kernel once on these sections; see `icf.dwarf._scan.scan`.

        It stops after some MB of `.debug_info`, as it does where an output is full.
        """
        start, info = 0, self.info.in_memory
        picked = picks[first:last] if mode in (col.READ_DIES, col.READ_SITES_OF) else None
        if info is None:
            last, start, end = self._window(first, last, picked)
            start, info = self._read_window(start, end)
        units = np.arange(first, last) if picked is None else picked[: last - first, 1].astype(np.intp)
        scan(
            info,
            start,
            self.more,
            self.addresses_of(units),
            self.str_offsets_of(units),
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

    def addresses_of(self, units: I64) -> memoryview:
        """Return `.debug_addr` with the addresses of some units; others may be zero."""
        return self.part_of(self.addr, col.ADDR_BASE, units)

    def str_offsets_of(self, units: I64) -> memoryview:
        """Return `.debug_str_offsets` with the offsets of some units; others may be zero."""
        return self.part_of(self.str_offsets, col.STR_BASE, units)

    def part_of(self, contents: Contents, base: int, units: I64) -> memoryview:
        """Return a section with the parts of some units; others may be zero.

        `base`: the column of `units` that has the start of each unit's part; it ends where that of another begins.
        """
        if contents.in_memory is not None:
            return contents.in_memory
        return self._parts(contents, base, units)[2]

    def _parts(self, contents: Contents, base: int, units: I64) -> tuple[int, int, memoryview]:
        """Return from where to where a section has been read, and the section.

        Units that follow each other have parts that do, so all from the first to the last of these is read at once.
        """
        bases = self.units[units, base]
        bases = bases[bases > 0]  # others have no part, or the first one
        low, high = (int(bases.min()), int(bases.max())) if len(bases) else (0, 0)
        for known in (self._held_parts.get(base), self._parts_at_hand.get(base)):
            if known is not None and known[0] <= low and high < known[1]:
                return known
        starts = self._starts_of_parts.get(base)
        if starts is None:
            ascending = np.append(np.unique(self.units[:, base]), np.uint64(len(contents)))
            starts = self._starts_of_parts[base] = ascending[ascending > 0]
        last = int(starts[min(int(np.searchsorted(starts, np.uint64(high), side="right")), len(starts) - 1)])
        found = low, last, contents.only([(0, int(starts[0])), (low, last)])
        self._parts_at_hand[base] = found  # other threads replace it
        return found

    def _window(self, first: int, last: int, picks: U64 | None) -> tuple[int, int, int]:
        """Return how far one call of the kernel goes, and where what it reads of `info` starts and ends."""
        last = min(last, first + _WINDOW_UNITS)
        rows = np.arange(first, last) if picks is None else picks[: last - first, 1].astype(np.intp)
        offset, end = self.units[rows, col.OFFSET], self.units[rows, col.END]
        is_read = (self.units[rows, col.SHIFT] == 0) & (self.units[rows, col.ERROR] == 0)
        if picks is not None:
            at = picks[: last - first, 0]
            is_read &= (at >= offset) & (at < end)
        starts = np.minimum.accumulate(np.where(is_read, offset, np.uint64(len(self.info))))
        ends = np.maximum.accumulate(np.where(is_read, end, starts))
        sizes = ends - np.minimum(starts, ends)  # ascending
        first_read = min(int(np.searchsorted(sizes, np.uint64(1))), len(sizes) - 1)
        least = int(sizes[first_read])
        count = int(np.searchsorted(sizes, np.uint64(max(least, _WINDOW_BYTES)), side="right"))
        return first + count, int(starts[count - 1]), int(ends[count - 1])

    def _read_window(self, start: int, end: int) -> tuple[int, memoryview]:
        """Return bytes of `info` that include those from `start` to `end`, and where they begin."""
        for first, found in (self._held, self._last_window.at_hand):
            if first <= start and end <= first + len(found):
                return first, found
        return self._last_window.read(self.info, start, end)

    def hold(self, units: slice) -> None:
        """Read some units of the image, and keep them in memory until others are held."""
        first, last, _ = units.indices(self.own_unit_count)
        if self.info.in_memory is None and first < last:
            start = int(self.units[first, col.OFFSET])
            self._held = start, self.info[start : int(self.units[last - 1, col.END])]
            self._held_parts.clear()
            rows = np.arange(first, last)
            for base, contents in ((col.ADDR_BASE, self.addr), (col.STR_BASE, self.str_offsets)):
                if contents.in_memory is None:
                    self._held_parts[base] = self._parts(contents, base, rows)

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
        start = reference & _OFFSET
        kind = reference >> STRING_KIND
        if kind == IN_INFO and start >= len(self.info):
            return string_at(self.more, start - len(self.info)) or b""
        if not IN_INFO <= kind <= IN_SPLIT_STR:
            return b""
        return string_at((self.info, self.str_, self.line_str, self.sup_str, self.split_str)[kind - 1], start) or b""

    def is_of_gcc(self, unit: int) -> bool:
        """Return whether gcc made a unit, given by its row in `units`."""
        return self.string(int(self.units[unit, col.PRODUCER])).startswith(_GCC)

    def strings(self, references: U64) -> list[bytes]:
        """Return the string of each reference, as `string` does."""
        return self.hashed_strings(references)[1]

    def hashed_strings(self, references: U64) -> tuple[U64, list[bytes]]:
        """Return a hash of each referenced string, as `string_hashes` does, and the strings."""
        hashes, found = np.zeros(len(references), np.uint64), [b""] * len(references)
        for rows, buffer, starts in self._string_parts(references):
            hashes[rows] = hash_table(buffer, starts)
            for row, text in zip(rows.tolist(), texts(buffer, starts), strict=True):
                found[row] = text
        return hashes, found

    def string_hashes(self, references: U64, *, of_kin: bool = False) -> U64:
        """Return a hash of each referenced string, or of its kin, as `icf.strings` makes them; 0 for none."""
        hashes = np.zeros(len(references), np.uint64)
        for rows, buffer, starts in self._string_parts(references):
            hashes[rows] = hash_table(buffer, starts, of_kin=of_kin)
        return hashes

    def name_hashes(self, references: U64) -> tuple[U64, U64]:
        """Return the hash of each referenced string and that of its kin; 0 for none."""
        exact, of_kin = np.zeros((2, len(references)), np.uint64)
        for rows, buffer, starts in self._string_parts(references):
            exact[rows] = hash_table(buffer, starts)
            of_kin[rows] = hash_table(buffer, starts, of_kin=True)
        return exact, of_kin

    def _string_parts(self, references: U64) -> Iterator[tuple[I64, bytes | memoryview, U64]]:
        """Yield references that are read together: which they are, bytes, and where in these each string begins."""
        for rows, contents, offsets in self._by_section(references):
            for part, buffer, starts in string_parts(contents, offsets):
                if share_too_much(buffer, distinct(starts), _REFERENCE_BYTES):
                    problem = f"names share the {len(buffer)} bytes of strings there too often"
                    raise FormatError(self.path, "debug information", int(offsets[part][0]), problem)
                yield rows[part], buffer, starts

    def _by_section(self, references: U64) -> Iterator[tuple[I64, Contents, U64]]:
        """Yield references into each section: which they are, and their offsets in it, ascending."""
        order = np.argsort(references, kind="stable")
        ascending = references[order]
        more_start = (IN_INFO << STRING_KIND) + len(self.info)
        sections: list[tuple[int, Contents]] = [
            (IN_INFO << STRING_KIND, self.info),
            (more_start, Contents(self.more)),
            (IN_STR << STRING_KIND, self.str_),
            (IN_LINE_STR << STRING_KIND, Contents(self.line_str)),
            (IN_SUP_STR << STRING_KIND, Contents(self.sup_str)),
            (IN_SPLIT_STR << STRING_KIND, Contents(self.split_str)),
            (IN_SPLIT_STR + 1 << STRING_KIND, Contents(memoryview(b""))),
        ]
        bases = np.array([base for base, _ in sections], np.uint64)
        edges = np.searchsorted(ascending, bases).tolist()
        for (base, contents), first, last in zip(sections[:-1], edges[:-1], edges[1:], strict=True):
            if first < last:
                yield order[first:last], contents, ascending[first:last] - np.uint64(base)


def section_of_parts(file: Image, name: str, is_large: bool) -> Contents:
    """Return a section of which each unit has a part; that of large debug information is not kept in memory."""
    return file.unkept(name) if is_large else Contents(file.contents(name))


def read_unit_headers(info: Contents) -> U64:
    """Return the units of a section, as far as their headers describe them."""
    units = np.zeros((64 + len(info) // 16384, col.COLUMN_COUNT), np.uint64)  # most have more than 16 KB
    state = np.zeros(2, np.uint64)  # where to go on, and how many there are
    whole = info.in_memory
    while state[0] < len(info):
        if state[1] == len(units):
            units = np.concatenate([units, np.zeros_like(units)])
        start = int(state[0]) if whole is None else 0
        piece = info[start : start + _HEADER_BYTES] if whole is None else whole
        unit_headers(piece, start, len(info), units.data, state.data)
    return units[: int(state[1])].copy()


def compile_abbreviations(
    abbrev: memoryview, units: U64, inlines: bool = False, slot_of: U8 | None = None
) -> tuple[U64, U64, U32, U64]:
    """Compile every table that a unit names; replaces the units' table offsets by rows of `tables`.

    `slot_of`: the slot of each attribute of each kind of DIE, by default what the scan reads.
    """
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
        abbrev,
        operations().data,
        (slots() if slot_of is None else slot_of).data,
        int(inlines),
        tables.data,
        ops.data,
        decls.data,
        consts.data,
        used.data,
    )
    decls = decls[: int(used[col.DECL_COUNT])]
    is_sparse = (tables[:, col.T_DENSE] & np.uint64(1) == 0) & (tables[:, col.T_ERROR] == 0)
    for table in tables[is_sparse]:  # sorted for bisection
        part = slice(int(table[col.T_FIRST]), int(table[col.T_FIRST] + table[col.T_COUNT]))
        decls[part] = decls[part][np.argsort(decls[part, col.D_CODE], kind="stable")]
    if len(units):
        units[:, col.TABLE] = inverse.reshape(-1)
    return tables, decls, ops[: int(used[col.OP_COUNT])], consts[: int(used[col.CONST_COUNT])]
