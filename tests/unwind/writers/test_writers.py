"""What people read and what scripts read."""

from __future__ import annotations

import json

from icf.model import ClassFlag, Evidence, FoldClass, Member, Vaddr, Verdict
from tests.unwind.support import call, die, fold, pc, ret, start
from unwind.program.frame import Frame
from unwind.program.parts import CallRecord, CallSite, ListedCode, SiteKind
from unwind.program.program import Program
from unwind.resolve.resolver import Resolver
from unwind.samples.recording import RecordedFrame
from unwind.samples.stack import Stack
from unwind.symbolize.answer import Answer
from unwind.writers.json_lines import JsonWriter
from unwind.writers.named import Namer
from unwind.writers.text import TextWriter

CLASSES = [
    FoldClass(Vaddr(0x1000), 0x1000, tuple(map(Member, ("_ZN3fir4leftEv", "_ZN3fir5rightEv"))), ClassFlag(1)),
    fold(1, 1),
    fold(2, 2),
    fold(3, 3),
]
RECORDS = [
    CallRecord(ret(1), die(1, 0), die(2, 1), Evidence.ALIGNED),
    *(call((2, member), (3, member)) for member in range(2)),
]


class OneFunction:
    """Lines of `b1m0`, into which `max` is inlined but for one call."""

    def frames(self, vaddr: int, member_idx: int = 0) -> list[Frame]:
        if not start(1) <= vaddr < start(2):
            return []
        own = Frame("b1m0", "src/main.cc", 40, 5, False)
        return [own] if vaddr < ret(1) else [Frame("_ZN3fir3maxEv", "src/fir.h", 7, 0, True), own]


PROGRAM = Program(CLASSES, RECORDS, code=ListedCode({ret(1, 1): CallSite(SiteKind.INDIRECT)}))
PROGRAM.lines = OneFunction()


def test_text_is_a_block_for_each_stack() -> None:
    resolver, writer = Resolver(PROGRAM), TextWriter()
    blocks = ""
    for stack in (
        Stack((pc(0), ret(1, 1), None), 1200),
        Stack((pc(2), ret(1))),
        Stack((pc(3), ret(2), ret(1, 1))),
        Stack((0x99999999,)),
    ):
        blocks += writer.block(stack.weight, resolver.resolve(stack.addresses))
    assert blocks == (
        "stack 1, seen 1,200 times\n"
        "#0  0x0000000000001008  one of 2  [ambiguous: indirect call before 0x2020]\n"
        "        fir::left()\n"
        "        fir::right()\n"
        "    0x0000000000002020  fir::max() (src/fir.h:7)  [inlined]\n"
        "#1  0x0000000000002020  b1m0 (src/main.cc:40)\n"
        "#2                   ?  [unknown: outside of the image]\n"
        "\n"
        "stack 2\n"
        "#0  0x0000000000003008  b2m1  [unique, aligned]\n"
        "#1  0x0000000000002010  b1m0 (src/main.cc:40)\n"
        "\n"
        "stack 3\n"
        "#0  0x0000000000004008  one of 2 left  [narrowed, table: its caller is one of several]\n"
        "        b3m0\n"
        "        b3m1\n"
        "#1  0x0000000000003010  one of 2  [ambiguous: indirect call before 0x2020]\n"
        "        b2m0\n"
        "        b2m1\n"
        "    0x0000000000002020  fir::max() (src/fir.h:7)  [inlined]\n"
        "#2  0x0000000000002020  b1m0 (src/main.cc:40)\n"
        "\n"
        "stack 4\n"
        "#0  0x0000000099999999  [unknown: in no function of the image]\n"
        "\n"
    )


def test_long_lists_of_candidates_are_cut_in_text_and_whole_in_json() -> None:
    program = Program([fold(0, 30)])
    stack = Stack((pc(0),))
    answers = Resolver(program).resolve(stack.addresses)
    assert TextWriter().block(stack.weight, answers).endswith("        b0m15\n        and 14 more\n\n")
    assert len(json.loads(JsonWriter().line(stack.weight, answers))["frames"][0]["candidates"]) == 30
    text = TextWriter(max_candidates=2).block(stack.weight, answers)
    assert text.endswith("        b0m0\n        b0m1\n        and 28 more\n\n")
    (frame,) = json.loads(JsonWriter(max_candidates=2).line(stack.weight, answers))["frames"]
    assert (frame["candidates"], frame["candidate_names"], frame["more_candidates"]) == (["b0m0", "b0m1"],) * 2 + (28,)


def test_functions_that_nothing_names_may_share_a_body() -> None:
    known = ClassFlag.CALLS_COMPLETE | ClassFlag.ADDRESS_TAKEN_KNOWN
    for count, text in ((1, "one known, or another  ["), (2, "one of 2, or another  [")):
        program = Program([fold(0, count)._replace(flags=known)])
        (answer,) = Resolver(program).resolve((pc(0),))
        assert text in TextWriter().block(1, (answer,))
        (frame,) = json.loads(JsonWriter().line(1, (answer,)))["frames"]
        assert frame["candidates_complete"] is False
        recorded = RecordedFrame(pc(0))
        (named,) = Namer().frame(recorded, answer)
        assert named.name == " | ".join(["b0m0", "b0m1"][:count]) + " | ?" and not named.is_settled
    (answer,) = Resolver(Program([fold(0, 2)])).resolve((pc(0),))
    assert "candidates_complete" not in JsonWriter().line(1, (answer,))
    assert Namer().frame(RecordedFrame(pc(0)), answer)[0].name == "b0m0 | b0m1"


def test_json_has_candidates_by_linkage_name_and_demangled_in_one_order() -> None:
    stack = Stack((pc(0), ret(1, 1), 0x99999999, None))
    answers = Resolver(PROGRAM).resolve(stack.addresses)
    frames = json.loads(JsonWriter().line(stack.weight, answers))["frames"]
    assert frames[0]["candidates"] == ["_ZN3fir4leftEv", "_ZN3fir5rightEv"]
    assert [frame["candidate_names"] for frame in frames] == [["fir::left()", "fir::right()"], [], [], []]


def test_json_keeps_the_order_of_keys_and_has_no_spaces() -> None:
    stack = Stack((pc(2), ret(1)), 7)
    assert JsonWriter().line(stack.weight, Resolver(PROGRAM).resolve(stack.addresses)) == (
        '{"frames":[{"address":"0x3008","verdict":"unique","name":"b2m1","linkage_name":"b2m1","candidates":[],'
        '"candidate_names":[],'
        '"file":null,"line":null,"column":null,"inlines":[],"evidence":"aligned","reason":null},'
        '{"address":"0x2010","verdict":"unmerged","name":"b1m0","linkage_name":"b1m0","candidates":[],'
        '"candidate_names":[],'
        '"file":"src/main.cc","line":40,"column":5,"inlines":[],"evidence":"","reason":null}],"weight":7}\n'
    )


def test_json_has_inlined_functions_innermost_first() -> None:
    stack = Stack((pc(0), ret(1, 1), None))
    frames = json.loads(JsonWriter().line(stack.weight, Resolver(PROGRAM).resolve(stack.addresses)))["frames"]
    inlined = {"name": "fir::max()", "linkage_name": "_ZN3fir3maxEv", "file": "src/fir.h", "line": 7, "column": None}
    assert [frame["inlines"] for frame in frames] == [[], [inlined], []]
    assert (frames[1]["name"], frames[1]["line"]) == ("b1m0", 40)


def test_without_lines_there_are_none() -> None:
    stack = Stack((pc(1),))
    answers = Resolver(PROGRAM).resolve(stack.addresses)
    for with_lines in (True, False):
        (frame,) = json.loads(JsonWriter(with_lines=with_lines).line(stack.weight, answers))["frames"]
        assert (frame["name"], frame["line"]) == ("b1m0", 40 if with_lines else None)
        assert ("main.cc:40" in TextWriter(with_lines=with_lines).block(stack.weight, answers)) == with_lines


def test_names_that_are_no_text_are_shown() -> None:
    name = b"odd\xff".decode("utf-8", "surrogateescape")
    program = Program([FoldClass(Vaddr(0x1000), 16, (Member(name),), ClassFlag.MEMBERS_COMPLETE)])
    stack = Stack((pc(0),))
    answers = Resolver(program).resolve(stack.addresses)
    assert "odd\\xff" in TextWriter().block(stack.weight, answers)
    assert json.loads(JsonWriter().line(stack.weight, answers))["frames"][0]["name"] == name


def test_a_frame_is_written_as_wide_as_its_stack_needs() -> None:
    program = Program([fold(0, 1)])
    resolver, writer = Resolver(program), TextWriter()
    for count in (3, 12, 3):
        stack = Stack((pc(0), *[ret(0)] * (count - 1)))
        lines = writer.block(stack.weight, resolver.resolve(stack.addresses)).splitlines()[1:-1]
        width = len(f"#{count - 1}")
        assert [line.partition("  0x")[0].rstrip() for line in lines] == [f"#{idx}" for idx in range(count)]
        assert {line.index("  0x") for line in lines} == {width}


def test_one_function_that_is_known_may_be_another() -> None:
    """The body may have functions of which nothing is known."""
    alone = Answer(0x10, Verdict.AMBIGUOUS, None, linkage_names=("_Z3onev",))
    first, second = TextWriter().block(1, (alone,)).splitlines()[1:3]
    assert first.split("  ")[1:] == ["0x0000000000000010", "one known, or another", "[ambiguous]"]
    assert second.strip() == "one()"
