"""Functions that an import like `qsort` calls back: the frame inwards of the C library is the one that it was given."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icf.model import Callback, Evidence, MemberFlag, MemberRef, Vaddr, Verdict
from tests.fuzz.limits import many
from tests.unwind.support import MARKED, assert_same, call, fold, pc, ret, start, tail
from unwind.process.process import Module, Process
from unwind.program.exports import Export, ListedExports
from unwind.program.parts import CallRecord, CallSite, Jumps, ListedCode, SiteKind
from unwind.program.program import Linkage, Program
from unwind.resolve.explain import explain
from unwind.resolve.places import Marked
from unwind.resolve.resolver import Resolver
from unwind.samples.recording import Losses
from unwind.samples.stack import Stack
from unwind.second_reader.resolver import SecondResolver
from unwind.symbolize.answer import Answer

TAKEN = MemberFlag.ADDRESS_TAKEN
P, LIBC, OTHER = 0x10_0000_0000, 0x20_0000_0000, 0x30_0000_0000  # where the modules lie
SIZE_BYTES = 0x100000
QSORT, SORT, FREE = range(3)  # functions of the C library; the address of `SORT` has no symbol there
COMPARATORS, CALLER, MERGED, OUTER = range(
    4
)  # of the program: three comparators, one caller, two callers, their caller
INDIRECT, NONE = CallSite(SiteKind.INDIRECT), CallSite(SiteKind.NONE)
LIBRARY = ListedExports([Export("qsort", start(QSORT), "V2"), Export("__libc_start_main", start(FREE), "V34")])
TRAMPOLINE = start(5)


def direct(body: int) -> CallSite:
    return CallSite(SiteKind.DIRECT, target=start(body))


def imports(symbol: str) -> CallSite:
    return CallSite(SiteKind.IMPORT, symbol=symbol)


LIBRARY_SITES = {
    ret(QSORT): direct(SORT),
    ret(SORT): direct(SORT),
    ret(SORT, 1): INDIRECT,
    ret(FREE): imports("malloc"),
}
PROGRAM_SITES = {ret(CALLER): imports("qsort@V2"), ret(MERGED): imports("qsort@V2"), ret(OUTER): direct(MERGED)}
PROGRAM_SITES |= {ret(OUTER, 1): direct(MERGED), ret(CALLER, 1): imports("qsort@V2")}
INSIDE = (LIBC + ret(SORT, 1), LIBC + ret(SORT), LIBC + ret(QSORT))  # frames of the library, innermost first


def given_to(site: int, caller: tuple[int, int] | None, member: int, body: int = COMPARATORS) -> Callback:
    ref = None if caller is None else MemberRef(*caller)
    return Callback(Vaddr(site), ref, MemberRef(body, member), Evidence.OBJECT)


ROWS = (
    given_to(ret(CALLER), None, 1),
    given_to(ret(MERGED), (MERGED, 0), 0),
    given_to(ret(MERGED), (MERGED, 1), 2),
)


def process(
    rows: tuple[Callback, ...] = ROWS,
    sites: Mapping[int, CallSite] | None = None,
    exported: ListedExports = LIBRARY,
    others: ListedExports | None = None,
    jumps: Mapping[int, Jumps | None] | None = None,
    records: tuple[CallRecord, ...] = (),
    library_sites: Mapping[int, CallSite] | None = None,
    *,
    is_whole: bool = True,
) -> Process:
    classes = [
        fold(COMPARATORS, 3, MARKED, marks=[TAKEN] * 3),
        fold(CALLER, 1, MARKED),
        fold(MERGED, 2, MARKED),
        fold(OUTER, 1, MARKED),
    ]

    def program(linkage: Linkage) -> Program:
        return Program(
            classes,
            records,
            [tail((OUTER, 0), (COMPARATORS, 2))],
            ListedCode({**PROGRAM_SITES, **(sites or {})}, jumps),
            callbacks=rows,
            pointer_jumps=[],
            linkage=linkage,
        )

    def library(linkage: Linkage) -> Program:
        code = ListedCode({**LIBRARY_SITES, **(library_sites or {})}, signal_returns=[TRAMPOLINE])
        # as a library without debug information: not all of its functions have a symbol
        return Program([fold(QSORT, 1), fold(FREE, 1)], code=code, exports=exported, linkage=linkage)

    def other(linkage: Linkage) -> Program:
        return Program([fold(0, 1)], code=ListedCode({ret(0): INDIRECT}), exports=others, linkage=linkage)

    listed = others or ListedExports()
    return Process(
        [
            Module("program", P, P, P + SIZE_BYTES, program, ListedExports()),
            Module("libc.so.6", LIBC, LIBC, LIBC + SIZE_BYTES, library, exported),
            Module("libother.so", OTHER, OTHER, OTHER + SIZE_BYTES, other, listed),
        ],
        is_whole=is_whole,
    )


def names(answers: tuple[Answer, ...]) -> list[str]:
    return [answer.linkage_name or ",".join(answer.linkage_names) or answer.verdict.value for answer in answers]


ANY = "b0m0,b0m1,b0m2"
COMPARATOR = P + pc(COMPARATORS)


@pytest.mark.parametrize("inside", [INSIDE, INSIDE[::2], (LIBC + ret(SORT, 1),)], ids=["deep", "two", "one"])
def test_the_frame_inwards_of_the_library_is_what_its_function_was_given(inside: tuple[int, ...]) -> None:
    answer, *_ = Resolver(process()).resolve((COMPARATOR, *inside, P + ret(CALLER)))
    assert (answer.verdict, answer.linkage_name, answer.evidence) == (Verdict.UNIQUE, "b0m1", "object")
    # further out it is a return address, maybe less one, as those of the library
    outer = tuple(address - 1 for address in inside)
    stack = (P + pc(OUTER), P + ret(COMPARATORS), *outer, P + ret(CALLER) - 1)
    assert names(Resolver(process(sites={ret(COMPARATORS): INDIRECT})).resolve(stack))[1] == "b0m1"


def test_each_member_of_a_merged_caller_has_its_own() -> None:
    stack = (COMPARATOR, *INSIDE, P + ret(MERGED))
    answer = Resolver(process()).resolve((*stack, None))[0]
    assert (answer.verdict, answer.linkage_names) == (Verdict.NARROWED, ("b0m0", "b0m2"))
    records = (call((OUTER, 0), (MERGED, 1)), call((OUTER, 0), (MERGED, 0), 1))
    resolver = Resolver(process(records=records))
    assert names(resolver.resolve((*stack, P + ret(OUTER))))[0] == "b0m2"
    assert names(resolver.resolve((*stack, P + ret(OUTER, 1))))[0] == "b0m0"


def test_what_a_comparator_tail_calls_may_be_in_its_place() -> None:
    rows = (given_to(ret(CALLER), None, 0, OUTER),)  # which tail-calls b0m2
    assert names(Resolver(process(rows)).resolve((COMPARATOR, *INSIDE, P + ret(CALLER))))[0] == "b0m2"
    # if it can tail-call anything, nothing is excluded
    wild = {start(OUTER): None}
    assert names(Resolver(process(rows, jumps=wild)).resolve((COMPARATOR, *INSIDE, P + ret(CALLER))))[0] == ANY


def test_a_comparator_that_cannot_lead_to_the_frame_says_nothing() -> None:
    rows = (given_to(ret(CALLER), None, 0, CALLER),)
    assert names(Resolver(process(rows)).resolve((COMPARATOR, *INSIDE, P + ret(CALLER))))[0] == ANY


def test_a_comparator_that_sorts_has_its_own_call() -> None:
    inner = (COMPARATOR, *INSIDE, P + ret(MERGED))
    outer = (*INSIDE, P + ret(CALLER))
    sites = {ret(COMPARATORS): imports("qsort@V2")}
    answers = Resolver(process(sites=sites)).resolve((*inner, *outer))
    assert names(answers)[0] == "b0m0,b0m2"
    rows = (*ROWS, given_to(ret(COMPARATORS), (COMPARATORS, 1), 2))
    stack = (COMPARATOR, *INSIDE, P + ret(COMPARATORS), *outer)
    assert names(Resolver(process(rows, sites)).resolve(stack))[0] == "b0m2"


@pytest.mark.parametrize(
    "frames",
    [
        (LIBC + ret(SORT, 1), LIBC + TRAMPOLINE, LIBC + ret(SORT), LIBC + ret(QSORT)),
        (LIBC + TRAMPOLINE, *INSIDE),
        (LIBC + TRAMPOLINE, LIBC + pc(QSORT)),
        (OTHER + ret(0), *INSIDE),
        (LIBC + ret(SORT, 1), OTHER + ret(0), LIBC + ret(QSORT)),
        (None, *INSIDE),
        (*INSIDE, None),
        (LIBC + ret(FREE), LIBC + ret(SORT), LIBC + ret(QSORT)),
        (LIBC + ret(SORT), LIBC + ret(QSORT)),
        (LIBC + ret(SORT, 1), LIBC + ret(SORT, 1), LIBC + ret(QSORT)),
        (LIBC + ret(SORT, 1), LIBC + ret(FREE), LIBC + ret(QSORT)),
        (LIBC + ret(SORT, 1), P + ret(OUTER), LIBC + ret(QSORT)),
        (),
    ],
    ids=[
        "signal between", "handler", "handler of interrupted code", "other module calls", "other module between",
        "unknown calls", "unknown between", "call by a name", "direct call", "pointer called in between",
        "name called in between", "program in between", "nothing",
    ],
)  # fmt: skip
def test_other_frames_in_between_leave_it_open(frames: tuple[int | None, ...]) -> None:
    stack = (COMPARATOR, *frames, P + ret(CALLER))
    assert names(Resolver(process()).resolve(stack))[0] == ANY


def test_an_interrupted_frame_calls_nothing_back() -> None:
    stack = (COMPARATOR, *INSIDE, P + ret(CALLER))
    resolver = Resolver(process())
    for exact in range(1, len(stack)):
        assert names(resolver.resolve(stack, (), (exact,)))[0] == ANY, exact


@pytest.mark.parametrize("losses", [Losses.ANY, Losses.FRAME_POINTERS])
def test_where_frames_may_be_missing_it_is_open(losses: Losses) -> None:
    resolver = Resolver(process(), losses=losses)
    answer = resolver.resolve((COMPARATOR, *INSIDE, P + ret(CALLER)))[0]
    assert answer.linkage_names == ("b0m0", "b0m1", "b0m2")
    # one such frame is enough
    plain = Resolver(process())
    frames = (*INSIDE, P + ret(CALLER))
    for lossy in range(len(frames)):
        step = plain.root
        for idx in reversed(range(len(frames))):
            mark = Marked(frames[idx], losses=losses) if idx == lossy and idx + 1 < len(frames) else frames[idx]
            step = plain.step(step, mark, False)
        found = plain.step(step, Marked(COMPARATOR, losses=losses) if lossy + 1 == len(frames) else COMPARATOR, True)
        assert found.possible == 0b111, lossy


def test_only_the_c_library_calls_nothing_else() -> None:
    stack = (COMPARATOR, *INSIDE, P + ret(CALLER))
    for exported, others in (
        (ListedExports([Export("qsort", start(QSORT), "V2")]), None),  # another library with a qsort
        (LIBRARY, ListedExports([Export("qsort", start(0))])),  # a module that replaces it
        (ListedExports([Export("qsort", start(QSORT), "V1"), Export("__libc_start_main", start(FREE))]), None),
    ):
        assert names(Resolver(process(exported=exported, others=others)).resolve(stack))[0] == ANY
    # one of another version does not replace it
    others = ListedExports([Export("qsort", start(0), "V9")])
    assert names(Resolver(process(others=others)).resolve(stack))[0] == "b0m1"


def test_a_module_that_is_not_listed_may_have_a_qsort_of_its_own() -> None:
    assert names(Resolver(process(is_whole=False)).resolve((COMPARATOR, *INSIDE, P + ret(CALLER))))[0] == ANY


@pytest.mark.parametrize("site", [INDIRECT, direct(OUTER), imports("unknown")])
def test_the_call_itself_has_to_be_that_of_the_import(site: CallSite) -> None:
    stack = (COMPARATOR, *INSIDE, P + ret(CALLER))
    assert names(Resolver(process(sites={ret(CALLER): site})).resolve(stack))[0] == ANY


def test_a_call_without_a_row_is_open() -> None:
    resolver = Resolver(process())
    assert names(resolver.resolve((COMPARATOR, *INSIDE, P + ret(CALLER, 1))))[0] == ANY
    rows = ROWS[:2]  # of one of two callers it is not known
    assert names(Resolver(process(rows)).resolve((COMPARATOR, *INSIDE, P + ret(MERGED), None)))[0] == ANY


def test_answers_do_not_depend_on_the_stacks_before() -> None:
    resolver = Resolver(process())
    for _ in range(2):
        assert names(resolver.resolve((COMPARATOR, *INSIDE, None)))[0] == ANY
        assert names(resolver.resolve((COMPARATOR, *INSIDE, P + ret(CALLER))))[0] == "b0m1"
        assert names(resolver.resolve((COMPARATOR, *INSIDE, P + ret(MERGED), None)))[0] == "b0m0,b0m2"


def test_the_explanation_names_who_passed_it() -> None:
    resolver = Resolver(process())
    stack = Stack((COMPARATOR, *INSIDE, P + ret(CALLER)))
    facts = explain(resolver, stack, resolver.resolve(stack.addresses))[0]
    assert facts[1:] == [
        f"b1m0 passes b0m1 to qsort before {P + ret(CALLER):#x} (object), which calls it back",
        "excluded b0m0, b0m2: not reachable from what is called back",
    ]


@pytest.mark.first_alone  # the second is asked here
@settings(max_examples=many(400), deadline=None)
@given(st.data())
def test_both_resolvers_find_the_same(data: st.DataObject) -> None:
    bodies, kinds = (
        st.integers(0, 3),
        st.sampled_from([INDIRECT, NONE, direct(QSORT), direct(SORT), imports("qsort@V2")]),
    )
    inside = st.sampled_from([ret(body, site) for body in range(3) for site in range(2)])
    own = st.sampled_from([ret(body, site) for body in range(4) for site in range(2)])
    member = st.sampled_from([(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1), (3, 0)])
    rows = data.draw(st.lists(st.builds(given_to, own, st.none() | member, st.integers(0, 2)), max_size=6))
    made = process(
        tuple({(row.call_site, row.caller): row for row in rows}.values()),
        data.draw(st.dictionaries(own, kinds, max_size=3)),
        others=data.draw(st.sampled_from([None, None, ListedExports([Export("qsort", start(0))])])),
        jumps=data.draw(st.sampled_from([None, None, {start(OUTER): None}])),
        records=tuple(data.draw(st.lists(st.builds(call, member, member, st.integers(0, 1)), max_size=6))),
        library_sites=data.draw(st.dictionaries(inside, kinds, max_size=3)),
    )
    first, second = Resolver(made), SecondResolver(made)
    library = st.sampled_from([LIBC + ret(SORT, 1), *INSIDE, LIBC + TRAMPOLINE, LIBC + ret(FREE)])
    other = st.sampled_from([None, OTHER + ret(0)])
    callers = st.builds(lambda body, site: P + ret(body, site), bodies, st.integers(0, 1))
    runs = st.builds(lambda inner, caller: (*inner, caller), st.lists(library, max_size=3), callers | other)
    for _ in range(4):
        innermost = (P + data.draw(st.sampled_from([pc(COMPARATORS), start(COMPARATORS), pc(MERGED)])),)
        frames = sum(data.draw(st.lists(runs, max_size=3)), innermost)
        exact = data.draw(st.sampled_from([(), (), (), (1,), (2,)]))
        assert_same(first.resolve(frames, (), exact), second.resolve(frames, (), exact))
