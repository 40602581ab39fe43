"""Functions of the objects found by their contents, where no reference has led to them.

A section is where its bytes are; and if a relocation of it names a symbol whose address is known, the image has to
have that address there. Several places may be left for one section. Nothing shows which is right, so it counts for
all of them: a superfluous candidate makes an answer ambiguous, a missing one would make it wrong.
"""

from __future__ import annotations

import numpy as np

from icf.columns import I64
from icf.elf.image import Image
from icf.elf.types import STB_LOCAL
from icf.sets import distinct, distinct_pairs, is_in, rows_with
from linkpass.objects.columns import NOWHERE
from linkpass.objects.placement import Placement


def possible_places(image: Image, placement: Placement, sections: I64) -> list[tuple[int, int]]:
    """Return the (section, address) pairs that no evidence contradicts."""
    if not len(sections):
        return []
    sections, bases = _of_equal_size(image, placement, sections)
    is_there = placement.code.is_at(image, sections, bases.view(np.uint64))
    pairs = zip(sections[is_there].tolist(), bases[is_there].tolist(), strict=True)
    targets = _Targets(placement)
    return [(section, base) for section, base in pairs if not targets.contradict(section, base)]


def _of_equal_size(image: Image, placement: Placement, sections: I64) -> tuple[I64, I64]:
    """Return, for each section, the addresses of its first function wherever the image has one of equal size."""
    columns = placement.columns
    found = columns.definitions
    rows = np.flatnonzero(found.is_function & is_in(found.section, sections))
    sections, first = np.unique(found.section[rows], return_index=True)
    rows = rows[first]
    owners, symbols = columns.sections.object_idx[sections].tolist(), found.symbol[rows].tolist()
    first_functions = zip(owners, symbols, strict=True)
    sizes = np.array([columns.objects[at].symbols.size_bytes[row] for at, row in first_functions], np.uint64)
    bodies = image.symbols.functions
    body_sizes = image.symbols.size_bytes[bodies]
    order = np.argsort(body_sizes, kind="stable")
    body_sizes, body_vaddrs = body_sizes[order], image.symbols.value[bodies[order]].view(np.int64)
    which, chosen = rows_with(body_sizes, sizes)
    return distinct_pairs(sections[which], body_vaddrs[chosen] - found.value[rows][which])


class _Targets:
    """The targets of relocations, as far as their addresses are known."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        columns = placement.columns
        found, base = columns.definitions, placement.base[columns.definitions.section]
        address = np.where((columns.address == NOWHERE) & (base != NOWHERE), base + found.value, columns.address)
        rows = np.flatnonzero(~found.is_local & (address != NOWHERE))
        self._keys, first = np.unique(found.key[rows], return_index=True)
        self._addresses = address[rows[first]]
        self._functions = distinct(columns.address[found.is_function].view(np.uint64))

    def contradict(self, section: int, base: int) -> bool:
        """Return whether code at an address refers to another function than the section does."""
        columns = self._placement.columns
        object_idx = int(columns.sections.object_idx[section])
        entries = columns.objects[object_idx].relocations_of(int(columns.sections.section[section]))
        entries = entries[np.argsort(entries["offset"], kind="stable")]
        symbol = entries["symbol"].astype(np.int64)
        wanted = self._expected(object_idx, symbol)
        vaddrs = base + entries["offset"].astype(np.int64)
        actual, is_known = self._placement.fields.symbols(vaddrs, entries["type"], entries["addend"], symbol)
        # an address without a function of the objects may be a stub
        is_known &= (wanted != NOWHERE) & is_in(actual.view(np.uint64), self._functions)
        return bool((is_known & (actual != wanted)).any())

    def _expected(self, object_idx: int, symbol: I64) -> I64:
        """Return the address of each symbol of an object, NOWHERE if it is not known."""
        columns = self._placement.columns
        symbols = columns.objects[object_idx].symbols
        is_inside = symbols.is_defined[symbol] & (symbols.shndx[symbol] < columns.objects[object_idx].sections.count)
        base = self._placement.base[np.where(is_inside, symbols.shndx[symbol], 0) + columns.first[object_idx]]
        local = np.where(is_inside & (base != NOWHERE), base + symbols.value[symbol].view(np.int64), NOWHERE)
        keys = columns.keys[object_idx][symbol]
        of_global = np.full(len(symbol), NOWHERE, np.int64)
        known = np.flatnonzero(is_in(keys, self._keys))
        of_global[known] = self._addresses[np.searchsorted(self._keys, keys[known])]
        return np.where(symbols.bind[symbol] == STB_LOCAL, local, of_global)
