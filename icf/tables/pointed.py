"""Which members of each body a call through a pointer can enter.

    address-taken or virtual          the pointer leads there
    + the functions they tail-call    a tail call leaves no return address, so a stack does not show it
    + their outlined parts

If the marks of a class are not known, every member counts. A class whose members are not all known has one more
candidate, which stands for the others: a pointer may lead to it, and it makes the same jumps as its listed siblings,
but
each of these jumps may lead to any function of the target body.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from icf.model import ALL_MEMBERS, ClassFlag, FoldClass, MemberFlag, TailCall

Jump = tuple[int, int]  # class index and a mask of its members
_OFFSET = r"(?:h(?:n?\d+)|v(?:n?\d+)_n?\d+)_"
THUNK = re.compile(rf"_ZT(?:{_OFFSET}|c{_OFFSET}{_OFFSET})")  # Itanium C++ ABI, 5.1.4.2; the base's encoding follows
_POINTED_AT = MemberFlag.ADDRESS_TAKEN | MemberFlag.VIRTUAL


def pointed_at(classes: Sequence[FoldClass], tail_calls: Sequence[TailCall]) -> list[int]:
    """Return a mask of the members of each class.

    The bit after the last member stands for members that are not listed.
    """
    found = [marked(fold) for fold in classes]
    jumps = jumps_between(classes, tail_calls)
    todo = [(class_idx, idx) for class_idx, mask in enumerate(found) for idx in _bits(mask)]
    while todo:
        for class_idx, mask in jumps.get(todo.pop(), ()):
            new = mask & ~found[class_idx]
            found[class_idx] |= new
            todo += [(class_idx, idx) for idx in _bits(new)]
    return found


def every_member(fold: FoldClass) -> int:
    """Return a mask of all members of a class, with the bit for those not listed if there may be such."""
    listed = (1 << len(fold.members)) - 1
    return listed if fold.flags & ClassFlag.MEMBERS_COMPLETE else listed << 1 | 1


def marked(fold: FoldClass, marks: MemberFlag = _POINTED_AT) -> int:
    """Return the members that have one of `marks`, or may have."""
    if not fold.flags & ClassFlag.ADDRESS_TAKEN_KNOWN:
        return every_member(fold)
    wanted = int(marks)  # numbers: the enum's operators are slow for thousands of members
    mask = sum(1 << idx for idx, member in enumerate(fold.members) if int.__and__(member.flags, wanted))
    return mask | every_member(fold) & ~((1 << len(fold.members)) - 1)


def jumps_between(classes: Sequence[FoldClass], tail_calls: Sequence[TailCall]) -> dict[tuple[int, int], list[Jump]]:
    """Return the members, by class and index, that each member jumps to."""
    every = [every_member(fold) for fold in classes]
    jumps: dict[tuple[int, int], list[Jump]] = {}
    for call in tail_calls:
        (source, caller), (target, callee) = call.caller, call.callee
        members = classes[source].members
        callers = list(range(len(members))) if caller == ALL_MEMBERS else [caller]
        mask = every[target] if callee == ALL_MEMBERS else 1 << callee
        if not classes[source].flags & ClassFlag.MEMBERS_COMPLETE:
            callers.append(len(members))
            mask = every[target]
        for idx in callers:
            meant = mask & meant_by_thunk(members[idx].name, classes[target]) if idx < len(members) else 0
            jumps.setdefault((source, idx), []).append((target, meant or mask))
    owners: dict[int, list[tuple[int, int]]] = {}  # DIE -> class index, member index
    for class_idx, fold in enumerate(classes):
        if not fold.flags & ClassFlag.FRAGMENT:
            for idx, member in enumerate(fold.members):
                owners.setdefault(member.die, []).append((class_idx, idx))
    for class_idx, fold in enumerate(classes):
        for idx, member in enumerate(fold.members if fold.flags & ClassFlag.FRAGMENT else ()):
            for owner in owners.get(member.die, ()) if member.die else ():
                jumps.setdefault(owner, []).append((class_idx, 1 << idx))
    _add_thunks(classes, jumps)
    return jumps


def _add_thunks(classes: Sequence[FoldClass], jumps: dict[tuple[int, int], list[Jump]]) -> None:
    """Add the jumps of gcc's thunks from their names: they stay within a section, where the link pass does not look."""
    thunks = [
        (class_idx, idx, name)
        for class_idx, fold in enumerate(classes)
        for idx, member in enumerate(fold.members)
        if (name := thunk_target(member.name)) and (class_idx, idx) not in jumps
    ]
    wanted = {name for _, _, name in thunks}
    meant: dict[str, list[Jump]] = {}
    for class_idx, fold in enumerate(classes if thunks else ()):
        for idx, member in enumerate(fold.members):
            for name in wanted.intersection((member.name, *member.aliases)):
                meant.setdefault(name, []).append((class_idx, 1 << idx))
    for class_idx, idx, name in thunks:
        if name in meant:
            jumps[class_idx, idx] = meant[name]


def thunk_target(name: str) -> str:
    """Return the function that a thunk jumps to, by its name; empty for a name that is not a thunk's."""
    thunk = THUNK.match(name) if name.startswith("_ZT") else None
    return f"_Z{name[thunk.end() :]}" if thunk else ""


def meant_by_thunk(name: str, target: FoldClass) -> int:
    """Return the member to which a thunk jumps, taken from its name; 0 for no thunk, or no such member there."""
    wanted = thunk_target(name)
    found = (idx for idx, member in enumerate(target.members) if wanted in (member.name, *member.aliases))
    return sum(1 << idx for idx in found) if wanted else 0


def _bits(mask: int) -> list[int]:
    return [idx for idx in range(mask.bit_length()) if mask >> idx & 1]
