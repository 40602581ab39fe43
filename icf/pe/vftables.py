"""Where the vftables of a PE image are: the public symbols `??_7` of its PDB, or its COFF symbols (Microsoft ABI).

    ??_7Book@@6B@          const Book::`vftable'
    ??_7Both@@6BRight@@@   const Both::`vftable'{for `Right'}

Such a symbol is where an object points to. The word before it points to the RTTI, if there is any. A vftable of a class
in an unnamed namespace has no public symbol, but a COFF symbol. The linker may have folded equal ones, so several can
be at one address.
"""

from __future__ import annotations

import numpy as np

from icf.pdb import columns as col
from icf.pdb.file import NOWHERE
from icf.pe.image import PeImage

VFTABLE = "??_7"


def find_vftables(image: PeImage) -> dict[str, set[int]]:
    """Return the addresses of vftables by linkage name; none without a PDB or DWARF. Raise FormatError if damaged."""
    found: dict[str, set[int]] = {}
    if image.dwarf is not None:
        symbols = image.dwarf.symbols
        rows = np.flatnonzero(symbols.is_defined)
        rows = rows[symbols.holds(VFTABLE.encode(), rows)]
        for vaddr, name in zip(symbols.value[rows].tolist(), symbols.names(rows), strict=True):
            if name.startswith(VFTABLE):
                found.setdefault(name, set()).add(vaddr)
        return found
    if image.pdb is None:
        return found
    columns = image.pdb.publics
    rvas = image.pdb.rvas(columns[:, col.U_SEGMENT], columns[:, col.U_ADDRESS])
    rows = np.flatnonzero(rvas != NOWHERE)
    for rva, name in zip(rvas[rows].tolist(), image.pdb.public_names(rows), strict=True):
        if name.startswith(VFTABLE):
            found.setdefault(name, set()).add(image.base + rva)
    return found


def vftable_names(image: PeImage) -> dict[int, str]:
    """Return the first name of the vftable at each address."""
    found: dict[int, str] = {}
    for name, vaddrs in sorted(find_vftables(image).items()):
        for vaddr in vaddrs:
            found.setdefault(vaddr, name)
    return found
