"""A linked image before its calls are read: bodies, their members, and the way from symbols and DIEs to members.

A *place* names a member: (address of the body, index of the member). A body that is not merged has one
member, index 0, found on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icf.columns import I64, U32, U64
from icf.dwarf.scan import CallSites, Functions
from icf.dwarf.units import DebugInfo
from icf.dwarf.virtual import VirtualDies
from icf.elf.image import Image
from icf.elf.types import STB_GLOBAL, STT_GNU_IFUNC
from icf.folds.body_members import Members
from icf.folds.classes import Fold, FoldFinder
from icf.folds.functions import Bodies
from icf.folds.member import FoldMember
from icf.folds.member_columns import MemberColumns
from icf.folds.reported import Reported, read_report
from icf.folds.unseen import find_undescribed
from icf.pairs import PairIndex
from icf.sets import difference, is_in
from linkpass.pointer_jumps import PointerJumps
from linkpass.scanning import Scanning, start_scan

if TYPE_CHECKING:
    from icf.folds.report import FoldedSections


class Place(NamedTuple):
    """A member by its body's address and its index there."""

    vaddr: int
    member: int


@dataclass(slots=True)
class Linked:
    """An image, its bodies and its merged ones."""

    image: Image
    debug: DebugInfo
    functions: Functions
    sites: CallSites
    bodies: Bodies
    finder: FoldFinder
    pointers: Callable[[], PointerJumps]  # waits for them: another thread may be finding them
    folds: dict[int, Fold]  # merged bodies by address
    undescribed: frozenset[int]  # bodies that local functions may share without a trace
    virtual_dies: VirtualDies
    bare: U64  # DIEs of local functions without code (icf.dwarf.scan)
    vaddrs: U64 = field(default_factory=lambda: np.empty(0, np.uint64))  # of the merged bodies, ascending
    _body_of_symbol: U64 = field(default_factory=lambda: np.empty(0, np.uint64))  # merged; 0 for none
    _member_of_symbol: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    _by_die: tuple[PairIndex, I64] | None = None  # of bodies and DIEs, and the member of each row
    _in_section: dict[int, dict[frozenset[str], frozenset[int]]] = field(default_factory=dict)  # by body and files
    _by_name: dict[int, dict[str, list[int]]] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        image: Image,
        report: Iterable[FoldedSections] | Reported | None = None,
        scanning: Scanning | None = None,
    ) -> Linked:
        """Find the fold classes of an image; `report` is the linker's, or the functions found in objects.

        `scanning`: the scan of the image, if it has begun.
        """
        scanning = scanning or start_scan(image)
        scan, bodies = scanning.scanned()
        if report is None:
            reported = Reported()
        else:
            reported = report if isinstance(report, Reported) else read_report(image, bodies, report)
        finder = FoldFinder(image, bodies, scanning.debug, scan.functions, reported)
        linked = cls(
            image,
            scanning.debug,
            scan.functions,
            scan.sites,
            bodies,
            finder,
            scanning.pointers,
            {fold.vaddr: fold for fold in finder.find()},
            reported.open | (find_undescribed(image, finder, scan) if not reported.given else frozenset()),
            VirtualDies(scanning.debug),
            scan.bare,
        )
        linked.index()
        return linked

    def index(self) -> None:
        """Build the look-ups of members; again after members have been united.

        A fold left with one member is dropped.
        """
        self.folds = {vaddr: fold for vaddr, fold in self.folds.items() if len(fold.members) > 1}
        self.vaddrs = np.array(sorted(self.folds), np.uint64)
        self._in_section.clear()
        self._by_name.clear()
        columns = MemberColumns([self.folds[vaddr].members for vaddr in self.vaddrs.tolist()])
        body: I64 = np.repeat(np.arange(len(self.vaddrs)), np.diff(columns.start))
        member: I64 = np.arange(len(columns)) - columns.start[body]
        rows, symbols = columns.symbols
        self._body_of_symbol = np.zeros(self.image.symbols.count, np.uint64)
        self._body_of_symbol[symbols] = self.vaddrs[body[rows]]
        self._body_of_symbol[self.image.symbols.type == STT_GNU_IFUNC] = 0  # what it chooses is called
        self._member_of_symbol = np.zeros(self.image.symbols.count, np.int64)
        self._member_of_symbol[symbols] = member[rows]
        rows, dies = columns.dies
        self._by_die = PairIndex(self.vaddrs[body[rows]], dies), member[rows]

    def place_of_symbol(self, symbol: int) -> Place | None:
        """Return the member of a merged body that has a row of the symbol table."""
        (vaddr,), (member,) = self.places_of_symbols(np.array([symbol]))
        return Place(int(vaddr), int(member)) if vaddr else None

    def places_of_symbols(self, symbols: I64 | U32) -> tuple[U64, I64]:
        """Return the merged body and the member that have each of these rows of the symbol table; 0 for none."""
        return self._body_of_symbol[symbols], self._member_of_symbol[symbols]

    def members(self, vaddr: int) -> Members:
        """Return the members of a body, merged or not."""
        fold = self.folds.get(vaddr)
        if fold is not None:
            return fold.members
        return self.finder.members_at(vaddr)

    def members_by_name(self, vaddr: int) -> dict[str, list[int]]:
        """Return the members of a body by each of their names. Those of merged ones are kept: many calls ask."""
        if vaddr not in self.folds:
            return self.members(vaddr).by_name()
        if vaddr not in self._by_name:
            self._by_name[vaddr] = self.folds[vaddr].members.by_name()
        return self._by_name[vaddr]

    def note_learned(self, vaddr: int) -> None:
        """Take note that members of a merged body have other names, or that it has more members."""
        self._by_name.pop(vaddr, None)
        self._in_section.pop(vaddr, None)

    def columns_of(self, vaddrs: U64) -> MemberColumns:
        """Return the members of bodies, merged or not."""
        self.finder.prepare(difference(vaddrs, self.vaddrs))
        table, rows = self.finder.alone(vaddrs)
        bodies: list[Members | int] = [
            row if row >= 0 and vaddr not in self.folds else self.members(vaddr)
            for vaddr, row in zip(vaddrs.tolist(), rows.tolist(), strict=True)
        ]
        return MemberColumns(bodies, table)

    def member(self, place: Place) -> FoldMember:
        """Return the member at a place."""
        return self.members(place.vaddr)[place.member]

    def section_members(self, vaddr: int, files: frozenset[str] = frozenset()) -> frozenset[int]:
        """Return the members of a merged body that a relocation against a section, in an object of `files`, can mean.

        Those with local linkage; nothing shows the linkage of a member without a symbol. With -fPIC
        -fno-semantic-interposition clang adds a local alias to functions with external linkage, but not to weak ones.
        Only a known difference rules out that a member is of the same object.
        """
        found = self._in_section.setdefault(vaddr, {})
        if files not in found:
            members = self.folds[vaddr].members
            if files:
                known = ((idx, members.files_of(idx)) for idx in self.section_members(vaddr))
                found[files] = frozenset(idx for idx, own in known if not own or own & files)
            else:
                columns = MemberColumns([members])
                rows, symbols = columns.symbols
                is_meant = np.ones(len(columns), np.bool_)
                is_meant[rows] = False
                is_meant[rows[self.image.symbols.bind[symbols] == STB_GLOBAL]] = True
                found[files] = frozenset(np.flatnonzero(is_meant | columns.is_local).tolist())
        return found[files]

    def members_of_dies(self, vaddrs: U64, dies: U64) -> I64:
        """Return the member of each body that a concrete DIE describes, -1 if it describes none."""
        assert self._by_die is not None
        index, members = self._by_die
        rows = index.find(vaddrs, dies)
        found = np.append(members, -1)[rows]
        return np.where(is_in(vaddrs, self.vaddrs), found, 0)

    def member_counts(self, vaddrs: U64) -> I64:
        """Return the number of members of each of these bodies."""
        counts = np.array([len(self.folds[vaddr].members) for vaddr in self.vaddrs.tolist()], np.int64)
        is_merged = is_in(vaddrs, self.vaddrs)
        found = np.ones(len(vaddrs), np.int64)
        found[is_merged] = counts[np.searchsorted(self.vaddrs, vaddrs[is_merged])]
        return found
