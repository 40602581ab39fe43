"""Units that are in other files than the image: joined to its own, so that one scan reads all of them.

    DebugInfo.info     .debug_info of the image
    DebugInfo.more     .debug_info of the supplementary file | .debug_info.dwo of a.dwo | of b.dwo | ...

Offsets go on from the first to the second. The tables that a unit refers to by an offset in its own file
(abbreviations, strings, lists) are joined as well, and the columns of its row hold where its part begins.

With -gsplit-dwarf the image has a skeleton for each unit: a DIE with addresses, the line table and the name of the
file with everything else. Skeleton and split unit have one id. The split unit takes from its skeleton the columns about
the image, and then no longer differs from any other unit; the skeleton itself is passed over, as some compilers put
a poorer copy of the functions there. If the split unit of a skeleton is not found, only symbols describe its functions,
and one line reports it. Split type units describe no code and are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from icf.columns import U64
from icf.contents import Contents
from icf.debugfiles.dwo import package_paths, split_paths
from icf.debugfiles.supplementary import open_supplementary
from icf.debugfiles.unit_index import CU_INDEX, UnitIndex, parse_unit_index
from icf.dwarf.columns import (
    ADDR_BASE,
    BASES_GIVEN,
    COMP_DIR,
    DIE,
    DWO_ID,
    DWO_NAME,
    END,
    ERROR,
    ERROR_AT,
    FLAGS,
    HAS_STMT_LIST,
    IS_SPLIT,
    LOW_PC,
    OFFSET,
    OFFSET_SIZE,
    REF_BASE,
    REF_LIMIT,
    RNGLISTS_BASE,
    SHIFT,
    STMT_LIST,
    STR_BASE,
    STR_KIND,
    SUP_BASE,
    TABLE,
    UNIT_TYPE,
    VERSION,
)
from icf.dwarf.units import DebugInfo, compile_abbreviations, read_unit_headers
from icf.elf.image import Image
from icf.errors import IcfError

_SKELETON, _SPLIT_COMPILE, _SPLIT_TYPE = 4, 5, 6
_INFO_NAMES = (".debug_info.dwo", ".zdebug_info.dwo")
_SUP_STR, _SPLIT_STR = 4 << 60, 5 << 60


def add_parts(debug: DebugInfo, image: Image, abbrev_offsets: U64) -> None:
    """Find and join the other files of the debug information; `abbrev_offsets`: of the image's own units."""
    joined = _Joined(debug, image)
    joined.add_supplementary(image)
    skeletons = np.flatnonzero((debug.units[:, FLAGS] & IS_SPLIT) != 0)
    debug.units[skeletons, UNIT_TYPE] = _SKELETON
    if len(skeletons):
        _Split(debug, image, joined).find(skeletons.tolist())
    joined.finish(abbrev_offsets)


class _Joined:
    """Sections of several files, one after the other, and the units in them."""

    def __init__(self, debug: DebugInfo, image: Image) -> None:
        self._debug = debug
        self._pieces: dict[str, list[memoryview]] = {
            "info": [],
            "abbrev": [image.debug.contents(".debug_abbrev")],
            "str_offsets": [debug.str_offsets[:]],
            "rnglists": [debug.rnglists[:]],
            "loc": [debug.loc],
            "loclists": [debug.loclists],
            "str": [],
        }
        self._size_bytes = {name: sum(map(len, pieces)) for name, pieces in self._pieces.items()}
        self._rows: list[U64] = []

    def add(self, name: str, contents: memoryview) -> int:
        """Join a section; return where it begins."""
        start = self._size_bytes[name]
        if len(contents):
            self._pieces[name].append(contents)
            self._size_bytes[name] += len(contents)
        return start

    def add_units(self, units: U64, path: str, section: str, contents: memoryview) -> int:
        """Join units with their section; return where that begins in `more`."""
        start = self.add("info", contents)
        self._debug.part_starts.append((start, path, section))
        own_size = len(self._debug.info)
        for column in (OFFSET, END, DIE, ERROR_AT):
            units[:, column] += np.uint64(own_size + start)
        units[:, SHIFT] = own_size
        units[:, REF_BASE] += np.uint64(own_size + start)
        self._rows.append(units)
        return start

    def add_supplementary(self, image: Image) -> None:
        """Add the supplementary file, before all others: references to it are relative to the start of `more`."""
        file = open_supplementary(image)
        if file is None:
            return
        with file:
            info = file.contents(".debug_info")
            units = read_unit_headers(Contents(info))
            units[:, TABLE] += np.uint64(self.add("abbrev", file.contents(".debug_abbrev")))
            units[:, STR_KIND] = _SUP_STR
            units[:, FLAGS] = BASES_GIVEN  # they are not the line tables of the image
            self._debug.sup_str = file.contents(".debug_str")
            self.add_units(units, file.path, ".debug_info", info)
        self._debug.units[:, SUP_BASE] = len(self._debug.info)

    def finish(self, abbrev_offsets: U64) -> None:
        """Replace the sections and units of `debug` by the joined ones."""
        debug = self._debug
        if not self._rows:
            return
        debug.units[:, TABLE] = abbrev_offsets
        debug.units = np.concatenate([debug.units, *self._rows])
        debug.abbrev = self._all("abbrev")
        debug.tables, debug.decls, debug.ops, debug.consts = compile_abbreviations(
            debug.abbrev, debug.units, debug.has_inlines
        )
        debug.more, debug.split_str = self._all("info"), self._all("str")
        debug.str_offsets, debug.rnglists = (Contents(self._all(name)) for name in ("str_offsets", "rnglists"))
        debug.loc, debug.loclists = self._all("loc"), self._all("loclists")
        debug.read_unit_dies()

    def _all(self, name: str) -> memoryview:
        pieces = [piece for piece in self._pieces[name] if len(piece)]
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))


class _Split:
    """Finds the split units of skeletons."""

    def __init__(self, debug: DebugInfo, image: Image, joined: _Joined) -> None:
        self._debug = debug
        self._image = image
        self._joined = joined
        self._open: dict[int, int] = {}  # id -> skeleton without a unit

    def find(self, skeletons: Iterable[int]) -> None:
        """Join the split units that are found; the others go into `debug.missing`."""
        debug = self._debug
        for row in skeletons:
            if self._open.setdefault(int(debug.units[row, DWO_ID]), row) != row:
                debug.missing.append(f"{self._name(row)}: two units have the id {int(debug.units[row, DWO_ID]):#x}")
        for path in package_paths(self._image):
            self._image.looked_for.append(path)
            if self._open and os.path.isfile(path):
                self._take(path)
        for dwo_id, row in list(self._open.items()):
            if dwo_id in self._open:  # no file of an earlier unit had this one, too
                self._search(dwo_id, row)

    def _name(self, row: int) -> str:
        return os.fsdecode(self._debug.string(int(self._debug.units[row, DWO_NAME])))

    def _search(self, dwo_id: int, row: int) -> None:
        comp_dir = os.fsdecode(self._debug.string(int(self._debug.units[row, COMP_DIR])))
        problem = ""
        for path in split_paths(self._image, comp_dir, self._name(row)):
            self._image.looked_for.append(path)
            problem = problem or f"{path}: not found"
            if not os.path.isfile(path):
                continue
            problem = self._take(path)
            if dwo_id not in self._open:
                return
            problem = problem or f"{path}: is of another compilation: no unit has the id {dwo_id:#018x}"
        self._debug.missing.append(problem)

    def _take(self, path: str) -> str:
        """Join the units of a file that skeletons wait for; return the problem with it, or ""."""
        try:
            with Image.open(path, allow_rel=True) as file:
                for section in file.sections:  # type units have a section each, of the same name
                    if section.name in _INFO_NAMES:
                        self._take_units(file, file.contents(section))
        except IcfError as error:
            return str(error)
        return ""

    def _take_units(self, file: Image, info: memoryview) -> None:
        abbrev = file.contents(".debug_abbrev.dwo")
        units = read_unit_headers(Contents(info))
        index = parse_unit_index(file.contents(CU_INDEX), file.path) if file.section(CU_INDEX) is not None else None
        units[:, REF_LIMIT] = len(info)
        if index is not None:
            for unit in units:
                _apply_index(unit, index)
        old = np.flatnonzero((units[:, VERSION] < 5) & (units[:, ERROR] == 0))
        if len(old):
            units[old, DWO_ID] = _ids_in_dies(self._debug, info, abbrev, units[old])
        skeleton_of = {
            row: self._open.pop(int(unit[DWO_ID]))
            for row, unit in enumerate(units)
            if int(unit[DWO_ID]) in self._open and unit[UNIT_TYPE] not in (_SPLIT_TYPE, _SKELETON) and not unit[ERROR]
        }
        if not skeleton_of:
            return
        taken = units[list(skeleton_of)]
        add = self._joined.add
        self._join_lists(file, taken, index)
        starts = {name: add(name, file.contents(f".debug_{name}.dwo")) for name in ("str_offsets", "rnglists", "str")}
        for unit, skeleton in zip(taken, skeleton_of.values(), strict=True):
            self._join(unit, self._debug.units[skeleton], starts)
        taken[:, TABLE] += np.uint64(add("abbrev", abbrev))
        self._joined.add_units(taken, file.path, ".debug_info.dwo", info)

    def _join_lists(self, file: Image, units: U64, index: UnitIndex | None) -> None:
        """Join the location lists of a file, if they are wanted."""
        if not self._debug.has_locations:
            return
        starts = {name: self._joined.add(name, file.contents(f".debug_{name}.dwo")) for name in ("loc", "loclists")}
        for unit in units:
            name = "loc" if unit[VERSION] < 5 else "loclists"
            row = -1 if index is None else index.row_at(int(unit[OFFSET]))
            own = 0 if index is None or row < 0 else index.contribution(row, name).offset
            self._debug.split_lists[int(unit[DWO_ID])] = starts[name] + own

    def _join(self, unit: U64, skeleton: U64, starts: dict[str, int]) -> None:
        """Copy to a split unit what its skeleton and its file define."""
        unit[[STMT_LIST, COMP_DIR, ADDR_BASE, LOW_PC]] = skeleton[[STMT_LIST, COMP_DIR, ADDR_BASE, LOW_PC]]
        unit[FLAGS] = int(skeleton[FLAGS]) & HAS_STMT_LIST | BASES_GIVEN
        unit[STR_KIND] = _SPLIT_STR + starts["str"]
        is_64 = unit[OFFSET_SIZE] == 8
        has_headers = unit[VERSION] >= 5
        unit[STR_BASE] += np.uint64(starts["str_offsets"] + ((16 if is_64 else 8) if has_headers else 0))
        if has_headers:
            unit[RNGLISTS_BASE] += np.uint64(starts["rnglists"] + (20 if is_64 else 12))
        else:
            unit[RNGLISTS_BASE] = skeleton[RNGLISTS_BASE]  # DW_AT_GNU_ranges_base, in .debug_ranges of the image


def _apply_index(unit: U64, index: UnitIndex) -> None:
    """Put into the row of a unit where its contributions to the package begin."""
    row = index.row_at(int(unit[OFFSET]))
    if row < 0:
        return
    unit[TABLE] += np.uint64(index.contribution(row, "abbrev").offset)
    unit[STR_BASE] = index.contribution(row, "str_offsets").offset
    unit[RNGLISTS_BASE] = index.contribution(row, "rnglists").offset
    info = index.contribution(row, "info")
    unit[REF_BASE], unit[REF_LIMIT] = info.offset, info.size_bytes


def _ids_in_dies(debug: DebugInfo, info: memoryview, abbrev: memoryview, units: U64) -> U64:
    """Return DWARF 4: the id is an attribute of the unit's DIE."""
    units = units.copy()
    units[:, FLAGS] = BASES_GIVEN
    tables, decls, ops, consts = compile_abbreviations(abbrev, units)
    alone = replace(debug, info=Contents(info), units=units, tables=tables, decls=decls, ops=ops, consts=consts)
    alone.read_unit_dies()
    return units[:, DWO_ID]
