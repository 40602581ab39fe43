"""Open the debug information of one image: its sections, units and compiled abbreviations.

    with Image.open(path) as image:
        debug = open_debug(image)
        scan = scan_functions(debug)            # icf.dwarf.scan: bulk, threads
        dies = read_dies(debug, offsets)        # icf.dwarf.dies: by offset

Opening reads the unit headers and compiles the abbreviations; no DIE is touched. lld and mold overwrite
the addresses of folded functions with a tombstone. Where the image still has the relocations of its
debug sections (`lld --emit-relocs`) the true addresses are put back into what is read (`icf.dwarf.restored`).

`.debug_info` and `.debug_str`, the largest sections, stay in the file: units and strings are read when they are needed.
"""

from __future__ import annotations

from icf.columns import U64
from icf.contents import Contents
from icf.dwarf import columns as col
from icf.dwarf.restored import find_restored
from icf.dwarf.units import DebugInfo, compile_abbreviations, read_unit_headers, section_of_parts
from icf.elf.image import Image
from icf.heap import share_heap

_KEPT_INFO_BYTES = 256 << 20  # if .debug_info is no larger, a pass keeps it, as it reads it more than ten times
_ADDRESS_SECTIONS = (".debug_addr", ".debug_rnglists", ".debug_ranges")


def open_debug(image: Image, *, restore: bool = True, inlines: bool = False, locations: bool = False) -> DebugInfo:
    """Read the unit headers and abbreviations of an image; with `restore`, undo tombstones where relocations allow it.

    `inlines`: for `icf.dwarf.inlines`; every other scan takes a third longer then. `locations`: for
    `icf.dwarf.locations`, which needs further sections.
    """
    file = image.debug
    sections: dict[str, Contents] = {}
    restored: dict[str, U64] = {}
    info = file.streamed(".debug_info") if inlines else file.unkept(".debug_info", above_bytes=_KEPT_INFO_BYTES)
    is_large = info.in_memory is None
    if is_large:
        share_heap()
        info = Contents(file.contents(".debug_info")) if locations else info
    words = find_restored(file, ".debug_info", info) if restore else None
    if words is not None:
        info, restored[".debug_info"] = info.edited(words.put), words.offset
        info = info if is_large else Contents(info[:])
    for name in _ADDRESS_SECTIONS:
        sections[name] = section_of_parts(file, name, is_large)
        words = find_restored(file, name, sections[name]) if restore else None
        if words is not None:
            copy, restored[name] = file.private_copy(name), words.offset
            words.put(copy, 0)
            sections[name] = Contents(copy)
    units = read_unit_headers(info)
    abbrev_offsets = units[:, col.TABLE].copy()
    abbrev = file.contents(".debug_abbrev")
    tables, decls, ops, consts = compile_abbreviations(abbrev, units, inlines)
    debug = DebugInfo(
        path=file.path,
        info=info,
        addr=sections[".debug_addr"],
        str_=file.streamed(".debug_str"),
        line_str=file.contents(".debug_line_str"),
        str_offsets=section_of_parts(file, ".debug_str_offsets", is_large),
        ranges=sections[".debug_ranges"][:],
        rnglists=sections[".debug_rnglists"],
        units=units,
        tables=tables,
        decls=decls,
        ops=ops,
        consts=consts,
        restored=restored,
        is_large=is_large,
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
