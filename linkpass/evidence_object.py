"""Evidence `object`: the objects of the link are at hand.

In an object the relocation of every call names its callee, at any debug level, and an object has all of its
functions, those that were folded, too. So a call in the image is looked up once for each function
that its body stands for:

    image    body of f, g     ... call T      return address R
    object   section of g     ... call ?      relocation at the same place in g: symbol h
    record   at R, in g: h    if h is one of the functions at T

A call of a local function is relocated against its section, or a symbol that only the object knows; either way the
place says which function it is.
"""

from __future__ import annotations

import numpy as np

from icf.demangle import demangle
from icf.elf.objectfile import Entries
from icf.elf.types import Machine
from icf.folds.aliases import base_name
from icf.folds.classes import Fold
from icf.folds.members import FoldMember
from icf.folds.nameless import identifiers, identifiers_of
from icf.model import Evidence
from linkpass.linked import Linked, Place
from linkpass.objects import Definition, LinkObjects, definitions_of, functions_at
from linkpass.reach import Reach
from linkpass.records import Records, Statements

_STB_LOCAL = 0
_OPERAND_TYPES = {Machine.X86_64: (2, 4, 9, 41, 42), Machine.AARCH64: (280, 282, 283)}


def from_objects(linked: Linked, reach: Reach, objects: LinkObjects, records: Records) -> Statements:
    """What the objects say of the calls and jumps into merged bodies that `records` does not know yet."""
    statements = Statements(Evidence.OBJECT)
    wanted: dict[Place, list[tuple[int, int, bool]]] = {}  # caller -> (end of the branch, target, is a jump)
    for ends, sources, targets, known, is_jump in (
        (reach.call_end, reach.call_from, reach.call_target, records.calls, False),
        (reach.jump_end, reach.jump_from, reach.jump_target, records.jumps, True),
    ):
        for end, source, target in zip(ends.tolist(), sources.tolist(), targets.tolist(), strict=True):
            if source and target in linked.folds:
                for caller in linked.places(source):
                    if (end, caller) not in known:
                        wanted.setdefault(caller, []).append((end, target, is_jump))
    names = {name for caller in wanted for name in _names(linked.member(caller))}
    found = objects.define(names)
    for caller, branches in wanted.items():
        member = linked.member(caller)
        for definition in definitions_of(linked.image, found, caller.vaddr, _names(member), member.files):
            _read(linked, caller, branches, definition, statements)
    return statements


def _names(member: FoldMember) -> list[str]:
    return [] if member.nameless else [member.name, *member.aliases]


def _read(
    linked: Linked,
    caller: Place,
    branches: list[tuple[int, int, bool]],
    definition: Definition,
    statements: Statements,
) -> None:
    entries = definition.relocations()
    offsets = entries["offset"]
    aarch64 = linked.image.machine is Machine.AARCH64
    for end, target, is_jump in branches:
        out = statements.jumps if is_jump else statements.calls
        # `jmp *f@GOTPCREL(%rip)` relaxed is one byte shorter than it was: its operand ends before the nop
        for distance in (4, 3) if is_jump and not aarch64 else (4,):
            place = definition.offset + end - distance - caller.vaddr
            at = int(np.searchsorted(offsets, place))
            if at < len(entries) and int(offsets[at]) == place:
                break
        else:
            if is_jump and target == caller.vaddr:
                statements.not_calls.add((end, caller))
            continue
        entry = entries[at]
        if int(entry["type"]) not in _OPERAND_TYPES[linked.image.machine]:
            continue
        fold = linked.folds[target]
        names, file = _called(definition, entry, 0 if aarch64 else 4)
        callees = _named(fold, names, file) or _learned(fold, names, file)
        if len(callees) == 1:
            out.setdefault((end, caller), set()).add(Place(target, callees[0]))
        else:
            which = "several" if callees else "none"
            statements.dropped[f"callee is {which} of the functions that the code calls"] += 1


def _called(definition: Definition, entry: Entries, bias: int) -> tuple[list[str], str]:
    """Symbols of the function that the relocation of a call means, and the source file of a local one."""
    object_file = definition.object_file
    symbols, row = object_file.symbols, int(entry["symbol"])
    section = int(symbols.shndx[row])
    if int(symbols.bind[row]) != _STB_LOCAL or section == 0:
        return [symbols.name(row)], ""
    offset = int(symbols.value[row]) + int(entry["addend"]) + bias
    return functions_at(object_file, section, offset), object_file.source_file


def _named(fold: Fold, names: list[str], file: str) -> list[int]:
    """Members with one of these names; with a file, local ones that may stem from it."""
    found = []
    for idx, member in enumerate(fold.members):
        at_home = not file or not member.files or file in member.files
        if at_home and any(member.is_named(name) for name in names):
            found.append(idx)
    return found


def _learned(fold: Fold, names: list[str], file: str) -> list[int]:
    """A member of which the image has no linkage name (gold, mold): the code calls its body, so it is one.

    A member that DWARF names without linkage name gets it, if it is the only function of the file that
    the name fits; else the function is a member that nothing else has told of.
    """
    if not names:
        return []
    fitting = [idx for idx, member in enumerate(fold.members) if _may_be(member, names[0], file)]
    if len(fitting) > 1:
        return fitting
    if fitting and fold.members[fitting[0]].nameless:
        member = fold.members[fitting[0]]
        member.name, member.nameless = names[0], False
    else:
        member = FoldMember(names[0], local=bool(file), files=frozenset({file} - {""}))
        fold.members.append(member)
    member.aliases = sorted(set(names[1:]))
    return [fold.members.index(member)]


def _may_be(member: FoldMember, symbol: str, file: str) -> bool:
    """Whether DWARF's description of a member would fit the symbol."""
    if not member.dies or (file and member.files and file not in member.files):
        return False
    text = demangle(base_name(symbol))
    if member.nameless and "(" in member.name:  # demangled from the function's linkage name
        return member.name == text
    return identifiers(member.name if member.nameless else demangle(member.name)) <= identifiers_of(text)
