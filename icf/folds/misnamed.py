"""Bodies whose one symbol is of another function than the DIE there: the linker dropped the one that would fit.

    symbol at A    _ZL6hiddenv, of an object without debug information, or with line tables alone
    DIE at A       <_ZL4seenv>, whose symbol gold has dropped, or whose name another definition has won

A DIE of a global function whose name no symbol has is of the symbol, which a tool renamed after the compiler
(`objcopy --redefine-sym`): linkers do not drop symbols of global functions.
"""

from __future__ import annotations

import numpy as np

from icf.columns import U64
from icf.dwarf.columns import LANGUAGE
from icf.dwarf.constants import DW_LANG_C_names
from icf.dwarf.scan import Functions
from icf.elf.image import Image
from icf.folds.functions import Bodies
from icf.folds.identity import Identities
from icf.sets import distinct, is_in, is_one_of


def find_misnamed(image: Image, bodies: Bodies, functions: Functions, identities: Identities) -> U64:
    """Return the bodies with one symbol, and a DIE of a function that has another linkage name."""
    first = np.searchsorted(bodies.symbol_value, bodies.dwarf_low)
    is_one = np.searchsorted(bodies.symbol_value, bodies.dwarf_low, side="right") - first == 1
    is_one &= functions.part[bodies.dwarf_rows] == 0
    symbols, vaddrs, die = first[is_one], bodies.dwarf_low[is_one], functions.die[bodies.dwarf_rows[is_one]]
    described, which = np.unique(die, return_inverse=True)
    known, debug = identities.columns(described), identities.debug
    kin = image.symbols.hashes(bodies.symbol_rows, of_kin=True)
    is_c = is_one_of(debug.units[debug.unit_of(described), LANGUAGE], DW_LANG_C_names)
    is_named = ((known.linkage_name != 0) | is_c) & (known.kin_hash != 0)
    is_dropped = ~known.external | is_in(known.kin_hash, np.sort(kin))
    is_other = (is_named & is_dropped)[which] & (known.kin_hash[which] != kin[symbols])
    return distinct(vaddrs[is_other])
