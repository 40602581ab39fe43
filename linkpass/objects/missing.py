"""What an image has and the objects given for its link have not: then one of its objects is missing.

A missing object may call any function, take its address, or have one that the linker folded without a trace. What
none of the given objects does is sure only if no object is missing. One of these parts shows a missing one:

    a function      any that has a symbol in the image
    data            a table of function pointers, say, in an object without a function
    a source file   the linker keeps its symbol, even where it folds all functions of the object
    a section       of an object, made for a function whose symbol was removed (strip --strip-unneeded)

Only the C runtime may be unknown: it folds with nothing, and takes the address of no function that does. And so may
the objects without code in which gcc's link-time optimization leaves debug information of each source file. What it
compiles refers to them by name and checksum, `main.cpp.f2e442d3` (gcc's dwarf2out.cc, `compute_comp_unit_symbol`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from icf.columns import I64, U64
from icf.elf.image import Image
from icf.elf.objectfile import ObjectFile
from icf.elf.symbols import Symbols
from icf.elf.types import SHF_EXECINSTR, SHT_PROGBITS, STB_LOCAL, STT_FILE, STT_NOTYPE, STT_OBJECT, Machine
from icf.folds.report import function_name
from icf.folds.tombstoned import is_unfolded
from icf.sets import is_in, is_one_of

# of the C runtime, as in Debian, Fedora, Arch and Alpine
_RUNTIME_DATA = frozenset("_IO_stdin_used __dso_handle __TMC_END__ __TMC_LIST__ __data_start data_start".split())
_DEBUG_UNIT = re.compile(r"(.+)\.[0-9a-f]{8}")
_NOT_IN_SYMBOLS = re.compile(r"[^A-Za-z0-9.$]")  # gcc puts _ there
_MADE = (".got", ".plt", ".iplt", ".eh_frame", ".dynamic")  # sections of linkers; mold names each slot of the GOT
_COPY = {Machine.X86_64: 5, Machine.AARCH64: 1024}  # R_*_COPY
_RUNTIME_FILES = frozenset(
    "crtstuff.c crt1.c Scrt1.c rcrt1.c abi-note.c init.c static-reloc.c start.c start.S crti.S crtn.S elf-init.c"
    " atexit.c at_quick_exit.c stat.c stat64.c fstat.c fstat64.c lstat.c lstat64.c fstatat.c fstatat64.c mknod.c"
    " mknodat.c pthread_atfork.c stack_chk_fail_local.c".split()
)


def find_missing(image: Image, objects: Sequence[ObjectFile], defined: U64) -> list[str]:
    """Return functions, data and source files that the image has and the objects have not; sorted.

    Args:
        image: the linked image.
        objects: those that were given.
        defined: hashes of the names of the functions that they define; any others do no harm.
    """
    found = {name for name in _names(image.symbols, _functions(image), defined) if not is_unfolded(name)}
    rows = _data(image)
    of_data = [defined, *(each.data_hashes for each in objects)]
    found.update(name for name in _names(image.symbols, rows, np.concatenate(of_data)) if name not in _RUNTIME_DATA)
    given = Counter(name for each in objects for name in _files(each.symbols))
    lacking = Counter(_files(image.symbols)) - given
    without_code = _files_of_debug_units(objects) if lacking else Counter[str]()
    for name, count in lacking.items():
        if name not in _RUNTIME_FILES and count > without_code[_NOT_IN_SYMBOLS.sub("_", name)]:
            found.add(f"an object of {name}")
    found.update(_nameless_sections(objects))
    return sorted(found)


def _nameless_sections(objects: Sequence[ObjectFile]) -> Iterator[str]:
    """Yield a section of each object that has code without symbols in sections for one function each."""
    for each in objects:
        sections, defined = each.sections, each.symbols.shndx[each.functions]
        is_code = (sections.flags & np.uint64(SHF_EXECINSTR) != 0) & (sections.size_bytes != 0)
        is_code[defined[defined < sections.count]] = False
        names = map(sections.name, np.flatnonzero(is_code).tolist())
        if (name := next(filter(function_name, names), None)) is not None:
            yield f"the symbol of {name} in {each.name}"


def _files_of_debug_units(objects: Sequence[ObjectFile]) -> Counter[str]:
    """Return the source files, as symbols spell them, of whose debug information none of the objects has the unit."""
    wanted, had = set[str](), set[str]()
    for each in objects:
        symbols = each.symbols
        is_unit = (symbols.type == STT_NOTYPE) & (symbols.bind != STB_LOCAL)
        wanted.update(symbols.names(np.flatnonzero(is_unit & ~symbols.is_defined).tolist()))
        had.update(symbols.names(np.flatnonzero(is_unit & symbols.is_defined).tolist()))
    return Counter(match[1] for match in map(_DEBUG_UNIT.fullmatch, wanted - had) if match)


def _functions(image: Image) -> I64:
    """Return the rows of the functions; foo$plt is none."""
    stubs = [each.index for each in image.sections if each.name.startswith(_MADE)]
    rows = image.symbols.functions
    is_typed = np.asarray(image.symbols.type[rows] != STT_NOTYPE)  # an object does not say which others are functions
    return rows[is_typed & ~is_one_of(image.symbols.shndx[rows], stubs)]


def _data(image: Image) -> I64:
    """Return the rows of the data that can hold addresses; without copies of other modules' and what linkers make."""
    stored = [each.index for each in image.sections if each.type == SHT_PROGBITS and not each.name.startswith(_MADE)]
    symbols = image.symbols
    rows = np.flatnonzero((symbols.type == STT_OBJECT) & (symbols.name_offset != 0) & is_one_of(symbols.shndx, stored))
    copies = [each.offset[each.type == _COPY[image.machine]] for each in image.loader_relocations]
    return rows[~is_in(symbols.value[rows], np.concatenate([*copies, np.empty(0, np.uint64)]))]


def _names(symbols: Symbols, rows: I64, defined: U64) -> list[str]:
    """Return the names of the symbols that are not defined."""
    hashes = symbols.hashes(rows)
    return symbols.names(rows[~is_in(hashes, defined)].tolist())


def _files(symbols: Symbols) -> Iterable[str]:
    return symbols.names(np.flatnonzero(symbols.type == STT_FILE).tolist())
