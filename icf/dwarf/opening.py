"""Open the debug information of one image: its sections, units and compiled abbreviations.

    with Image.open(path) as image:
        debug = open_debug(image)
        scan = scan_functions(debug)            # icf.dwarf.scan: bulk, threads
        dies = read_dies(debug, offsets)        # icf.dwarf.dies: by offset

Opening reads the unit headers and compiles the abbreviations; no DIE is touched. lld and mold overwrite
the addresses of folded functions with a tombstone. Where the image still has the relocations of its
debug sections (`lld --emit-relocs`) the true addresses are put back, on private pages.
"""

from __future__ import annotations

import numpy as np

from icf.columns import U64
from icf.dwarf import columns as col
from icf.dwarf._tombstones import patch_tombstones
from icf.dwarf.units import DebugInfo, compile_abbreviations, read_unit_headers
from icf.elf.image import Image
from icf.elf.types import Machine

_ABSOLUTE64 = {Machine.X86_64: 1, Machine.AARCH64: 257}
_RESTORE_ROWS = 1 << 19  # relocations read at a time, 12 MB
_ADDRESS_SECTIONS = (".debug_info", ".debug_addr", ".debug_rnglists", ".debug_ranges")


def open_debug(image: Image, *, restore: bool = True, inlines: bool = False, locations: bool = False) -> DebugInfo:
    """Read the unit headers and abbreviations of an image; with `restore`, undo tombstones where relocations allow it.

    `inlines`: for `icf.dwarf.inlines`; every other scan takes a third longer then. `locations`: for
    `icf.dwarf.locations`, which needs further sections.
    """
    file = image.debug
    views: dict[str, memoryview] = {}
    restored: dict[str, U64] = {}
    for name in _ADDRESS_SECTIONS:
        view = _restore_addresses(file, name, restored) if restore else None
        views[name] = file.contents(name) if view is None else view
    info = views[".debug_info"]
    units = read_unit_headers(info)
    abbrev_offsets = units[:, col.TABLE].copy()
    abbrev = file.contents(".debug_abbrev")
    tables, decls, ops, consts = compile_abbreviations(abbrev, units, inlines)
    debug = DebugInfo(
        path=file.path,
        info=info,
        addr=views[".debug_addr"],
        str_=file.contents(".debug_str"),
        line_str=file.contents(".debug_line_str"),
        str_offsets=file.contents(".debug_str_offsets"),
        ranges=views[".debug_ranges"],
        rnglists=views[".debug_rnglists"],
        units=units,
        tables=tables,
        decls=decls,
        ops=ops,
        consts=consts,
        restored=restored,
        own_unit_count=len(units),
        abbrev=abbrev,
        loc=file.contents(".debug_loc") if locations else memoryview(b""),
        loclists=file.contents(".debug_loclists") if locations else memoryview(b""),
        has_locations=locations,
        has_inlines=inlines,
    )
    debug.read_unit_dies()
    is_split = (units[:, col.FLAGS] & col.IS_SPLIT).any()
    if is_split or any(file.named(name) for name in (".gnu_debugaltlink", ".debug_sup")):
        from icf.dwarf.parts import add_parts

        add_parts(debug, image, abbrev_offsets)
    return debug


def _restore_addresses(image: Image, name: str, restored: dict[str, U64]) -> memoryview | None:
    """Return one section patched by its relocations; None if there is nothing to patch.

    Relocations are read a piece at a time: there may be more of them than of anything else.
    """
    relocations = image.relocations(".rela" + name)
    section, rela = image.section(name), image.section(".rela" + name)
    if relocations is None or section is None or rela is None or relocations.count == 0:
        return None
    if not image.contents_size_bytes(section):
        return None
    is_compressed = image.is_compressed(rela)
    raw, base = (image.contents(rela), 0) if is_compressed else (image.data, image.extent(rela)[0])
    view = image.private_copy(section)
    values = np.ascontiguousarray(relocations.symbols.value, np.uint64)
    room = np.empty(_RESTORE_ROWS, np.uint64)
    found = []
    for first in range(0, relocations.count, _RESTORE_ROWS):
        start, end = base + first * 24, base + min(first + _RESTORE_ROWS, relocations.count) * 24
        entries = np.frombuffer(raw[start:end], np.uint64).reshape(-1, 3)
        count = patch_tombstones(view, entries.data, _ABSOLUTE64[image.machine], values.data, room.data)
        found.append(room[:count].copy())
        if not is_compressed:
            del entries
            image.release(start, end)
    offsets = np.sort(np.concatenate(found))
    if not len(offsets):
        return None
    restored[name] = offsets
    return view
