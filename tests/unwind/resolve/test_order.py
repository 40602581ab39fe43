"""An answer does not depend on the stacks that were resolved before, also where an address is a signal trampoline."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unwind.support import exports, pc, ret, start
from tests.unwind.worlds import World, worlds
from unwind.program.parts import ListedCode, SlotCall
from unwind.program.program import Program
from unwind.resolve.resolver import Resolver
from unwind.symbolize.answer import Answer

STACKS = 8


def told(answers: tuple[Answer, ...]) -> list[tuple[object, ...]]:
    return [
        (each.verdict, each.linkage_name, each.name, each.linkage_names, each.evidence, each.reason, each.vaddr)
        for each in answers
    ]


def program_of(world: World, trampolines: list[int]) -> Program:
    return Program(
        world.classes,
        world.records,
        world.tails,
        ListedCode(world.sites, world.jumps, world.addresses, signal_returns=trampolines),
        exports=exports(*world.classes),
        slot_calls={site: SlotCall(slot) for site, slot in world.slots.items()},
        vtables=world.vtables,
        pointer_jumps=world.pointer_jumps,
    )


@settings(deadline=None)
@given(st.data(), worlds())
def test_each_stack_has_the_answer_that_it_has_alone(data: st.DataObject, world: World) -> None:
    bodies = range(len(world.classes))
    places = [vaddr for body in bodies for vaddr in (start(body), ret(body, 0), ret(body, 0) - 1, ret(body, 1))]
    trampolines = data.draw(st.lists(st.sampled_from(places), max_size=2))
    inner = st.sampled_from([*map(pc, bodies), *places])
    outer = st.lists(st.one_of(st.sampled_from(places), st.none()), max_size=4)
    together = Resolver(program_of(world, trampolines))
    for _ in range(STACKS):
        stack = (data.draw(inner), *data.draw(outer))
        alone = Resolver(program_of(world, trampolines)).resolve(stack)
        answers = together.resolve(stack)
        assert told(answers) == told(alone)
