"""Both resolvers on random small programs: the first by masks and remembered steps, the second by recursion."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icf.model import Verdict
from tests.fuzz.limits import many
from tests.unwind.support import assert_same, pc, ret, start
from tests.unwind.worlds import World, worlds
from unwind.resolve.resolver import Resolver
from unwind.second_reader.resolver import SecondResolver


@pytest.mark.first_alone  # the second is asked here
@settings(max_examples=many(600), deadline=None)
@given(st.data(), worlds())
def test_both_resolvers_find_the_same(data: st.DataObject, world: World) -> None:
    program = world.program()
    first, second = Resolver(program), SecondResolver(program)
    bodies = st.integers(0, len(world.classes) - 1)
    frame = st.one_of(st.builds(ret, bodies, st.integers(0, 1)), st.builds(ret, bodies, st.integers(0, 1)), st.none())
    for _ in range(4):
        innermost = data.draw(st.sampled_from([pc, start]))
        frames = (innermost(data.draw(bodies)), *data.draw(st.lists(frame, max_size=5)))
        pointers = st.sampled_from([0, 0x5, *(vtable.vaddr for vtable in world.vtables)])
        vptrs = tuple(sorted(data.draw(st.dictionaries(st.integers(0, len(frames) - 1), pointers)).items()))
        exact = data.draw(st.sampled_from([(), (), (), (1,)]))
        assert_same(first.resolve(frames, vptrs, exact), second.resolve(frames, vptrs, exact))


def test_the_worlds_give_every_kind_of_answer() -> None:
    """Random worlds are no test if they hold nothing but ambiguous frames."""
    seen: set[Verdict] = set()

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(st.data(), worlds())
    def collect(data: st.DataObject, world: World) -> None:
        bodies = st.integers(0, len(world.classes) - 1)
        stack = [pc(data.draw(bodies)), *data.draw(st.lists(st.builds(ret, bodies, st.just(0)), max_size=4))]
        seen.update(answer.verdict for answer in SecondResolver(world.program()).resolve(tuple(stack)))

    collect()
    assert seen >= {Verdict.UNMERGED, Verdict.UNIQUE, Verdict.NARROWED, Verdict.AMBIGUOUS, Verdict.CONTRADICTED}
