"""Cold parts of functions that DIEs do not describe.

A compiler moves code that seldom runs into a part with a symbol of its own, which is local. gcc (-fipa-icf) may
describe one of two equal functions only. gold folds both, and their parts, and drops the symbol of one part:

    symbols at 0x105f20        newIfdMn2  newSony2Mn2
    DIEs at 0x105f20           newIfdMn2, which has a part at 0x73749
    symbol at 0x73749          newIfdMn2.cold

newSony2Mn2 has the same code, and so the same part or one that is just like it. If no symbol is left of that, the part
of the other function may be its part, too.
"""

from __future__ import annotations

import numpy as np

from icf.aliases import kin
from icf.folds.classes import FoldFinder
from icf.sets import distinct, is_in


def find_unseen_parts(finder: FoldFinder) -> frozenset[int]:
    """Return the parts of functions with which a function shares its body that no DIE describes."""
    bodies, functions, identities = finder.bodies, finder.functions, finder.identities
    if functions is None or identities is None:
        return frozenset()
    symbols = finder.image.symbols
    rows = bodies.dwarf_rows
    is_part = functions.part[rows] > 0
    in_parts = functions.die[rows[is_part]]
    whole = ~is_part & is_in(functions.die[rows], in_parts)
    found: set[int] = set()
    for vaddr in distinct(bodies.dwarf_low[whole]).tolist():
        at = bodies.symbols_at(vaddr)
        if len(at) > 1:
            dies = functions.die[bodies.dwarf_at(vaddr)]
            described = {kin(each.linkage) for each in identities.of(dies.tolist())}
            if not described.issuperset(map(kin, symbols.names(at.tolist()))):
                found.update(bodies.dwarf_low[is_part][np.isin(in_parts, dies)].tolist())
    return frozenset(found)
