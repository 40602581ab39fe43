"""Functions that the compiler merged before it wrote an object, so that no trace of one of them is left.

    rustc   LLVM merges equal functions of a codegen unit; a local one leaves no symbol, no DIE, and no call of it.
            -C llvm-args=-mergefunc-preserve-debug-info leaves symbols: local ones of one crate at one address
    gcc     -fipa-icf, on from -O2: the merged function keeps a DIE, without an address
    clang   -fmerge-functions, which is not on by default, and recorded by -grecord-command-line only

The name of the kept function is then the answer. No evidence names the others, so the image has a
flag. Options of rustc are not recorded; unoptimized code is recognized by the locations of its variables,
few of which are lists.
"""

from __future__ import annotations

import numpy as np

from icf.dwarf.columns import LANGUAGE, NAME, PRODUCER, TABLE
from icf.dwarf.units import DebugInfo
from icf.elf.types import STB_LOCAL
from icf.folds.copied import lost_functions
from linkpass.linked import Linked

FLAGS = {
    "rustc": "-C llvm-args=-mergefunc-preserve-debug-info",
    "gcc": "-fno-ipa-icf",
    "clang": "-fno-merge-functions",
}
_DW_LANG_RUST = 0x1C
_STANDARD_LIBRARY = (b"/rustc/", b"/rust/deps/")
_DW_AT_LOCATION, _DW_FORM_IMPLICIT_CONST = 0x02, 0x21
_LISTS = (0x06, 0x17, 0x22)  # DW_FORM_data4, sec_offset, loclistx


def find_compilers(linked: Linked) -> list[str]:
    """Return the compilers that may have merged functions of this image without a trace; keys of FLAGS."""
    debug = linked.debug
    found = []
    if len(lost_functions(debug, linked.functions, linked.bare)):
        found.append("gcc")
    rust = np.flatnonzero(debug.units[:, LANGUAGE] == _DW_LANG_RUST).tolist()
    names = {unit: _text(debug, unit, NAME) for unit in rust}
    own = {name: unit for unit, name in names.items() if not name.startswith(_STANDARD_LIBRARY)}
    tables = {int(debug.units[unit, TABLE]) for unit in own.values()}
    if any(_may_be_optimized(linked, table) for table in tables):
        crates = {name.rpartition(b"/@/")[2].partition(b".")[0].decode("utf-8", "replace") for name in own}
        if not _have_local_aliases(linked, crates):
            found.append("rustc")
    producers = {int(producer) for producer in debug.units[:, PRODUCER]}
    if any(b"-fmerge-functions" in debug.string(producer) for producer in producers):
        found.append("clang")
    return found


def merging_note(path: str, compilers: list[str]) -> list[str]:
    """Return the line about it; none if no compiler merged functions."""
    if not compilers:
        return []
    flags = ", ".join(f"{compiler} {FLAGS[compiler]}" for compiler in compilers)
    return [
        f"icf: note: {path}: {' and '.join(compilers)} may have merged equal functions, which leaves no trace: their"
        f" frames have the name of the one that was kept (compile with {flags})"
    ]


def _text(debug: DebugInfo, unit: int, column: int) -> bytes:
    return bytes(debug.string(int(debug.units[unit, column])))


def _may_be_optimized(linked: Linked, table: int) -> bool:
    """Return whether a unit's abbreviations have as many variables in location lists as in one location, or no
    variables.
    """
    abbrev = linked.image.debug.contents(".debug_abbrev")
    found = _attributes(abbrev, int(linked.debug.tables[table, 0]))
    are_lists = [form in _LISTS for attribute, form in found if attribute == _DW_AT_LOCATION]
    return 2 * sum(are_lists) >= len(are_lists)


def _attributes(abbrev: memoryview, offset: int) -> list[tuple[int, int]]:
    """Return attribute and form of all declarations of a table, as far as it can be read."""
    found = []
    position = offset

    def number() -> int:
        nonlocal position
        value = shift = 0
        while position < len(abbrev):
            byte = abbrev[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift > 63:
                break
        return value

    while number():  # the code
        number()  # the tag
        position += 1  # whether there are children
        while (pair := (number(), number())) != (0, 0):
            found.append(pair)
            if pair[1] == _DW_FORM_IMPLICIT_CONST:
                number()
    return found


def _have_local_aliases(linked: Linked, crates: set[str]) -> bool:
    """Return whether a file has several local functions of one of the crates at one address."""
    symbols, rows = linked.image.symbols, linked.bodies.symbol_rows
    rows = rows[(symbols.bind[rows] == STB_LOCAL) & (symbols.file_rows[rows] >= 0)]
    places = np.stack([symbols.value[rows], symbols.file_rows[rows].astype(np.uint64)], axis=1)
    _, group, count = np.unique(places, axis=0, return_inverse=True, return_counts=True)
    shared = np.flatnonzero(count[group.reshape(-1)] > 1)
    parts = [f"{len(crate)}{crate}" for crate in crates]
    seen: set[int] = set()
    for at, name in zip(group.reshape(-1)[shared].tolist(), symbols.names(rows[shared].tolist()), strict=True):
        if any(part in name for part in parts):
            if at in seen:
                return True
            seen.add(at)
    return False
