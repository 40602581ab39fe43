"""Build a symcache: an image, its tables and its debug information become the sections of the file.

bodies      which functions there are, and the members of each body (`unwind.symcache.builder.bodies`)
claims      for each member of each body its DIE (`unwind.symcache.builder.claims`)
groups      some units at a time: inlined calls of their functions, line sequences (`unwind.symcache.builder.groups`)
payloads    of a group, by a pool of threads: trees and lines of its functions, encoded
sections    the payloads of each body, and the columns that find them (`unwind.symcache.builder.sections`)
"""

from __future__ import annotations

from collections.abc import Collection

from icf.dwarf.inlines import scan_functions
from icf.dwarf.opening import open_debug
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from icf.errors import IcfError
from icf.heap import trim_heap
from icf.log import warn
from icf.model import FoldClass
from unwind.symcache.builder.bodies import bodies_at, find_bodies
from unwind.symcache.builder.claims import find_claims
from unwind.symcache.builder.losing import Losing
from unwind.symcache.builder.names import Names
from unwind.symcache.builder.payloads import encode_payloads
from unwind.symcache.builder.sections import make_sections, number_members
from unwind.symcache.builder.selfcheck import check_sections
from unwind.symcache.format.container import SectionBytes


def build_sections(
    image: Image, wanted: Collection[int] | None = None, classes: list[FoldClass] | None = None
) -> dict[str, SectionBytes]:
    """Return the sections that `SymCache` reads; with `wanted` only the bodies that hold these addresses.

    `classes`: the fold classes of the image; None: those of its tables.

    Of debug information that cannot be read nothing is in them: `FormatError` is for a broken image.
    """
    debug = _open_debug(image)
    scan = scan_functions(debug) if debug is not None else None
    losing = Losing(image, debug, scan) if debug is not None and scan is not None else None
    bodies = find_bodies(image, scan.function_ranges if scan is not None else None, classes, losing)
    nowhere: list[int] = []
    if wanted is not None:
        bodies, nowhere = bodies_at(bodies, sorted(set(wanted)))
    trim = trim_heap if debug is not None and debug.is_large else lambda: None
    trim()
    names = Names(image, debug)
    claims = find_claims(image, debug, scan, bodies, names)
    is_complete, bodies = bodies.is_complete, bodies._replace(folds={})  # from here on the claims have their members
    if debug is not None and debug.is_large:
        image.forget_symbols()
    trim()
    encoded = encode_payloads(image, debug, scan, bodies, claims, names)
    trim()
    members = number_members(claims, names, len(bodies.start))
    names.forget_sources()
    del debug, scan, claims
    trim()
    sections = make_sections(bodies, is_complete, members, encoded, names, nowhere)
    check_sections(sections, image.path)
    trim()
    return sections


def _open_debug(image: Image) -> DebugInfo | None:
    if image.debug.section(".debug_info") is None:
        return None
    try:
        return open_debug(image, inlines=True)
    except IcfError as error:
        if error.hint:  # there is a way to read it
            warn(f"{error}: lines are not known", error.hint)
        return None
