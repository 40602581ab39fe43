"""Which vtables hold functions with external linkage only: those of classes that no file has for itself."""

from __future__ import annotations

import numpy as np

from icf.columns import U64, Mask
from icf.elf.image import Image
from icf.elf.types import STB_LOCAL
from icf.vtables.layout import Vtables


def are_external_slots(image: Image, vtables: Vtables, places: U64) -> Mask:
    """Return which words are slots of a vtable whose class, and all of whose bases, have external linkage."""
    groups = vtables.groups
    classes = vtables.classes
    rows = np.arange(len(classes))
    is_open = ~(classes.is_import | classes.knows_bases) | classes.is_local
    derived, base = classes.bases_of(rows)
    while not is_open[found := derived[is_open[base]]].all():
        is_open[found] = True
    always_local = (image.symbols.bind == STB_LOCAL) & (image.symbols.visibility == 0)
    external = (groups.typeinfo != 0) & groups.is_alone & ~always_local[groups.symbol]
    external &= ~is_open[vtables.classes_of(np.arange(len(groups.start)))]
    at = np.searchsorted(groups.start, vtables.at(places))
    is_slot = vtables.at(places) != 0
    return np.asarray(is_slot & (external[np.minimum(at, max(len(external) - 1, 0))] if len(external) else is_slot))
