"""Cold parts that may be those of further functions, which DIEs do not describe.

A compiler moves code that seldom runs into a part with a symbol of its own, which is local. gold drops that symbol when
it folds the part, and the function may have no DIE that has its address:

    gcc (-fipa-icf) describes one of two equal functions        symbols at 0x105f20    newIfdMn2  newSony2Mn2
                                                                DIEs at 0x105f20       newIfdMn2, with a part at 0x73749
                                                                symbol at 0x73749      newIfdMn2.cold

    gcc describes no thunks, which may have all code of         symbol at 0x7c020      _ZThn8_N8Registry3addEv
    their functions                                             symbol at 0x7bfb0      _ZN8Registry3addEv
                                                                symbol at 0x1d66c      _ZN8Registry3addEv.cold

newSony2Mn2 and the thunk have parts that are just like these. So the parts of a function may be shared if its body is,
by a function without a DIE there or without any trace, or if it has a thunk of which no part is left.
"""

from __future__ import annotations

import numpy as np

from icf.aliases import base_name, same_function
from icf.columns import U64
from icf.elf.image import Image
from icf.folds.classes import FoldFinder, repeated
from icf.folds.functions import Bodies
from icf.sets import distinct, is_in
from icf.tables.pointed import thunk_target

_THUNKS = (b"_ZTh", b"_ZTv", b"_ZTc")
_COLD = ".cold"


def find_unseen_parts(image: Image, finder: FoldFinder, undescribed: frozenset[int]) -> frozenset[int]:
    """Return the cold parts that further functions may share; `undescribed`: bodies that may have further members."""
    bodies, functions, identities = finder.bodies, finder.functions, finder.identities
    if functions is None or identities is None:
        return frozenset()
    rows = bodies.dwarf_rows
    is_part = functions.part[rows] > 0
    of_parts = functions.die[rows[is_part]]
    whole = distinct(bodies.dwarf_low[~is_part & is_in(functions.die[rows], of_parts)])
    has_thunk = _functions_of_thunks(image)
    shared = [vaddr for vaddr, names in _names_at(image, bodies, whole).items() if not has_thunk.isdisjoint(names)]
    several = whole[is_in(whole, repeated(bodies.symbol_value))]
    for vaddr, names in _names_at(image, bodies, several).items():
        described = {each.linkage for each in identities.of(functions.die[bodies.dwarf_at(vaddr)].tolist())}
        if not all(any(same_function(base_name(name), linkage) for linkage in described) for name in names):
            shared.append(vaddr)
    dies = functions.die[rows[is_in(bodies.dwarf_low, np.array([*shared, *undescribed], np.uint64))]]
    return frozenset(bodies.dwarf_low[is_part][is_in(of_parts, dies)].tolist())


def _names_at(image: Image, bodies: Bodies, vaddrs: U64) -> dict[int, list[str]]:
    """Return the names of the symbols at some bodies."""
    at = np.flatnonzero(is_in(bodies.symbol_value, vaddrs))
    found: dict[int, list[str]] = {}
    names = image.symbols.names(bodies.symbol_rows[at].tolist())
    for vaddr, name in zip(bodies.symbol_value[at].tolist(), names, strict=True):
        found.setdefault(vaddr, []).append(name)
    return found


def _functions_of_thunks(image: Image) -> set[str]:
    """Return the functions of all thunks of whose parts there is no symbol."""
    symbols = image.symbols
    names = set(symbols.names(symbols.functions[symbols.begin_with(_THUNKS, symbols.functions)].tolist()))
    return {thunk_target(name) for name in names if not name.endswith(_COLD) and name + _COLD not in names}
