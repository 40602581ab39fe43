"""`.debug_dcall` as a compiler would have written it, made from the DW_TAG_call_site entries of a linked image.

A compiler that writes the table has one entry for each direct call, in the order of the code, in a contribution for
each unit; the linker then fills in the call sites, or overwrites them where a function was folded. The call sites of
debug information went the same way, so the same bytes come out of them. GCC 4.5 wrote the caller before the
first call of each function, too.
"""

from __future__ import annotations

import os
from pathlib import Path

from icf.dwarf.columns import AT_INSTRUCTION, NO_CALLER, OFFSET, TAIL_CALL
from icf.dwarf.opening import open_debug
from icf.dwarf.scan import scan_functions
from icf.elf.image import Image
from icf.tables.callunit import Dialect, unit_header
from linkpass.rewrite.edits import SectionEdit
from linkpass.rewrite.sections import rewrite
from tests.support.line_tables import uleb


def compiler_table(path: Path, dialect: Dialect, *, dwarf64: bool = False, address_size: int = 8) -> bytes:
    """The table of the image at `path`."""
    offset_size = 8 if dwarf64 else 4
    site_size = offset_size if dialect is Dialect.GCC else address_size
    with Image.open(path) as image:
        debug = open_debug(image, restore=False)
        sites = scan_functions(debug).sites
        caller_units = debug.unit_of(sites.caller)
        entries: dict[int, bytearray] = {}
        last_caller: dict[int, int] = {}
        columns = (sites.pc, sites.origin, sites.caller, sites.flags, caller_units, debug.unit_of(sites.origin))
        for pc, origin, caller, flags, unit, origin_unit in zip(*(c.tolist() for c in columns), strict=True):
            if flags & (TAIL_CALL | AT_INSTRUCTION | NO_CALLER) or unit != origin_unit:
                continue
            start = int(debug.units[unit, OFFSET])
            run = entries.setdefault(unit, bytearray())
            if dialect is Dialect.GCC and last_caller.get(unit) != caller:
                run += bytes(site_size) + uleb(caller - start)
                last_caller[unit] = caller
            run += pc.to_bytes(site_size, "little") + uleb(origin - start)
        return b"".join(
            unit_header(dialect, offset_size, address_size, int(debug.units[unit, OFFSET]), len(run)) + run
            for unit, run in sorted(entries.items())
        )


def install(path: Path, table: bytes, out: Path) -> Path:
    """A copy of the image at `out` that has this table and none of ours."""
    with Image.open(path) as image:
        ours = [name for name in (".debug_icf", ".debug_dcall") if image.named(name) is not None]
        rewrite(image, out, [], [], ours)
    with Image.open(out) as image:
        rewrite(image, os.fspath(out), [SectionEdit(".debug_dcall", table)])
    return out
