"""What `--explain` says, word for word."""

from __future__ import annotations

import json
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from icf.demangle import demangle
from icf.model import ClassFlag, Evidence, MemberFlag, MemberRef, Vaddr, Verdict, Vtable, VtableSlot
from tests.fuzz.limits import many
from tests.unwind.support import MARKED, call, fold, pc, ret, start, tail
from tests.unwind.worlds import World, worlds
from unwind.program.parts import CallSite, Jumps, ListedCode, SiteKind, SlotCall
from unwind.program.program import Program
from unwind.resolve.explain import explain
from unwind.resolve.resolver import Resolver
from unwind.samples.stack import Stack
from unwind.writers.json_lines import JsonWriter
from unwind.writers.text import TextWriter

_UNLISTED = "a function that no table lists"
INDIRECT = CallSite(SiteKind.INDIRECT)
NONE, TAKEN, VIRTUAL = MemberFlag.NONE, MemberFlag.ADDRESS_TAKEN, MemberFlag.VIRTUAL


def explained(program: Program, *addresses: int | None, vptr: int = 0) -> list[str]:
    """The lines of the text output below its head; `vptr` is that of the innermost frame."""
    resolver = Resolver(program)
    stack = Stack(addresses, vptrs=((0, vptr),) if vptr else ())
    answers = resolver.resolve(stack.addresses, stack.vptrs)
    facts = explain(resolver, stack, answers)
    return TextWriter().block(stack.weight, answers, facts).splitlines()[1:-1]


def facts_of(program: Program, frame_idx: int, *addresses: int | None) -> list[str]:
    resolver = Resolver(program)
    stack = Stack(addresses)
    return explain(resolver, stack, resolver.resolve(addresses))[frame_idx]


def test_a_record_and_a_tail_call() -> None:
    classes = [fold(0, 2), fold(1, 2), fold(2, 1)]
    records = [call((2, 0), (1, 1))]
    tails = [tail((1, 0), (0, 0)), tail((1, 1), (0, 1))]
    jumps = {start(1): Jumps(((start(1) + 0x800, start(0)),))}
    program = Program(classes, records, tails, ListedCode(jumps=jumps))
    assert explained(program, pc(0), ret(2), None) == [
        "#0  0x0000000000001008  b0m1  [unique, table]",
        "        - 2 functions share the body at 0x1000: b0m0, b0m1",
        "        - b2m0 calls b1m1 before 0x3010 (table), which tail-calls into this body",
        "        - excluded b0m0: not reachable from that call",
        "    0x0000000000002800  b1m1  [unique, tail call]",
        "        - entered by the call before 0x3010",
        "        - every path from the call to the frame leads through it, by its jump at 0x2800",
        "#1  0x0000000000003010  b2m0",
        "        - the body at 0x3000 has one function",
        "#2                   ?  [unknown: outside of the image]",
    ]


def test_a_frame_further_in_names_its_caller() -> None:
    records = [call((1, 0), (0, 0)), call((1, 1), (2, 0))]
    assert explained(Program([fold(0, 2), fold(1, 2), fold(2, 1)], records), pc(0), ret(1)) == [
        "#0  0x0000000000001008  b0m0  [unique, table]",
        "        - 2 functions share the body at 0x1000: b0m0, b0m1",
        "        - b1m0 calls b0m0 before 0x2010 (table)",
        "        - excluded b0m1: not reachable from that call",
        "#1  0x0000000000002010  b1m0  [unique, table]",
        "        - 2 functions share the body at 0x2000: b1m0, b1m1",
        "        - its caller is not known",
        "        - excluded b1m1: its call before 0x2010 does not lead to b0m0",
    ]


def test_several_callers() -> None:
    program = Program([fold(0, 2), fold(1, 2)], [call((1, 0), (0, 0)), call((1, 1), (0, 1))])
    assert facts_of(program, 0, pc(0), ret(1)) == [
        "2 functions share the body at 0x1000: b0m0, b0m1",
        "b1m0 calls b0m0 before 0x2010 (table)",
        "b1m1 calls b0m1 before 0x2010 (table)",
        "possible: b0m0, b0m1: its caller is one of several",
        "the doubt begins with #1, one of b1m0, b1m1: its caller is not known",
    ]


def test_functions_that_call_each_other_pass_the_doubt_on() -> None:
    records = [
        *(call((1, idx), (1, 1 - idx)) for idx in (0, 1)),
        *(call((1, idx), (0, idx), site=1) for idx in (0, 1)),
    ]
    program = Program([fold(0, 2), fold(1, 2)], records)
    stack = (pc(0), ret(1, 1), ret(1), ret(1))
    begins = "the doubt begins with #3, one of b1m0, b1m1: its caller is not known"
    circle = "calls of b1m0, b1m1 lead to each other: this frame is one of several as its caller is"
    assert [facts_of(program, idx, *stack)[4:] for idx in range(3)] == [[begins], [circle, begins], [circle, begins]]
    assert facts_of(program, 3, *stack)[2:] == ["possible: b1m0, b1m1: its caller is not known"]


def test_functions_that_call_themselves_pass_the_doubt_on() -> None:
    program = Program([fold(0, 2)], [call((0, idx), (0, idx)) for idx in (0, 1)])
    assert facts_of(program, 0, pc(0), ret(0))[4:] == [
        "calls of each of b0m0, b0m1 lead back to it: this frame is one of several as its caller is",
        "the doubt begins with #1, one of b0m0, b0m1: its caller is not known",
    ]


def test_a_circle_through_several_bodies() -> None:
    records = [call((body, idx), (1 - body, idx)) for body in (0, 1) for idx in (0, 1)]
    program = Program([fold(0, 2), fold(1, 2)], records)
    assert facts_of(program, 0, pc(0), ret(1), ret(0), ret(1))[4] == (
        "calls of b0m0, b1m0 lead to each other; calls of b0m1, b1m1 lead to each other:"
        " this frame is one of several as its caller is"
    )


def test_the_record_that_would_settle_a_frame() -> None:
    code = ListedCode({ret(2): CallSite(SiteKind.DIRECT, target=start(1))})
    records = [call((1, idx), (0, idx)) for idx in (0, 1)]
    settled = "a record that names what b2m0 calls before 0x3010 would settle it"
    for missing, is_it in (([], True), ([call((2, 0), (1, 0)), call((2, 0), (1, 1))], False)):
        program = Program([fold(0, 2), fold(1, 2), fold(2, 1)], records + missing, code=code)
        facts = facts_of(program, 0, pc(0), ret(1), ret(2))
        assert facts[4].startswith("the doubt begins with #1, one of b1m0, b1m1: ")
        assert (facts[5:] == [settled]) is is_it
    for named in (0, 1):
        program = Program([fold(0, 2), fold(1, 2), fold(2, 1)], [*records, call((2, 0), (1, named))], code=code)
        answers = Resolver(program).resolve((pc(0), ret(1), ret(2)))
        assert [answer.verdict for answer in answers[:2]] == [Verdict.UNIQUE, Verdict.UNIQUE]


def test_what_the_code_says_where_there_is_no_record() -> None:
    sites = {
        ret(1, 0): CallSite(SiteKind.DIRECT, target=start(0)),
        ret(1, 1): CallSite(SiteKind.DIRECT, target=start(2)),
        ret(1, 2): CallSite(SiteKind.IMPORT, symbol="_Z1fv"),
        ret(1, 3): INDIRECT,
    }
    jumps = {start(2): Jumps(indirect=True)}
    program = Program([fold(0, 2), fold(1, 1), fold(2, 1)], code=ListedCode(sites, jumps))
    assert [facts_of(program, 0, pc(0), ret(1, site))[1] for site in range(5)] == [
        "b1m0 calls the body before 0x2010, and no record says which function of it",
        "b1m0 calls b2m0 at 0x3000 before 0x2020 (decoded)",
        "b1m0 calls the import f() before 0x2030 (decoded)",
        "b1m0 calls through a pointer before 0x2040",
        "b1m0 may call anything: code that cannot be read before 0x2050",
    ]


def test_pointers_lead_to_marked_functions_only() -> None:
    classes = [fold(0, 3, MARKED, marks=[NONE, TAKEN, VIRTUAL]), fold(1, 1)]
    program = Program(classes, code=ListedCode({ret(1): INDIRECT}))
    excluded = "excluded b0m0: no pointer leads to it: its address is not taken, and no vtable has it"
    assert facts_of(program, 0, pc(0), ret(1)) == [
        "3 functions share the body at 0x1000: b0m0, b0m1, b0m2",
        "b1m0 calls through a pointer before 0x2010",
        excluded,
        "possible: b0m1, b0m2: indirect call before 0x2010",
    ]
    assert facts_of(program, 1, pc(1), ret(0), None)[1:3] == [
        "called from outside of the image, through a pointer",
        "excluded b0m0: nothing outside has its address",
    ]
    assert facts_of(Program([fold(0, 2)]), 1, pc(0), ret(0), None)[1] == (
        "called from outside of the image, so all of them are possible"
    )


def test_slots_and_vtable_pointers() -> None:
    classes = [fold(0, 3, MARKED, marks=[VIRTUAL] * 3), fold(1, 1)]
    vtables = [
        Vtable(Vaddr(0x90010 + 0x100 * idx), Vaddr(0x90000 + 0x100 * idx), (VtableSlot(slot, MemberRef(0, idx)),))
        for idx, slot in enumerate((2, 2, 3))
    ]
    slot_calls = {ret(1): SlotCall(2, Evidence.DECODED)}
    code = ListedCode({ret(1): INDIRECT})
    program = Program(classes, code=code, slot_calls=slot_calls, vtables=vtables, pointer_jumps=[])
    by_slot = "b1m0 calls by slot 2 of a vtable before 0x2010 (decoded)"
    assert explained(program, pc(0), ret(1))[3:6] == [
        "        - 3 functions share the body at 0x1000: b0m0, b0m1, b0m2",
        f"        - {by_slot}",
        "        - excluded b0m2: a vtable does not have it in slot 2, and the function there does not tail-call it",
    ]
    assert explained(program, pc(0), ret(1), vptr=0x90110)[:5] == [
        "#0  0x0000000000001008  b0m1  [unique, vptr]",
        "        - 3 functions share the body at 0x1000: b0m0, b0m1, b0m2",
        "        - its object's vtable pointer is 0x90110",
        f"        - {by_slot}",
        "        - excluded b0m0, b0m2: that vtable does not have it in slot 2, and the function there does not"
        " tail-call it",
    ]
    assert explained(program, pc(0), ret(1), vptr=0x7777)[4] == (
        "        - its object's vtable pointer is 0x7777: not used: the tables do not list it, or it may have changed"
        " since"
    )


def test_a_contradiction() -> None:
    program = Program([fold(0, 2), fold(1, 2), fold(2, 1)], [call((1, 0), (2, 0)), call((1, 1), (2, 0))])
    assert facts_of(program, 0, pc(0), ret(1)) == [
        "2 functions share the body at 0x1000: b0m0, b0m1",
        "each of b1m0, b1m1 calls b2m0 before 0x2010 (table), which does not tail-call into this body",
        "nothing possible at 0x2010 calls a function at 0x1008: the two frames do not fit together; "
        "each is resolved alone",
    ]


def test_with_a_frame_missing_what_does_not_fit_is_excluded() -> None:
    sites = {ret(1): CallSite(SiteKind.DIRECT, target=start(2)), ret(2): CallSite(SiteKind.DIRECT, target=start(0))}
    records = [call((1, 0), (2, 0)), call((2, 0), (0, 1))]
    program = Program([fold(0, 2), fold(1, 1), fold(2, 1)], records, code=ListedCode(sites))
    facts = facts_of(program, 0, pc(0), ret(1))
    assert "excluded b0m0: not reachable from that call with one frame in between" in facts


def test_thousands_of_candidates_are_counted() -> None:
    program = Program(
        [fold(0, 2000, ClassFlag.NONE), fold(1, 1)], code=ListedCode({ret(1): CallSite(SiteKind.INDIRECT)})
    )
    assert facts_of(program, 0, pc(0), ret(1)) == [
        "2,000 functions share the body at 0x1000: b0m0, b0m1, b0m2, b0m3 and 1,996 more, and maybe others",
        "b1m0 calls through a pointer before 0x2010",
        "possible: b0m0, b0m1, b0m2, b0m3 and 1,997 more: indirect call before 0x2010",
    ]


def test_as_json() -> None:
    program = Program([fold(0, 2), fold(1, 1)], [call((1, 0), (0, 1))])
    resolver, stack = Resolver(program), Stack((pc(0), ret(1)))
    answers = resolver.resolve(stack.addresses)
    frames = json.loads(JsonWriter().line(stack.weight, answers, explain(resolver, stack, answers)))["frames"]
    assert frames[0]["explain"][1] == "b1m0 calls b0m1 before 0x2010 (table)"
    assert frames[1]["explain"] == ["the body at 0x2000 has one function"]
    plain = json.loads(JsonWriter().line(stack.weight, answers))["frames"]
    assert "explain" not in plain[0]


@settings(max_examples=many(100), deadline=None)
@given(st.data(), worlds())
def test_a_function_that_is_no_candidate_any_more_is_listed_as_excluded(data: st.DataObject, world: World) -> None:
    program = world.program()
    resolver = Resolver(program)
    bodies = st.integers(0, len(world.classes) - 1)
    outer = data.draw(st.lists(st.one_of(st.builds(ret, bodies, st.integers(0, 1)), st.none()), max_size=4))
    stack = Stack((pc(data.draw(bodies)), *outer))
    answers = resolver.resolve(stack.addresses)
    shown = [frame for answer in answers for frame in (answer, *answer.missing)]
    for answer, facts in zip(shown, explain(resolver, stack, answers), strict=True):
        body = program.body_at(answer.vaddr) if answer.size_bytes else None
        if body is None or body.settled or answer.tail_call or answer.verdict is Verdict.CONTRADICTED:
            continue
        left = {answer.linkage_name} if answer.linkage_name else set(answer.linkage_names)
        fallen = {demangle(member.name) for member in body.members} - {demangle(name or "") for name in left}
        lines = [fact for fact in facts if fact.startswith("excluded ")]
        told = [
            re.match("excluded (.*?): (?:not reachable|that|no pointer|nothing|its call|a vtable)", line)
            for line in lines
        ]
        assert fallen == {name for match in told if match for name in match[1].split(", ")} - {_UNLISTED}
