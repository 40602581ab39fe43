"""The resolver on a linked image: assembly that lld folds, tables as the pass would write them, the command.

main -> a -> p, main -> b -> q; a = b and p = q after folding; t jumps on to a. Labels name return addresses.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from icf.cli import main
from icf.elf.image import Image
from icf.model import ClassFlag, DieOffset, Evidence, FoldClass, Member, MemberRef, TailCall, Vaddr
from icf.tables.dcall import DirectCalls, encode_dcall
from icf.tables.icftable import IcfTable
from icf.tables.icfwriter import encode_icf
from linkpass.rewrite.edits import SectionEdit
from linkpass.rewrite.sections import rewrite
from tests.support.toolchain import compile_object, link
from unwind import open_resolver
from unwind.program.from_image import load_program
from unwind.program.parts import SiteKind
from unwind.resolve.resolver import Resolver


def _function(name: str, *body: str) -> str:
    return "\n".join([
        f'.section .text.{name},"ax",@progbits', f".globl {name}", f".type {name},@function", f"{name}:",
        *body, f".size {name}, .-{name}", "",
    ])  # fmt: skip


SOURCE = "".join(
    [
        _function("p", "nop", "nop", "ret"),
        _function("q", "nop", "nop", "ret"),
        _function("_ZN1sC1Ev", "nop", ".globl _ZN1sC2Ev", ".set _ZN1sC2Ev, _ZN1sC1Ev", "ret"),
        _function("a", "push %rbx", "call p", ".globl in_a", "in_a: pop %rbx", "ret"),
        _function("b", "push %rbx", "call q", "pop %rbx", "ret"),
        _function("t", "jmp b", "int3"),
        _function("w", "jmp *%rax"),
        _function(
            "main",
            "push %rbx",
            *(
                line
                for name in ("a", "b", "t", "w", "_ZN1sC1Ev")
                for line in (f"call {name}", f".globl after_{name}", f"after_{name}:")
            ),
            "call *%rax",
            ".globl after_pointer",
            "after_pointer: pop %rbx",
            "ret",
        ),
    ]
)
DIES = {"p": 1, "q": 2, "a": 3, "b": 4, "t": 5, "main": 6}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("image")
    return link(directory / "plain", "lld", compile_object(SOURCE, suffix=".s"), "-Wl,--icf=all", "-no-pie")


@pytest.fixture(scope="module")
def at(plain: Path) -> dict[str, int]:
    with Image.open(plain) as image:
        symbols = image.symbols
        return {symbols.name(row): int(symbols.value[row]) for row in range(symbols.count)}


@pytest.fixture(scope="module")
def annotated(plain: Path, at: dict[str, int]) -> Path:
    def fold(size_bytes: int, *names: str) -> FoldClass:
        members = tuple(Member(name, DieOffset(DIES[name])) for name in names)
        return FoldClass(Vaddr(at[names[0]]), size_bytes, members, ClassFlag.MEMBERS_COMPLETE)

    classes = sorted((fold(3, "p", "q"), fold(8, "a", "b"), fold(6, "t")), key=lambda one: one.vaddr)
    place = {
        member.name: MemberRef(class_idx, idx)
        for class_idx, one in enumerate(classes)
        for idx, member in enumerate(one.members)
    }
    calls = [("in_a", "p", "a"), ("in_a", "q", "b"), *((f"after_{name}", name, "main") for name in "abt")]
    direct = DirectCalls.of([(at[site], DIES[callee], DIES[caller]) for site, callee, caller in calls])
    one_unit = np.array([0], np.uint64), np.array([100], np.uint64)
    dcall, order = encode_dcall(direct, *one_unit)
    evidence = bytes([Evidence.RELOCATION] * len(order))
    table = IcfTable(classes, [TailCall(Vaddr(at["t"]), place["t"], place["b"])], evidence)
    out = plain.with_name("annotated")
    edits = [SectionEdit(".debug_icf", encode_icf(table, {})), SectionEdit(".debug_dcall", dcall)]
    with Image.open(plain) as image:
        rewrite(image, out, edits)
    return out


def names(image_path: Path, *addresses: int) -> list[str]:
    with Image.open(image_path) as image:
        answers = Resolver(load_program(image)).resolve(addresses)
        return [answer.linkage_name or "|".join(answer.linkage_names) or answer.verdict.value for answer in answers]


def test_folding_happened(at: dict[str, int]) -> None:
    assert at["p"] == at["q"] and at["a"] == at["b"]


def test_the_records_of_an_image_name_nested_frames(annotated: Path, at: dict[str, int]) -> None:
    for name, inner in (("a", "p"), ("b", "q")):
        assert names(annotated, at["p"], at["in_a"], at[f"after_{name}"]) == [inner, name, "main"]
    assert names(annotated, at["p"], at["in_a"]) == ["p|q", "a|b"]
    assert names(annotated, at["p"], at["in_a"], at["after_pointer"]) == ["p|q", "a|b", "main"]


def test_the_resolver_opens_an_image_by_its_path(annotated: Path, at: dict[str, int], tmp_path: Path) -> None:
    resolver = open_resolver(str(annotated), cache_dir=str(tmp_path / "cache"))
    annotated.rename(annotated.with_name("gone"))  # it is the symcache that knows
    inner, outer, _ = resolver.resolve((at["p"], at["in_a"], at["after_b"]))
    annotated.with_name("gone").rename(annotated)
    assert (inner.name, outer.name) == ("q", "b") and list(tmp_path.iterdir())


def test_a_recorded_tail_call_leads_to_its_callee(annotated: Path, at: dict[str, int]) -> None:
    assert names(annotated, at["q"], at["in_a"], at["after_t"]) == ["q", "b", "main"]


def test_code_decides_what_an_unrecorded_call_can_reach(annotated: Path, at: dict[str, int]) -> None:
    # w jumps wherever a register says; the constructor jumps nowhere, so the stack is wrong
    assert names(annotated, at["p"], at["after_w"]) == ["p|q", "main"]
    with Image.open(annotated) as image:
        resolver = Resolver(load_program(image))
        assert resolver.resolve((at["p"], at["after__ZN1sC1Ev"]))[0].verdict.value == "contradicted"


def test_the_code_is_read_as_it_is(annotated: Path, at: dict[str, int]) -> None:
    with Image.open(annotated) as image:
        code = load_program(image).code
        assert code.call_site(at["after_a"]).kind is SiteKind.DIRECT
        assert code.call_site(at["after_a"]).target == at["a"]
        assert code.call_site(at["after_pointer"]).kind is SiteKind.INDIRECT
        assert code.call_site(at["p"] + 1).kind is SiteKind.NONE
        assert code.call_site(0x10).kind is SiteKind.UNKNOWN
        jumps = code.jumps(at["t"], at["t"] + 6)
        assert jumps is not None and jumps.direct == ((at["t"], at["b"]),) and not jumps.indirect
        assert code.jumps(0x10, 0x20) is None


def test_without_tables_symbols_are_candidates_and_constructor_variants_are_one(
    plain: Path, at: dict[str, int]
) -> None:
    assert names(plain, at["p"], at["in_a"], at["after_b"]) == ["p|q", "a|b", "main"]
    assert names(plain, at["_ZN1sC2Ev"]) == ["_ZN1sC1Ev"]


def test_json_has_one_object_for_each_line(
    annotated: Path, at: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stacks = tmp_path / "stacks.txt"
    stacks.write_text(
        f"{at['p']:#x} {at['in_a']:x} {at['after_b']:#x} x3\n# a comment\n{at['p']:#x}@vptr=0x10 ? # and another\n\n0x1"
    )
    assert main(["resolve", "-e", str(annotated), "--out", "json", str(stacks)]) == 0
    captured = capsys.readouterr()
    first, second, third = map(json.loads, captured.out.splitlines())
    assert captured.err == ""
    assert first["weight"] == 3
    assert first["frames"][0] == {
        "address": f"{at['p']:#x}", "verdict": "unique", "name": "q", "linkage_name": "q", "candidates": [],
        "candidate_names": [], "file": None, "line": None, "column": None, "inlines": [], "evidence": "relocation",
        "reason": None,
    }  # fmt: skip
    assert [frame["verdict"] for frame in first["frames"]] == ["unique", "unique", "unmerged"]
    assert second["weight"] == 1
    assert second["frames"][0]["reason"] == "caller-unknown" and "reason_address" not in second["frames"][0]
    assert second["frames"][0]["candidates"] == ["p", "q"] and second["frames"][0]["name"] is None
    assert second["frames"][1] == {
        "address": None, "verdict": "unknown", "name": None, "linkage_name": None, "candidates": [],
        "candidate_names": [], "file": None, "line": None, "column": None, "inlines": [], "evidence": "",
        "reason": "outside-of-image", "reason_text": "outside of the image",
    }  # fmt: skip
    assert third["frames"][0]["verdict"] == "unknown"


def test_a_bad_line_is_named_and_answers_above_it_stay(
    annotated: Path, at: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stacks = tmp_path / "stacks.txt"
    stacks.write_text(f"{at['p']:#x}\nmain\n")
    assert main(["resolve", "-e", str(annotated), "--no-lines", str(stacks)]) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith("stack 1\n")
    assert captured.err == f"icf: error: {stacks}:2: frame 'main': not a hexadecimal address\n"


def test_an_image_without_tables_is_resolved_with_a_hint(
    plain: Path, at: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stacks = tmp_path / "stacks.txt"
    stacks.write_text(f"{at['p']:#x}\n")
    assert main(["resolve", "-e", str(plain), str(stacks)]) == 0
    captured = capsys.readouterr()
    assert "one of 2" in captured.out
    assert captured.err.endswith(f"hint: run 'icf pass {plain}'\n")


def test_a_program_that_waits_for_an_answer_gets_it(annotated: Path, at: dict[str, int]) -> None:
    command = [sys.executable, "-m", "icf", "resolve", "-e", str(annotated), "--out", "json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        for name, inner in (("a", "p"), ("b", "q")):
            process.stdin.write(f"{at['p']:#x} {at['in_a']:#x} {at[f'after_{name}']:#x}\n".encode())
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert [frame["name"] for frame in answer["frames"]] == [inner, name, "main"]
        process.stdin.close()
        assert process.wait(timeout=30) == 0


def test_a_reader_that_leaves_is_no_error(annotated: Path, at: dict[str, int], tmp_path: Path) -> None:
    stacks = tmp_path / "stacks.txt"
    stacks.write_text(f"{at['p']:#x}\n" * 20_000)
    command = [sys.executable, "-m", "icf", "resolve", "-e", str(annotated), str(stacks)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
