"""The graph of jumps and slots, on plain data."""

from __future__ import annotations

from icf.model import ALL_MEMBERS, ClassFlag, MemberFlag, MemberRef, Vaddr, Vtable, VtableSlot
from tests.unwind.support import MARKED, fold
from unwind.callgraph.jumps import ANYTHING, Slot, jump_graph
from unwind.program.parts import ListedCode
from unwind.program.program import Program

VPTRS = range(0x90010, 0x98010, 0x100)


def test_a_slot_that_may_hold_any_member_is_one_edge_however_many_there_are() -> None:
    virtual = [MemberFlag.VIRTUAL] * 500
    any_member = (VtableSlot(2, MemberRef(0, ALL_MEMBERS)),)
    vtables = [Vtable(Vaddr(vptr), Vaddr(vptr - 0x10), any_member) for vptr in VPTRS]
    classes = [fold(0, 500, MARKED | ClassFlag.VTABLES_KNOWN, marks=virtual)]
    program = Program(classes, (), (), ListedCode({}), vtables=vtables)
    graph = jump_graph([program])
    assert {(to, edge["vtable"].vaddr) for _, to, edge in graph.out_edges(Slot(2), data=True)} == {
        (program.bodies[0], vptr) for vptr in VPTRS
    }
    assert graph.out_degree(ANYTHING) == graph.out_degree(Slot(2)) == graph.number_of_edges() / 2 == len(VPTRS)
