"""Which members of each body a call through a pointer can end up in.

    address-taken or virtual          the pointer leads there
    + whatever these jump on to       a tail call leaves no return address, so nobody sees the difference
    + their outlined parts

Where the marks of a class are not known every member counts. A class whose members are not all known has one more
candidate, which stands for those: a pointer may lead to it, and it makes the same jumps as its listed siblings, but may
mean any function of the body by them.
"""

from __future__ import annotations

from collections.abc import Sequence

from icf.model import ALL_MEMBERS, ClassFlag, FoldClass, MemberFlag, TailCall

_POINTED_AT = MemberFlag.ADDRESS_TAKEN | MemberFlag.VIRTUAL


def pointed_at(classes: Sequence[FoldClass], tail_calls: Sequence[TailCall]) -> list[int]:
    """A mask of the members of each class; the bit after the last member stands for functions that are not listed."""
    every = [_every(fold) for fold in classes]
    found = [_marked(fold) for fold in classes]
    jumps = _jumps(classes, tail_calls, every)
    todo = [(class_idx, idx) for class_idx, mask in enumerate(found) for idx in _bits(mask)]
    while todo:
        for class_idx, mask in jumps.get(todo.pop(), ()):
            new = mask & ~found[class_idx]
            found[class_idx] |= new
            todo += [(class_idx, idx) for idx in _bits(new)]
    return found


def _every(fold: FoldClass) -> int:
    listed = (1 << len(fold.members)) - 1
    return listed if fold.flags & ClassFlag.MEMBERS_COMPLETE else listed << 1 | 1


def _marked(fold: FoldClass) -> int:
    if not fold.flags & ClassFlag.ADDRESS_TAKEN_KNOWN:
        return _every(fold)
    mask = sum(1 << idx for idx, member in enumerate(fold.members) if member.flags & _POINTED_AT)
    return mask | _every(fold) & ~((1 << len(fold.members)) - 1)


def _jumps(
    classes: Sequence[FoldClass], tail_calls: Sequence[TailCall], every: list[int]
) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """From a member, by class and index, to the members that it jumps to: class and mask."""
    jumps: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for call in tail_calls:
        (source, caller), (target, callee) = call.caller, call.callee
        members = classes[source].members
        callers = list(range(len(members))) if caller == ALL_MEMBERS else [caller]
        mask = every[target] if callee == ALL_MEMBERS else 1 << callee
        if not classes[source].flags & ClassFlag.MEMBERS_COMPLETE:
            callers.append(len(members))
            mask = every[target]
        for idx in callers:
            jumps.setdefault((source, idx), []).append((target, mask))
    owners: dict[int, list[tuple[int, int]]] = {}
    for class_idx, fold in enumerate(classes):
        if not fold.flags & ClassFlag.FRAGMENT:
            for idx, member in enumerate(fold.members):
                owners.setdefault(member.die, []).append((class_idx, idx))
    for class_idx, fold in enumerate(classes):
        for idx, member in enumerate(fold.members if fold.flags & ClassFlag.FRAGMENT else ()):
            for owner in owners.get(member.die, ()) if member.die else ():
                jumps.setdefault(owner, []).append((class_idx, 1 << idx))
    return jumps


def _bits(mask: int) -> list[int]:
    return [idx for idx in range(mask.bit_length()) if mask >> idx & 1]
