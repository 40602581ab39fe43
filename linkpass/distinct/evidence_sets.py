"""The members of a body that one piece of evidence on a stack allows together: no stack distinguishes those.

    a body that a pointer or vtable leads to      every member: a call through a pointer may lead to several; and where
                                                  another module has called the innermost frame, a profiler may have
                                                  missed a caller in between
    a recorded call of X                          X, and what X reaches by jumps

No other evidence leaves several: a record names one callee for each caller, and a caller that has one name has
one record. So where no set has two members, each frame has one name: the outermost one by its own set, each next one by
its caller's record. The sets take no account of slots, vtable pointers and the classes of objects, by which the
resolver distinguishes more.

This holds where all direct calls of a body are recorded, all its members are listed, and it is known which of them have
their address taken. Bodies of which that is not known lack evidence: to keep their members apart for the one call
that is not recorded would take half of what folding saves in some programs (cppcheck, gcc: 6 calls, 26 of 100 KB). They
are counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from icf.model import ClassFlag, FoldClass, MemberFlag
from icf.tables.foldtable import IcfTable
from icf.tables.pointed import Jump, every_member, jumps_between, pointed_at

Node = tuple[int, int]  # class index, member index


def evidence_sets(table: IcfTable) -> dict[int, set[int]]:
    """Return the sets of two members and more, as masks, of each merged class that has such, by its index."""
    found: dict[int, set[int]] = {}
    for class_idx, mask in _sets(table):
        if mask & (mask - 1) and table.classes[class_idx].merged:
            found.setdefault(class_idx, set()).add(mask)
    return found


def lacks_evidence(fold: FoldClass) -> bool:
    """Return whether a merged body has calls that no record names, and no pointer is known to lead to it."""
    known = ClassFlag.CALLS_COMPLETE | ClassFlag.ADDRESS_TAKEN_KNOWN | ClassFlag.MEMBERS_COMPLETE
    pointed = MemberFlag.ADDRESS_TAKEN | MemberFlag.VIRTUAL
    return fold.merged and fold.flags & known != known and not any(member.flags & pointed for member in fold.members)


def _sets(table: IcfTable) -> Iterator[tuple[int, int]]:
    classes = table.classes
    in_vtables = {each.function.class_idx for vtable in table.vtables for each in vtable.slots}
    for class_idx, pointed in enumerate(pointed_at(classes, table.tail_calls)):
        fold = classes[class_idx]
        if class_idx in in_vtables or (pointed and not lacks_evidence(fold)):
            yield class_idx, every_member(fold)
    jumps = jumps_between(classes, table.tail_calls)
    for node in jumps:
        yield from _reached(node, jumps).items()


def _reached(node: Node, jumps: dict[Node, list[Jump]]) -> dict[int, int]:
    """Return a function and those that it reaches by jumps: masks by class index."""
    found: dict[int, int] = {}
    todo = [node]
    while todo:
        class_idx, idx = todo.pop()
        if not found.get(class_idx, 0) >> idx & 1:
            found[class_idx] = found.get(class_idx, 0) | 1 << idx
            for target, mask in jumps.get((class_idx, idx), ()):
                todo += [(target, each) for each in range(mask.bit_length()) if mask >> each & 1]
    return found
