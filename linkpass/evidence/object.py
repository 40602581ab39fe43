"""Evidence `object`: the objects of the link are at hand.

In an object the relocation of every call names its callee, at any debug level, and an object has all of its
functions, those that were folded, too. So a call in the image is looked up once for each function
that its body stands for:

    image    body of f, g     ... call T      return address R
    object   section of g     ... call ?      relocation at the same place in g: symbol h
    record   at R, in g: h    if h is one of the functions at T

A call through a register has the relocation of the instruction that forms or loads the address. A call of a local
function is relocated against its section, or a symbol that only the object has; either way the
place identifies the function. The assembler resolves a call within its own section, as of a local function
that calls itself: the object then has the operand already.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from icf.aliases import REAL, WRAP, base_name, same_function
from icf.columns import I64, U64, Mask
from icf.demangle import demangle
from icf.elf.types import STB_LOCAL, Machine
from icf.folds.classes import Fold
from icf.folds.member import FoldMember
from icf.folds.nameless import identifiers, identifiers_of
from icf.model import Evidence
from icf.sets import is_in, rows_of_runs
from linkpass.evidence.reach import Reach
from linkpass.evidence.records import Records, Statements
from linkpass.linked import Linked, Place
from linkpass.objects.code import Relocation
from linkpass.objects.functions import LinkObjects, wanted_member
from linkpass.relocation_types import name_callee


class _Branches(NamedTuple):
    """Calls and jumps whose callee in one caller is wanted; a row each."""

    slot: I64
    caller: I64  # row of the caller among those that there are
    end: U64
    target: U64
    is_jump: Mask
    operand: U64  # of a call through a register, 0 else


def from_objects(linked: Linked, reach: Reach, objects: LinkObjects, records: Records) -> Statements:
    """Return the statements of objects about the calls and jumps into merged bodies that `records` lacks."""
    statements = Statements(Evidence.OBJECT)
    callers, branches = _unknown_branches(linked, reach, records)
    wanted = [wanted_member(caller.vaddr, linked.members(caller.vaddr), caller.member) for caller in callers]
    rows, functions = _in_functions(branches, objects.definitions(linked.image, wanted))
    slot, end, target = branches.slot[rows], branches.end[rows], branches.target[rows]
    is_jump, operand = branches.is_jump[rows], branches.operand[rows]
    starts = np.array([caller.vaddr for caller in callers], np.uint64)[branches.caller[rows]]
    ends = np.where(operand != 0, operand + np.uint64(4), end) - starts  # of operands, in their callers
    entries = _entries_of(linked, objects, functions, ends.astype(np.int64), is_jump)
    is_loop = is_jump & (target == starts)
    statements.loops += slot[(entries < 0) & is_loop].tolist()
    beside = np.flatnonzero((entries < 0) & ~is_loop & (operand == 0))
    named = np.flatnonzero(entries >= 0)
    named = named[name_callee(objects.code.types(entries[named]), operand[named] != 0, linked.image.machine)]
    relocations = dict(zip(named.tolist(), objects.code.entries(entries[named]), strict=True))
    callees = _Callees(linked, objects)
    asked = np.sort(np.concatenate([named, beside]))
    columns = asked, functions[asked], slot[asked], end[asked], target[asked], starts[asked]
    for row, function, own_slot, own_end, own_target, start in zip(*(each.tolist() for each in columns), strict=True):
        relocation = relocations.get(row)
        if relocation is not None:
            found = callees.of(relocation, own_target)
        elif objects.has_operand(function, linked.image, own_end, start):
            found = callees.beside(function, own_target - start, own_target)
        else:
            continue
        statements.state_one([own_slot], found)
    return statements


def _unknown_branches(linked: Linked, reach: Reach, records: Records) -> tuple[list[Place], _Branches]:
    """Return the branches into merged bodies for which `records` has no callee, and their callers.

    The callers stand in the order of their first branches.
    """
    slots = np.flatnonzero(~records.is_known)
    branches = records.slots.branch[slots]
    matter = (reach.source[branches] != 0) & is_in(reach.target[branches], linked.vaddrs)
    slots, branches = slots[matter], branches[matter]
    source, member = reach.source[branches], records.slots.member[slots]
    order = np.lexsort((member, source))  # is stable: the first row of each caller is its first branch
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (np.diff(source[order]) != 0) | (np.diff(member[order]) != 0)
    first = order[is_new]
    rank = np.argsort(np.argsort(first))
    caller = np.empty(len(order), np.int64)
    caller[order] = rank[np.cumsum(is_new) - 1]
    first.sort()
    callers = list(map(Place, source[first].tolist(), member[first].tolist()))
    end, target, operand = reach.end[branches], reach.target[branches], reach.operand[branches]
    return callers, _Branches(slots, caller, end, target, reach.is_jump[branches], operand)


def _in_functions(branches: _Branches, found: list[list[int]]) -> tuple[I64, I64]:
    """Return the rows of the branches of each caller, for each of its functions in `found`, and that function."""
    order = np.argsort(branches.caller, kind="stable")
    first, end = np.searchsorted(branches.caller[order], [np.arange(len(found)), np.arange(1, len(found) + 1)])
    caller = np.repeat(np.arange(len(found)), np.array([len(functions) for functions in found], np.int64))
    counts = (end - first)[caller]
    which, rows = rows_of_runs(first[caller], counts)
    functions = np.array([function for functions in found for function in functions], np.int64)
    return order[rows], functions[which]


def _entries_of(linked: Linked, objects: LinkObjects, functions: I64, ends: I64, is_jump: Mask) -> I64:
    """Return the relocation of each operand that ends there in a function, -1 if it has none."""
    entries = objects.code.relocations_at(functions, ends - 4)
    if linked.image.machine is Machine.X86_64:
        # `jmp *f@GOTPCREL(%rip)` relaxed is one byte shorter than it was: its operand ends before the nop
        shorter = np.flatnonzero((entries < 0) & is_jump)
        entries[shorter] = objects.code.relocations_at(functions[shorter], ends[shorter] - 3)
    return entries


class _Callees:
    """Finds the members that the relocations of calls refer to."""

    def __init__(self, linked: Linked, objects: LinkObjects) -> None:
        self._linked, self._objects = linked, objects
        self._bias = 0 if linked.image.machine is Machine.AARCH64 else 4  # from a call's operand to its end
        self._known: dict[tuple[int, Relocation], list[int]] = {}
        self._named: dict[int, dict[str, list[int]]] = {}  # fold -> name -> members

    def of(self, relocation: Relocation, target: int) -> list[int]:
        """Return members of the body `target` that a relocation can mean; one if it is known."""
        key = (target, relocation)
        found = self._known.get(key)
        if found is None:
            fold = self._linked.folds[target]
            names, file = self._called(relocation)
            wrapped = [name.removeprefix(REAL) for name in names] + [f"{WRAP}{name}" for name in names]
            found = self._members(fold, names + wrapped, file)
            if names and not found:
                found = self._members(fold, self._variants(relocation), file)
            if not found:
                found = sorted({idx for own in _by_function(names) for idx in _learned(fold, own, file)})
                self._named.pop(target, None)
            self._known[key] = found
        return found

    def beside(self, function: int, distance: int, target: int) -> list[int]:
        """Return members of the body `target` that lie at this distance from the start of a function in its section."""
        functions = self._objects.functions
        object_idx, section = int(functions.object_idx[function]), int(functions.section[function])
        names = self._objects.names_at(object_idx, section, int(functions.offset[function]) + distance)
        return self._members(self._linked.folds[target], names, self._objects.objects[object_idx].source_file)

    def _called(self, relocation: Relocation) -> tuple[list[str], str]:
        """Return symbols of the function that the relocation of a call refers to, and the source file of a local
        one.
        """
        object_file = self._objects.objects[relocation.object_idx]
        symbols, symbol = object_file.symbols, relocation.symbol
        section = int(symbols.shndx[symbol])
        distance = relocation.addend + self._bias
        is_global = int(symbols.bind[symbol]) != STB_LOCAL
        if (is_global or section == 0) and (distance == 0 or section == 0):
            return [symbols.name(symbol)] if distance == 0 else [], ""
        offset = int(symbols.value[symbol]) + distance
        file = "" if is_global else object_file.source_file
        return self._objects.names_at(relocation.object_idx, section, offset), file

    def _variants(self, relocation: Relocation) -> list[str]:
        """Return other names of the constructor or destructor that is called: C1 may be an alias of C2."""
        symbols, symbol = self._objects.objects[relocation.object_idx].symbols, relocation.symbol
        place = (int(symbols.shndx[symbol]), int(symbols.value[symbol]))
        called = symbols.name(symbol)
        names = self._objects.names_at(relocation.object_idx, *place)
        return [name for name in names if same_function(name, called)]

    def _members(self, fold: Fold, names: list[str], file: str) -> list[int]:
        """Return members with one of these names; with a file, local ones that may stem from it."""
        by_name = self._named.get(fold.vaddr)
        if by_name is None:
            by_name = self._named[fold.vaddr] = fold.members.by_name()
        named = [by_name[name] for name in names if name and name in by_name]
        found = named[0] if len(named) == 1 else sorted({idx for each in named for idx in each})
        if not file:
            return found
        files = map(fold.members.files_of, found)
        return [idx for idx, own in zip(found, files, strict=True) if not own or file in own]


def _by_function(names: list[str]) -> list[list[str]]:
    """Return the names of one place, grouped by function."""
    functions: list[list[str]] = []
    for name in names:
        own = next((known for known in functions if same_function(known[0], name)), None)
        if own is None:
            functions.append([name])
        else:
            own.append(name)
    return functions


def _learned(fold: Fold, names: list[str], file: str) -> list[int]:
    """Return a new member for a function that the image does not name (gold, mold): the code calls its body.

    A member that DWARF names without linkage name gets it, if it is the only function of the file that
    the name fits; else the function is a member of which there is no other evidence.
    """
    fitting = [idx for idx, member in enumerate(fold.members) if _may_be(member, names[0], file)]
    if len(fitting) > 1:
        return fitting
    if fitting and fold.members[fitting[0]].nameless:
        member = fold.members[fitting[0]]
        member.name, member.nameless = names[0], False
    else:
        fitting = [len(fold.members)]
        member = FoldMember(names[0], local=bool(file), files=frozenset({file} - {""}))
        fold.members.append(member)
    member.aliases = sorted(set(names[1:]))
    return fitting


def _may_be(member: FoldMember, symbol: str, file: str) -> bool:
    """Return whether DWARF's description of a member would fit the symbol."""
    if not member.dies or (file and member.files and file not in member.files):
        return False
    text = demangle(base_name(symbol))
    if member.nameless and "(" in member.name:  # demangled from the function's linkage name
        return member.name == text
    return identifiers(member.name if member.nameless else demangle(member.name)) <= identifiers_of(text)
