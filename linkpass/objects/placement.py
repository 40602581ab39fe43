"""The addresses of the objects' sections, including those of functions without a symbol in the image.

mold drops the symbol of a COMDAT function that it folds, gold that of a static one. But a function that calls it is
still there, or was folded into one that is; and where the object has a relocation the image has an address:

    object   section of f, in the image at 0x1720        call ?    relocation at +9: function g
    image    0x1729  call 0x1840                         so g is at 0x1840, whatever symbol the image has there

A relocation of a vtable or another table is as good. Each section found in this way leads to more. The search begins
with the sections that have a symbol in the image and reads each section once, so it ends. It uses a section only where
the image has its bytes, all but those that relocations fill in. Of several copies of a function it uses the one of the
first object; if the code shows that it is another's, so that the objects are not in the order of the link, it uses all
copies.

The witness is the use itself. So a section that is not found is garbage that the linker has collected, or code that was
linked but that nothing uses; neither is ever on a stack. Or something uses it without showing its address: the search
follows these uses, too, and returns the sections that are used but not found.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.columns import I64, U32, U64, Mask
from icf.elf.fields import Fields
from icf.elf.image import Image
from icf.elf.types import SHF_GNU_RETAIN, STB_LOCAL
from icf.sets import distinct, is_in, rows_with
from linkpass.objects.code import ObjectCode
from linkpass.objects.columns import NOWHERE, LinkColumns

_ARRAY_TYPES = (14, 15, 16)  # SHT_INIT_ARRAY, SHT_FINI_ARRAY, SHT_PREINIT_ARRAY


class References(NamedTuple):
    """Relocations against symbols that the image does not name, by (source, offset)."""

    source: I64  # section
    offset: I64
    type: U32
    addend: I64
    target: I64  # section of a local symbol, NOWHERE for a global one
    value: I64  # of a local symbol in its section
    key: U64  # of the symbol


class Placement:
    """The addresses of the sections and of the global symbols of a link."""

    def __init__(self, image: Image, columns: LinkColumns) -> None:
        self.columns = columns
        self.code = ObjectCode(columns.objects, columns.sections)
        self.fields = Fields(image)
        self._image = image
        self._search(columns.prevails)
        if self._is_lost.any():
            self._search(columns.copies)
            self._is_lost &= ~self._has_copy()

    def _search(self, sections: Mask) -> None:
        """Find these sections, and what they refer to."""
        columns = self.columns
        self.known = columns.bases(sections)  # address of each section by its symbols, NOWHERE if it has none
        self.base = self.known.copy()  # by references, too
        self.places: set[tuple[int, int]] = set()  # (section, address) from references to local symbols
        self.globals: set[tuple[int, int]] = set()  # (key, address) from references to global symbols
        self._references = _read_references(columns, sections, self.base)
        self._is_silent = np.zeros(len(self._references.source), np.bool_)  # it is in the image and shows no address
        self._is_lost = np.zeros(len(self.base), np.bool_)  # it is in the image, but not where it should be
        rows = np.flatnonzero(~columns.definitions.is_local & sections[columns.definitions.section])
        self._by_key = rows[np.argsort(columns.definitions.key[rows], kind="stable")]
        self._follow()

    def _follow(self) -> None:
        references = self._references
        sources = distinct(references.source)
        is_waiting = np.ones(len(references.source), np.bool_)
        while len(sources):
            is_new = self.base[sources] != NOWHERE
            new, sources = sources[is_new], sources[~is_new]
            if not len(new):
                break
            self._check(new)
            rows = np.flatnonzero(is_waiting & (self.base[references.source] != NOWHERE))
            is_waiting[rows] = False
            self._place(*self._read(rows))
        self._check(np.flatnonzero(self.columns.sections.is_code & (self.base != NOWHERE) & (self.known == NOWHERE)))
        self.base[self._is_lost] = NOWHERE

    def _place(self, rows: I64, symbols: I64) -> None:
        """Store the addresses of symbols that references show."""
        references, found = self._references, self.columns.definitions
        target, key = references.target[rows], references.key[rows]
        local, of_global = np.flatnonzero(target != NOWHERE), np.flatnonzero(target == NOWHERE)
        base = symbols[local] - references.value[rows[local]]
        self.places.update(zip(target[local].tolist(), base.tolist(), strict=True))
        self.globals.update(zip(key[of_global].tolist(), symbols[of_global].tolist(), strict=True))
        which, at = rows_with(found.key[self._by_key], key[of_global])
        definitions = self._by_key[at]
        target = np.concatenate([target[local], found.section[definitions]])
        base = np.concatenate([base, symbols[of_global][which] - found.value[definitions]])
        is_first = self.base[target] == NOWHERE
        self.base[target[is_first]] = base[is_first]
        self._is_lost[target[self.base[target] != base]] = True

    def _check(self, sections: I64) -> None:
        """Remove the addresses of sections whose bytes are not there."""
        is_there = self.code.is_at(self._image, sections, self.base[sections].view(np.uint64))
        self.base[sections[~is_there]] = NOWHERE
        self._is_lost[sections[~is_there]] = True

    def _has_copy(self) -> Mask:
        """Return whether another copy of what a section defines has been found."""
        found = self.columns.definitions
        rows = self._by_key
        placed = distinct(found.key[rows[self.base[found.section[rows]] != NOWHERE]])
        has_copy = np.zeros(len(self.base), np.bool_)
        has_copy[found.section[rows]] = True
        has_copy[found.section[rows[~is_in(found.key[rows], placed)]]] = False
        return has_copy

    def _read(self, rows: I64) -> tuple[I64, I64]:
        """Return the references that show an address, and it."""
        references = self._references
        symbols, is_known = self.fields.symbols(
            self.base[references.source[rows]] + references.offset[rows],
            references.type[rows],
            references.addend[rows],
            np.where(references.target[rows] == NOWHERE, references.key[rows].view(np.int64), references.target[rows]),
        )
        self._is_silent[rows[~is_known]] = True
        return rows[is_known], symbols[is_known]

    def missing(self) -> I64:
        """Return sections with code that are used, as far as the search can see, and have not been found."""
        references, definitions = self._references, self.columns.definitions
        is_used = self._is_lost.copy()
        is_used[self._roots()] = True
        count = -1
        while count != (count := int(is_used.sum())):
            is_followed = self._is_silent | is_used[references.source]
            targets = references.target[is_followed]
            keys = distinct(references.key[is_followed][targets == NOWHERE])
            rows = self._by_key[is_in(definitions.key[self._by_key], keys)]
            is_used[np.concatenate([targets[targets != NOWHERE], definitions.section[rows]])] = True
            is_used &= self.base == NOWHERE
        return np.flatnonzero(is_used & self.columns.sections.is_code)

    def _roots(self) -> I64:
        """Return sections without address that are linked although nothing refers to them."""
        roots = []
        sections = self.columns.sections
        candidates = np.flatnonzero(self.columns.prevails & sections.has_relocations & (self.base == NOWHERE))
        for row in candidates[~sections.is_code[candidates]].tolist():
            table, section = self.columns.objects[int(sections.object_idx[row])].sections, int(sections.section[row])
            name = table.name(section)
            if (
                int(table.type[section]) in _ARRAY_TYPES
                or int(table.flags[section]) & SHF_GNU_RETAIN
                or name.startswith((".ctors", ".dtors"))
                or name.isidentifier()  # between __start_NAME and __stop_NAME
            ):
                roots.append(row)
        return np.array(roots, np.int64)


def _read_references(columns: LinkColumns, chosen: Mask, base: I64) -> References:
    """Return all relocations in the chosen sections against symbols without a name in the image."""
    sections, found = columns.sections, columns.definitions
    # a section without address is worth finding if it is code, or can lead to code
    is_wanted = chosen & (base == NOWHERE) & (sections.is_code | sections.has_relocations)
    named = distinct(np.concatenate([found.key[columns.address != NOWHERE], columns.imported]))
    parts = []
    for object_idx in np.flatnonzero(columns.is_linked).tolist():
        object_file, keys = columns.objects[object_idx], columns.keys[object_idx]
        symbols, first_row = object_file.symbols, int(columns.first[object_idx])
        here = slice(first_row, first_row + object_file.sections.count)
        is_source = chosen[here] & sections.has_relocations[here]
        is_source[object_file.sections.named(".eh_frame")] = False
        source, entries = object_file.relocations_in(np.flatnonzero(is_source))

        is_local = symbols.bind == STB_LOCAL
        is_inside = symbols.is_defined & (symbols.shndx < object_file.sections.count)
        target = np.where(is_inside, symbols.shndx, 0).astype(np.int64)
        is_asked = np.where(is_local, is_inside & is_wanted[here][target], (keys != 0) & ~is_in(keys, named))
        is_taken = is_asked[entries["symbol"]] & (entries["offset"] < object_file.sections.size_bytes[source])
        source, entries = source[is_taken], entries[is_taken]
        symbol = entries["symbol"]
        parts.append(
            References(
                source + first_row,
                entries["offset"].astype(np.int64),
                entries["type"],
                entries["addend"],
                np.where(is_local[symbol], target[symbol] + first_row, NOWHERE),
                symbols.value[symbol].view(np.int64),
                keys[symbol],
            )
        )
    references = References(*map(np.concatenate, zip(*parts, strict=True)))
    order = np.lexsort((references.offset, references.source))
    return References._make(column[order] for column in references)
