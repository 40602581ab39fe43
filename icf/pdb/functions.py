"""The functions of a program by its PDB, and which of them share a body after /OPT:ICF.

The linker folds code and leaves the records alone, so every folded function has a procedure record at the address of
the body, and every one with external linkage a public symbol:

    S_GPROC32 discount  int (int)            at 1:0010     S_PUB32 ?discount@@YAHH@Z   at 1:0010
    S_GPROC32 discount  unsigned (unsigned)  at 1:0010     S_PUB32 ?discount@@YAII@Z   at 1:0010
    S_LPROC32 rebate    int (int)            at 1:0010     (internal linkage: none)

A procedure is a member, and it has no linkage name. Public symbols have: the one that declares the same name belongs to
it; of overloads the one with the same parameters. What that does not decide is not guessed: such a member keeps the
name of its record. A public symbol of code that no compiler described is a member of its own. Others are aliases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

import numpy as np

from icf.columns import I64, U64
from icf.microsoft_names import Declared, declared_by, parameters_alike, spelled_alike
from icf.model import MemberFlag
from icf.pdb import columns as col
from icf.pdb.dbi import Module
from icf.pdb.file import NOWHERE, Pdb
from icf.pdb.module import Symbols

_STREAM_BITS = 32
_OF_LINKER = ("* Linker", "Import:")  # modules that the linker made, and those of import libraries


class PdbMember(NamedTuple):
    """One function of a body."""

    name: str  # linkage name; with NAMELESS that of the record
    number: int  # stream << 32 | offset of its record: the procedure, else the public symbol
    flags: MemberFlag = MemberFlag.NONE
    aliases: tuple[str, ...] = ()
    procedure: int = -1  # row of `Procedures`, -1 without a record


class PdbBody(NamedTuple):
    """A body, by RVA; its members by name."""

    start: int
    end: int
    members: tuple[PdbMember, ...]


class Procedures(NamedTuple):
    """The procedure records of all modules, by module and then as they come; `icf.pdb.columns` has the columns."""

    module: I64  # index
    start: U64  # RVA; NOWHERE: not in the image
    columns: U64
    symbols: list[Symbols]  # by module

    @property
    def end(self) -> U64:
        return self.start + self.columns[:, col.P_SIZE]


class _Public(NamedTuple):
    name: str
    number: int


def read_procedures(pdb: Pdb) -> Procedures:
    """Return the procedure records of a program; raise FormatError if one is damaged."""
    symbols = [pdb.symbols_of(module) for module in pdb.dbi.modules]
    columns = np.concatenate([np.empty((0, col.PROCEDURE_WIDTH), np.uint64), *(each.procedures for each in symbols)])
    module = np.repeat(np.arange(len(symbols)), [len(each.procedures) for each in symbols])
    start = pdb.rvas(columns[:, col.P_SEGMENT], columns[:, col.P_ADDRESS])
    is_empty = columns[:, col.P_SIZE] == 0
    return Procedures(module, np.where(is_empty, NOWHERE, start), columns, symbols)


def is_complete(pdb: Pdb) -> bool:
    """Return whether compilers described all modules: else a folded static function may have left no record."""
    modules = (module for module in pdb.dbi.modules if not is_of_linker(module))
    return all(map(pdb.is_described, modules))


def is_of_linker(module: Module) -> bool:
    """Return whether a module is none that a compiler made."""
    return module.name.startswith(_OF_LINKER)


def find_bodies(pdb: Pdb, procedures: Procedures, code: Iterable[tuple[int, int]]) -> list[PdbBody]:
    """Return all bodies by address; `code` are the ranges of RVAs that hold code."""
    complete = is_complete(pdb)
    rows = np.flatnonzero(procedures.start != NOWHERE)
    rows = rows[np.argsort(procedures.start[rows], kind="stable")]
    starts, first = np.unique(procedures.start[rows], return_index=True)
    ends = np.maximum.reduceat(procedures.end[rows], first) if len(first) else starts
    publics = _publics(pdb, code)
    matcher = _Matcher(pdb, procedures, complete)
    bodies = []
    last = np.append(first, len(rows))[1:]
    for start, end, low, high in zip(starts.tolist(), ends.tolist(), first.tolist(), last.tolist(), strict=True):
        members = matcher.members(rows[low:high].tolist(), publics.pop(start, []))
        bodies.append(PdbBody(start, end, tuple(sorted(members))))
    return sorted([*bodies, *_undescribed(publics, starts, ends, code)])


def _publics(pdb: Pdb, code: Iterable[tuple[int, int]]) -> dict[int, list[_Public]]:
    """Return the public symbols of code by RVA."""
    columns = pdb.publics
    rvas = pdb.rvas(columns[:, col.U_SEGMENT], columns[:, col.U_ADDRESS])
    is_code = np.zeros(len(rvas), np.bool_)
    for low, high in code:
        is_code |= (rvas >= low) & (rvas < high)
    rows = np.flatnonzero(is_code)
    found: dict[int, list[_Public]] = {}
    stream = pdb.dbi.symbol_stream << _STREAM_BITS
    offsets = columns[rows, col.U_RECORD].tolist()
    for rva, offset, name in zip(rvas[rows].tolist(), offsets, pdb.public_names(rows), strict=True):
        found.setdefault(rva, []).append(_Public(name, stream | offset))
    return found


def _undescribed(
    publics: dict[int, list[_Public]], starts: U64, ends: U64, code: Iterable[tuple[int, int]]
) -> Iterable[PdbBody]:
    """Yield bodies that have public symbols only; each reaches to the next symbol, or the end of its section."""
    reach = np.maximum.accumulate(ends) if len(ends) else ends
    at = np.array(sorted(publics), np.uint64)
    before = np.searchsorted(starts, at, side="right") - 1
    is_free = (before < 0) | (reach[np.maximum(before, 0)] <= at) if len(starts) else np.ones(len(at), np.bool_)
    limits = np.unique(np.concatenate([starts, at, np.array([high for _, high in code], np.uint64)]))
    for start in at[is_free].tolist():
        end = int(limits[np.searchsorted(limits, np.uint64(start), side="right")])
        members = (PdbMember(each.name, each.number) for each in publics[start])
        yield PdbBody(start, end, tuple(sorted(members)))


class _Matcher:
    """Finds the linkage names of procedures."""

    def __init__(self, pdb: Pdb, procedures: Procedures, complete: bool) -> None:
        self._pdb, self._complete = pdb, complete
        self._module: list[int] = procedures.module.tolist()
        self._columns = procedures.columns
        self._modules = pdb.dbi.modules

    def members(self, rows: list[int], publics: list[_Public]) -> list[PdbMember]:
        """Return the members of a body from its procedures and public symbols."""
        if len(rows) == len(publics) == 1 and self._columns[rows[0], col.P_KIND] != col.LOCAL:  # nearly all bodies
            return [PdbMember(publics[0].name, self._number(rows[0]), procedure=rows[0])]
        found = [row for row in rows if self._columns[row, col.P_KIND] != col.LOCAL]
        members = [self._nameless(row, MemberFlag.LOCAL) for row in rows if self._columns[row, col.P_KIND] == col.LOCAL]
        groups = _variants(publics)
        pairs = [(found[0], groups[0])] if len(found) == len(groups) == 1 else self._pairs(found, groups)
        members += [self._named(row, group) for row, group in pairs]
        taken = {row for row, _ in pairs}
        left = [row for row in found if row not in taken]
        named = {id(group) for _, group in pairs}
        others = [group for group in groups if id(group) not in named]
        if self._complete and len(left) == len(others) == 1:
            return [*members, self._named(left[0], others[0])]
        members += [self._nameless(row, MemberFlag.NONE) for row in left]
        if not self._complete:
            members += [PdbMember(group[0].name, group[0].number, aliases=_names(group[1:])) for group in others]
        elif len(rows) == 1 and not left:  # labels and alternate names
            only = members[0]
            members = [only._replace(aliases=(*only.aliases, *(each.name for group in others for each in group)))]
        return members

    def _pairs(self, rows: list[int], groups: list[list[_Public]]) -> list[tuple[int, list[_Public]]]:
        """Return which public symbols belong to which procedure, as far as names and parameters decide it."""
        by_name: dict[str, tuple[list[int], list[tuple[Declared | None, list[_Public]]]]] = {}
        for row in rows:
            by_name.setdefault(spelled_alike(self._name(row)), ([], []))[0].append(row)
        for group in groups:
            declared = declared_by(group[0].name)
            name = spelled_alike(declared.name if declared else group[0].name)
            if name in by_name:
                by_name[name][1].append((declared, group))
        pairs = []
        for mine, theirs in by_name.values():
            if len(mine) == len(theirs) == 1:
                pairs.append((mine[0], theirs[0][1]))
                continue
            types = [self._parameters(row) for row in mine]
            if None in types:
                continue
            texts = [parameters_alike(declared.parameters) if declared else "" for declared, _ in theirs]
            counts, said = Counter(types), Counter(texts)
            group_of = {text: group for text, (_, group) in zip(texts, theirs, strict=True)}
            pairs += [
                (row, group_of[text])
                for row, text in zip(mine, types, strict=True)
                if text is not None and counts[text] == said[text] == 1
            ]
        return pairs

    def _parameters(self, row: int) -> str | None:
        texts = self._pdb.types.parameters(int(self._columns[row, col.P_TYPE]))
        return None if texts is None else parameters_alike(",".join(texts))

    def _name(self, row: int) -> str:
        stream = self._stream(row)
        return self._pdb.text(stream, int(self._columns[row, col.P_NAME]), int(self._columns[row, col.P_NAME_BYTES]))

    def _stream(self, row: int) -> int:
        return self._modules[self._module[row]].stream

    def _number(self, row: int) -> int:
        return self._stream(row) << _STREAM_BITS | int(self._columns[row, col.P_RECORD])

    def _nameless(self, row: int, flags: MemberFlag) -> PdbMember:
        return PdbMember(self._name(row), self._number(row), flags | MemberFlag.NAMELESS, (), row)

    def _named(self, row: int, group: list[_Public]) -> PdbMember:
        return PdbMember(group[0].name, self._number(row), MemberFlag.NONE, _names(group[1:]), row)


def _variants(publics: list[_Public]) -> list[list[_Public]]:
    """Return public symbols by function: an unused vector deleting destructor is an alias of the scalar one."""

    def scalar(public: _Public) -> str:
        return public.name.replace("??_E", "??_G", 1)

    ordered = sorted(publics, key=lambda public: (scalar(public), -ord(public.name[3:4] or " "), public.name))
    return [list(group) for _, group in groupby(ordered, key=scalar)]


def _names(publics: list[_Public]) -> tuple[str, ...]:
    return tuple(each.name for each in publics)
