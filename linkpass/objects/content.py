"""Functions of the objects found by their contents, where no reference has led to them.

A section is where its bytes are; and if a relocation of it names a symbol whose address is known, the image has to
have that address there. Several places may be left for one section. Nothing shows which is right, so it counts for
all of them: a superfluous candidate makes an answer ambiguous, a missing one would make it wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import I64, U32, Mask
from icf.elf.image import Image
from icf.elf.types import STB_LOCAL
from icf.sets import distinct, distinct_pairs, is_in, rows_of_runs, rows_with, runs
from linkpass.objects.columns import NOWHERE
from linkpass.objects.placement import Placement

_ROWS = 1 << 20  # relocations at a time
_SYMBOL_BITS = 32


def possible_places(image: Image, placement: Placement, sections: I64) -> list[tuple[int, int]]:
    """Return the (section, address) pairs that no evidence contradicts."""
    if not len(sections):
        return []
    sections, bases = _of_equal_size(image, placement, sections)
    is_there = placement.code.is_at(image, sections, bases.view(np.uint64))
    sections, bases = sections[is_there], bases[is_there]
    if not len(sections):
        return []
    fits = ~_Targets(placement, sections).contradict(sections, bases)
    return list(zip(sections[fits].tolist(), bases[fits].tolist(), strict=True))


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


class _Relocations(NamedTuple):
    """Relocations of sections, in the order of the code."""

    offset: I64
    type: U32
    addend: I64
    symbol: I64
    wanted: I64  # the address of the symbol, NOWHERE if it is not known


class _Targets:
    """The targets of the relocations of some sections, as far as their addresses are known."""

    def __init__(self, placement: Placement, sections: I64) -> None:
        self._placement = placement
        columns = placement.columns
        found, base = columns.definitions, placement.base[columns.definitions.section]
        address = np.where((columns.address == NOWHERE) & (base != NOWHERE), base + found.value, columns.address)
        rows = np.flatnonzero(~found.is_local & (address != NOWHERE))
        self._keys, first = np.unique(found.key[rows], return_index=True)
        self._addresses = address[rows[first]]
        self._functions = distinct(columns.address[found.is_function].view(np.uint64))
        self._sections = distinct(sections.view(np.uint64)).view(np.int64)
        relocations = [self._read(section) for section in self._sections.tolist()]
        self._counts = np.array([len(each.offset) for each in relocations], np.int64)
        self._firsts = np.cumsum(self._counts) - self._counts
        self._all = _Relocations(*map(np.concatenate, zip(*relocations, strict=True)))

    def contradict(self, sections: I64, bases: I64) -> Mask:
        """Return whether code at an address refers to another function than the section does."""
        found = np.zeros(len(sections), np.bool_)
        at = np.searchsorted(self._sections, sections)
        parts = np.cumsum(self._counts[at]) // _ROWS
        for first, end in zip(*(column.tolist() for column in runs(parts)[1:]), strict=True):
            pair, row = rows_of_runs(self._firsts[at[first:end]], self._counts[at[first:end]])
            found[first + pair[self._differ(bases[first:end][pair], row, pair)]] = True
        return found

    def _differ(self, bases: I64, rows: I64, copies: I64) -> Mask:
        """Return which relocations say another target than the image has if their section is at a base."""
        known, wanted = self._all, self._all.wanted[rows]
        targets = known.symbol[rows] + (copies << _SYMBOL_BITS)
        vaddrs = bases + known.offset[rows]
        actual, is_known = self._placement.fields.symbols(vaddrs, known.type[rows], known.addend[rows], targets)
        # an address without a function of the objects may be a stub
        is_known &= (wanted != NOWHERE) & is_in(actual.view(np.uint64), self._functions)
        return np.asarray(is_known & (actual != wanted))

    def _read(self, section: int) -> _Relocations:
        columns = self._placement.columns
        object_idx = int(columns.sections.object_idx[section])
        entries = columns.objects[object_idx].relocations_of(int(columns.sections.section[section]))
        entries = entries[np.argsort(entries["offset"], kind="stable")]
        symbol = entries["symbol"].astype(np.int64)
        wanted = self._expected(object_idx, symbol)
        return _Relocations(entries["offset"].astype(np.int64), entries["type"], entries["addend"], symbol, wanted)

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
