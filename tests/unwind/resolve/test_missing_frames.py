"""Frames that tail calls leave out: what is claimed, and where nothing is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icf.model import FoldClass, Member, Vaddr
from tests.fuzz.limits import many
from tests.unwind.support import BODY_BYTES, COMPLETE, FRAGMENT, call, die, exports, fold, pc, ret, start, tail
from unwind.program.parts import CallSite, Jumps, ListedCode, SiteKind
from unwind.program.program import Program
from unwind.resolve.resolver import Resolver
from unwind.samples.stack import Stack
from unwind.symbolize.answer import Answer
from unwind.writers.json_lines import JsonWriter
from unwind.writers.text import TextWriter

MAIN = 9  # the body that calls body 0


def at(body: int, nth: int = 0) -> int:
    return start(body) + 0x800 + nth


def jumps(*targets: int, body: int, indirect: bool = False, imports: Sequence[str] = ()) -> tuple[int, Jumps]:
    """The jumps of a body to the starts of others, one after the other."""
    direct = tuple((at(body, nth), start(target)) for nth, target in enumerate(targets))
    named = tuple((at(body, 0x100 + nth), symbol) for nth, symbol in enumerate(imports))
    return start(body), Jumps(direct, indirect, named)


def program(ways: Mapping[int, Sequence[int]], open_bodies: Sequence[int] = ()) -> Program:
    """Bodies 0 to 8, each unmerged, that jump as `ways` says; those of `open_bodies` also by a pointer."""
    listed = dict(jumps(*ways.get(body, ()), body=body, indirect=body in open_bodies) for body in range(9))
    sites = {ret(MAIN): CallSite(SiteKind.DIRECT, target=start(0))}
    return Program([*(fold(body, 1) for body in range(9)), fold(MAIN, 1)], code=ListedCode(sites, listed))


def missing(program: Program, frame: int, *outer: int) -> list[str]:
    """The frames between `frame` and its caller, innermost first: `name`, and `name?` if its jump is open."""
    inner = Resolver(program).resolve((pc(frame), *(outer or (ret(MAIN),))))[0]
    return [said(answer) for answer in inner.missing]


def said(answer: Answer) -> str:
    assert answer.tail_call
    name = answer.linkage_name or "|".join(answer.linkage_names)
    return name if answer.address else f"{name}?"


def test_the_only_way_names_the_frames_and_their_jumps() -> None:
    answers = Resolver(program({0: [1], 1: [2]})).resolve((pc(2), ret(MAIN)))
    assert [said(answer) for answer in answers[0].missing] == ["b1m0", "b0m0"]
    assert [answer.address for answer in answers[0].missing] == [at(1), at(0)]
    assert [answer.verdict.value for answer in answers[0].missing] == ["unmerged", "unmerged"]
    assert answers[1].missing == ()


def test_a_frame_that_was_called_misses_nothing() -> None:
    assert missing(program({0: [1], 1: [2]}), 0) == []


def test_where_no_way_leads_nothing_is_claimed() -> None:
    assert missing(program({0: [1]}), 2) == []
    assert missing(program({0: [1]}, open_bodies=[0, 1]), 2) == []


def test_of_several_ways_what_all_begin_and_end_with_is_certain() -> None:
    fork = {0: [1], 1: [2, 3], 2: [4], 3: [4], 4: [5]}
    assert missing(program(fork), 5) == ["b4m0", "b1m0?", "b0m0"]
    assert missing(program({0: [1, 2], 1: [3], 2: [3]}), 3) == ["b0m0?"]
    assert missing(program({0: [1, 2], 1: [2]}), 2) == ["b0m0?"]


def test_two_jumps_to_one_function_leave_its_frame_certain() -> None:
    assert missing(program({0: [1, 1], 1: [2]}), 2) == ["b1m0", "b0m0?"]


def test_ways_that_lead_elsewhere_are_no_ways() -> None:
    assert missing(program({0: [3, 1], 1: [2, 4], 3: [5]}), 2) == ["b1m0", "b0m0"]


@pytest.mark.parametrize(
    ("ways", "frame", "said"),
    [
        ({0: [0, 1]}, 1, ["b0m0"]),  # a function that jumps to itself first, as often as it likes
        ({0: [1], 1: [0]}, 1, ["b0m0"]),  # two that jump to each other
        ({0: [1], 1: [0]}, 0, []),  # called, or come around
        ({0: [1], 1: [2], 2: [1, 3]}, 3, ["b2m0", "b1m0", "b0m0"]),
        ({0: [1], 1: [2, 3], 2: [1]}, 3, ["b1m0", "b0m0"]),
        ({0: [1], 1: [1]}, 2, []),
    ],
)
def test_circles_end(ways: dict[int, list[int]], frame: int, said: list[str]) -> None:
    assert missing(program(ways), frame) == said


def test_behind_a_jump_to_anywhere_nothing_is_certain() -> None:
    chain = {0: [1], 1: [2], 2: [3]}
    assert missing(program(chain, open_bodies=[1]), 3) == ["b1m0?", "b0m0"]
    assert missing(program(chain, open_bodies=[0]), 3) == ["b0m0?"]
    assert missing(program({0: [1, 2], 1: [3]}, open_bodies=[2]), 3) == ["b0m0?"]
    unreadable = program(chain)
    unreadable.code = ListedCode({ret(MAIN): CallSite(SiteKind.DIRECT, target=start(0))}, {start(0): None})
    assert missing(unreadable, 3) == []


def test_a_walk_to_everything_is_given_up() -> None:
    wide = [fold(body, 1) for body in range(200)]
    sites = {ret(199): CallSite(SiteKind.DIRECT, target=start(0))}
    for width, expected in ((20, ["b0m0"]), (150, [])):
        ways = dict([jumps(*range(1, width), body=0)])
        assert missing(Program(wide, code=ListedCode(sites, ways)), 3, ret(199)) == expected


def test_through_the_procedure_linkage_table() -> None:
    classes = [fold(body, 1) for body in range(10)]
    sites = {ret(MAIN): CallSite(SiteKind.IMPORT, symbol="b0m0")}
    ways = dict([jumps(body=0, imports=["b1m0"]), jumps(body=1, imports=["b2m0", "elsewhere"])])
    assert missing(Program(classes, code=ListedCode(sites, ways), exports=exports(*classes)), 1) == ["b0m0"]
    assert missing(Program(classes, code=ListedCode(sites, ways), exports=exports(*classes)), 2) == ["b1m0?", "b0m0"]
    ways[start(1)] = jumps(body=1, imports=["b2m0", "free"])[1]  # which does not come back
    assert missing(Program(classes, code=ListedCode(sites, ways), exports=exports(*classes)), 2) == ["b1m0", "b0m0"]
    ways[start(0)] = jumps(1, body=0, imports=["free"])[1]
    assert missing(Program(classes, code=ListedCode(sites, ways), exports=exports(*classes)), 1) == ["b0m0"]
    sites[ret(MAIN)] = CallSite(SiteKind.IMPORT, symbol="elsewhere")
    assert missing(Program(classes, code=ListedCode(sites, ways), exports=exports(*classes)), 2) == []


def test_an_indirect_call_has_no_known_callee() -> None:
    sites = {ret(MAIN): CallSite(SiteKind.INDIRECT)}
    code = ListedCode(sites, dict([jumps(1, body=0)]))
    assert missing(Program([fold(body, 1) for body in range(10)], code=code), 1) == []


def merged() -> Program:
    """b4m0 calls b0m0, b0m1 and b3m0; b3m0 calls b0m0, b3m1 b0m1; b0m0 jumps to b1m0, that to b2m0; so do the m1."""
    classes = [fold(0, 2), fold(1, 2), fold(2, 2), fold(3, 2), fold(4, 1), fold(5, 1)]
    records = [call((4, 0), (0, 0)), call((4, 0), (0, 1), site=1), call((4, 0), (3, 0), site=2)]
    records += [call((3, 0), (0, 0)), call((3, 1), (0, 1))]
    tails = [tail((body, member), (body + 1, member)) for body in (0, 1) for member in (0, 1)]
    ways = dict([jumps(1, body=0), jumps(2, body=1), jumps(5, body=2)])
    return Program(classes, records, tails, ListedCode(jumps=ways))


def test_records_tell_which_functions_of_merged_bodies_are_missing() -> None:
    assert missing(merged(), 2, ret(4)) == ["b1m0", "b0m0"]
    assert missing(merged(), 2, ret(4, 1)) == ["b1m1", "b0m1"]
    assert missing(merged(), 2, ret(3), ret(4, 2)) == ["b1m0", "b0m0"]
    assert missing(merged(), 5, ret(4, 1)) == ["b2m1", "b1m1", "b0m1"]
    answers = Resolver(merged()).resolve((pc(2), ret(4)))
    assert {answer.verdict.value for answer in answers[0].missing} == {"unique"}


def test_one_resolver_tells_a_call_from_a_call_and_a_jump() -> None:
    classes = [fold(0, 2), fold(1, 1), fold(2, 1)]
    records = [call((2, 0), (0, 0)), call((2, 0), (1, 0), site=1)]
    program = Program(classes, records, [tail((1, 0), (0, 0))], ListedCode(jumps=dict([jumps(0, body=1)])))
    resolver = Resolver(program)
    for site, expected in ((0, []), (1, ["b1m0"]), (0, [])):
        answers = resolver.resolve((pc(0), ret(2, site)))
        assert (answers[0].linkage_name, [said(each) for each in answers[0].missing]) == ("b0m0", expected)


def test_a_missing_frame_may_have_candidates() -> None:
    assert missing(merged(), 2, ret(3)) == ["b1m0|b1m1", "b0m0|b0m1"]
    assert missing(merged(), 5, ret(3)) == ["b2m0|b2m1", "b1m0|b1m1", "b0m0|b0m1"]
    answers = Resolver(merged()).resolve((pc(2), ret(3)))
    assert {answer.verdict.value for answer in answers[0].missing} == {"ambiguous"}


def test_a_frame_further_in_decides_what_is_missing_further_out() -> None:
    classes = [fold(0, 2), fold(1, 2), fold(2, 2), fold(3, 2), fold(4, 2)]
    records = [call((3, 0), (0, 0)), call((3, 1), (0, 1)), call((1, 0), (2, 0)), call((1, 1), (4, 1))]
    tails = [tail((0, 0), (1, 0)), tail((0, 1), (1, 1))]
    program = Program(classes, records, tails, ListedCode(jumps=dict([jumps(1, body=0)])))
    _, middle, outer = Resolver(program).resolve((pc(4), ret(1), ret(3)))
    assert (middle.linkage_name, outer.linkage_name) == ("b1m1", "b3m1")
    assert [said(answer) for answer in middle.missing] == ["b0m1"]


def test_an_outlined_part_belongs_to_its_function() -> None:
    classes = [fold(0, 2), fold(1, 2, COMPLETE | FRAGMENT, dies=[die(0, 0), die(0, 1)]), fold(2, 1), fold(4, 1)]
    ways = dict([jumps(1, body=0), jumps(2, body=1)])
    program = Program(classes, [call((4, 0), (0, 0))], code=ListedCode(jumps=ways))
    assert missing(program, 1, ret(4)) == []
    assert missing(program, 2, ret(4)) == ["b0m0"]


def test_so_does_one_that_only_its_symbol_names() -> None:
    names = ["_Z1fv", "_Z1fv.cold", "_Z1gv", "main"]
    classes = [FoldClass(Vaddr(start(body)), BODY_BYTES, (Member(name),), COMPLETE) for body, name in enumerate(names)]
    code = ListedCode({ret(3): CallSite(SiteKind.DIRECT, target=start(0))}, dict([jumps(1, body=0), jumps(2, body=1)]))
    assert missing(Program(classes, code=code), 1, ret(3)) == []
    assert missing(Program(classes, code=code), 2, ret(3)) == ["_Z1fv"]


def test_they_are_written_between_the_frames() -> None:
    answers = Resolver(merged()).resolve((pc(2), ret(4)))
    stack = Stack((pc(2), ret(4)))
    inner, outer = json.loads(JsonWriter().line(stack.weight, answers))["frames"]
    assert (inner["name"], outer["name"]) == ("b2m0", "b4m0") and "missing" not in outer
    assert [(frame["name"], frame["address"]) for frame in inner["missing"]] == [
        ("b1m0", f"{at(1):#x}"),
        ("b0m0", f"{at(0):#x}"),
    ]
    assert TextWriter().block(stack.weight, answers) == (
        "stack 1\n"
        "#0  0x0000000000003008  b2m0  [unique, table]\n"
        "    0x0000000000002800  b1m0  [unique, tail call]\n"
        "    0x0000000000001800  b0m0  [unique, tail call]\n"
        "#1  0x0000000000005010  b4m0\n\n"
    )
    open_jump = program({0: [1, 1]})
    answers = Resolver(open_jump).resolve((pc(1), ret(MAIN)))
    line = JsonWriter().line(1, answers)
    assert json.loads(line)["frames"][0]["missing"][0]["address"] is None


_GRAPHS = st.dictionaries(st.integers(0, 5), st.lists(st.integers(0, 5), max_size=3), max_size=6)


@settings(max_examples=many(300), deadline=None)
@given(_GRAPHS, st.integers(1, 5))
def test_what_is_claimed_holds_on_every_way(ways: dict[int, list[int]], frame: int) -> None:
    claimed = [name.rstrip("?") for name in missing(program(ways), frame)][::-1]
    walks = {tuple(f"b{body}m0" for body in walk) for walk in _walks(ways, frame)}
    assert not claimed or walks
    count = len(claimed)
    assert not claimed or any(
        all(list(walk[:split]) == claimed[:split] and _ends_with(walk, claimed[split:]) for walk in walks)
        for split in range(count + 1)
    )
    if len(walks) == 1:
        assert claimed == list(min(walks))


def _ends_with(walk: tuple[str, ...], names: list[str]) -> bool:
    return not names or list(walk[-len(names) :]) == names


def _walks(ways: Mapping[int, Sequence[int]], frame: int) -> list[list[int]]:
    """The functions on the ways from 0 to `frame`, up to a length; one that jumps to itself is there once."""
    found, todo = [], [[0]]
    while todo:
        walk = todo.pop()
        if walk[-1] == frame:
            found.append(walk[:-1])
        if len(walk) < 8:
            todo += [[*walk, target] for target in sorted(set(ways.get(walk[-1], ()))) if target != walk[-1]]
    return found
