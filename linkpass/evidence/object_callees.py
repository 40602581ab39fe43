"""Which members of merged bodies the relocations of calls in objects mean.

    the relocation's symbol                 names of its callee
    has external linkage, or is undefined   its own
    section, or has internal linkage        of all functions at the place, with the source file of the object

Thousands of relocations are asked about together: hashes of these names are looked up among those of the members of
their targets. Texts are read only for what is found nowhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.aliases import REAL, same_function
from icf.columns import I64, U64, Mask
from icf.elf.types import SHN_UNDEF, STB_LOCAL, Machine
from icf.folds.member_columns import MemberColumns
from icf.pairs import PairIndex
from icf.sets import distinct, in_order_met, runs
from icf.strings import hash_names
from linkpass.evidence.callees import NONE, SEVERAL
from linkpass.evidence.learned_members import learn_members
from linkpass.linked import Linked
from linkpass.objects.code import Relocations
from linkpass.objects.functions import LinkObjects
from linkpass.objects.member_names import names_in_objects


class _Called(NamedTuple):
    """What relocations of calls refer to, a row each."""

    object_idx: I64
    symbol: I64
    section: I64  # of the symbol
    offset: I64  # of the callee in that section
    is_local: Mask  # whether the symbol has internal linkage
    has_name: Mask  # whether the symbol's name is the callee's
    name_hash: U64

    @classmethod
    def by(cls, relocations: Relocations, objects: LinkObjects, bias: int) -> _Called:
        """Read the symbols of relocations; `bias` is the distance from a call's operand to its end."""
        count = len(relocations.symbol)
        section, value = np.empty((2, count), np.int64)
        is_local, name_hash = np.empty(count, np.bool_), np.empty(count, np.uint64)
        order = np.argsort(relocations.object_idx, kind="stable")
        for object_idx, first, end in zip(*map(np.ndarray.tolist, runs(relocations.object_idx[order])), strict=True):
            rows = order[first:end]
            symbol, symbols = relocations.symbol[rows], objects.objects[object_idx].symbols
            section[rows], value[rows] = symbols.shndx[symbol], symbols.value[symbol].view(np.int64)
            is_local[rows], name_hash[rows] = symbols.bind[symbol] == STB_LOCAL, symbols.hashes(symbol)
            real = np.flatnonzero(symbols.begin_with((REAL.encode(),), symbol))
            name_hash[rows[real]] = hash_names([name.removeprefix(REAL) for name in symbols.names(symbol[real])])
        distance = relocations.addend + bias
        has_name = (distance == 0) & (~is_local | (section == SHN_UNDEF))
        columns = section, value + distance, is_local, has_name, name_hash
        return cls(relocations.object_idx, relocations.symbol, *columns)

    def names(self, objects: LinkObjects) -> tuple[I64, U64, I64]:
        """Return for each name of a callee its row, its hash, and the object that a local function is in, or -1."""
        named = np.flatnonzero(self.has_name)
        placed = np.flatnonzero(~self.has_name & (self.section != SHN_UNDEF))
        place, function = objects.functions_at(self.object_idx[placed], self.section[placed], self.offset[placed])
        placed = placed[place]
        object_idx = np.where(self.is_local[placed], self.object_idx[placed], -1)
        return (
            np.concatenate([named, placed]),
            np.concatenate([self.name_hash[named], objects.functions.name_hash[function]]),
            np.concatenate([np.full(len(named), -1), object_idx]),
        )

    def texts(self, row: int, objects: LinkObjects) -> tuple[list[str], list[str], str]:
        """Return the names of one callee, names that its constructor or destructor has besides, and the source file of
        a local one.
        """
        object_idx, section = int(self.object_idx[row]), int(self.section[row])
        object_file, symbol = objects.objects[object_idx], int(self.symbol[row])
        called = object_file.symbols.name(symbol)
        alike = objects.names_at(object_idx, section, int(object_file.symbols.value[symbol]))
        names = [called] if self.has_name[row] else []
        if not names and section != SHN_UNDEF:
            names = objects.names_at(object_idx, section, int(self.offset[row]))
        file = object_file.source_file if self.is_local[row] and not self.has_name[row] else ""
        return names, [name for name in alike if same_function(name, called)], file


class ObjectCallees:
    """Finds members of some merged bodies."""

    def __init__(self, linked: Linked, objects: LinkObjects, targets: U64) -> None:
        """Take all bodies that will be asked about."""
        self._linked, self._objects, self._targets = linked, objects, distinct(targets)
        self._bias = 0 if linked.image.machine is Machine.AARCH64 else 4  # from a call's operand to its end
        folds = [linked.folds[vaddr] for vaddr in self._targets.tolist()]
        self._columns = MemberColumns([fold.members for fold in folds])
        body = np.repeat(np.arange(len(folds)), np.diff(self._columns.start))
        self._row, name_hash = names_in_objects(self._columns, linked.image.symbols)
        self._index = PairIndex(self._targets[body[self._row]], name_hash)

    def members_beside(self, functions: I64, distances: I64, targets: U64) -> I64:
        """Return the member of its target that lies at this distance from each function, in its section.

        It is NONE or SEVERAL if that is not known.
        """
        of = self._objects.functions
        object_idx, offset = of.object_idx[functions], of.offset[functions].astype(np.int64) + distances
        pair, found = self._objects.functions_at(object_idx, of.section[functions], offset)
        return self._members(targets, pair, of.name_hash[found], object_idx[pair])

    def members_of(self, relocations: Relocations, targets: U64, may_learn: Mask) -> I64:
        """Return the member of its target that each relocation means, NONE or SEVERAL if that is not known.

        `may_learn`: its function calls the target for certain, so what the image does not name becomes a member.
        """
        columns = relocations.object_idx, relocations.symbol, relocations.addend, targets.view(np.int64)
        first, number = in_order_met(np.stack(columns, axis=1))
        called = _Called.by(relocations.rows(first), self._objects, self._bias)
        found = self._members(targets[first], *called.names(self._objects))
        learns = np.bincount(number, may_learn, len(first)) > 0
        for at in np.flatnonzero((found == NONE) & learns).tolist():
            found[at] = self._learn(called, at, int(targets[first[at]]))
        return found[number]

    def _members(self, targets: U64, asked: I64, name_hash: U64, object_idx: I64) -> I64:
        """Return the member of each target that has one of the names that are given for it, NONE or SEVERAL.

        Args:
            targets: a body for each member that is looked for.
            asked: for each name the index of that.
            name_hash: of each name.
            object_idx: the object of a name: local members from another file are not meant. -1: any.
        """
        name, at = self._index.rows(targets[asked], name_hash)
        row = self._row[at]
        name, row = name[is_meant := self._may_be_of(row, object_idx[name])], row[is_meant]
        lowest, highest = np.full(len(targets), len(self._columns)), np.full(len(targets), NONE)
        np.minimum.at(lowest, asked[name], row)
        np.maximum.at(highest, asked[name], row)
        members = highest - self._columns.start[np.searchsorted(self._targets, targets)]
        return np.where(highest == NONE, NONE, np.where(lowest == highest, members, SEVERAL))

    def _may_be_of(self, rows: I64, object_idx: I64) -> Mask:
        """Return which members may stem from the source file of an object."""
        may_be = np.ones(len(rows), np.bool_)
        in_file = np.flatnonzero(object_idx >= 0)
        files = self._columns.files_at(distinct(rows[in_file]))
        for at, row, idx in zip(
            *(each.tolist() for each in (in_file, rows[in_file], object_idx[in_file])), strict=True
        ):
            file, own = self._objects.objects[idx].source_file, files.get(row)
            may_be[at] = not file or not own or file in own
        return may_be

    def _learn(self, called: _Called, row: int, target: int) -> int:
        """Return the member that a callee means which the image does not name; it may become a new one."""
        names, alike, file = called.texts(row, self._objects)
        if not names:
            return NONE
        found = self._named(target, names, file) or self._named(target, alike, file)
        if not found:
            found = learn_members(self._linked.folds[target], names, file)
            self._linked.note_learned(target)
        return found[0] if len(found) == 1 else SEVERAL

    def _named(self, target: int, names: list[str], file: str) -> list[int]:
        """Return members with one of these names; with a file, local ones that may stem from it."""
        members, by_name = self._linked.folds[target].members, self._linked.members_by_name(target)
        found = sorted({idx for name in names if name for idx in by_name.get(name, ())})
        return [idx for idx in found if not file or not members.files_of(idx) or file in members.files_of(idx)]
