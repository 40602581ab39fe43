"""`icf verify`: one wrong byte in a table or in the code is found and named, an intact image has nothing wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icf.elf.image import Image
from icf.model import FoldClass, MemberRef, TailCall, Vaddr, Verdict
from icf.tables.dcall import DirectCalls, encode_dcall
from icf.tables.icftable import IcfTable
from icf.tables.icfwriter import encode_icf
from icf.tables.load import Tables, load_tables
from linkpass.pipeline import Options, run_pass
from linkpass.rewrite.edits import SectionEdit
from linkpass.rewrite.sections import rewrite
from linkpass.tables.verify import verify_image
from tests.e2e.program import icf
from tests.e2e.workshop import AARCH64, Toolchain
from tests.linkpass.programs import FOUR, build
from tests.support.paths import ROOT
from tests.support.toolchain import run, tool
from unwind.target.opening import open_resolver

SHOP = ROOT / "testdata" / "shop"


@pytest.fixture(params=["shop.gold", "shop.lld"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A program with its tables."""
    path = Path(shutil.copy(SHOP / request.param, tmp_path))
    run_pass(str(path), Options())
    return path


def problems(path: Path) -> list[str]:
    with Image.open(path) as image:
        return verify_image(image)


def change_code(path: Path, vaddr: int, change: Callable[[int], int]) -> None:
    """Change the byte of the code at an address; the tables no longer say of which code they are."""
    with Image.open(path) as image:
        offset = next(at + vaddr - start for start, end, at in image.backed if start <= vaddr < end)
        digest = image.code_digest
    data = path.read_bytes()
    changed = bytearray(data.replace(digest, bytes(len(digest))))
    changed[offset] = change(changed[offset])
    path.write_bytes(changed)


def rewrite_tables(path: Path, change: Callable[[Tables], tuple[DirectCalls, list[FoldClass], list[TailCall]]]) -> None:
    """Replace the tables by others that are as well-formed; all in one contribution."""
    with Image.open(path) as image:
        tables = load_tables(image)
        calls, classes, tail_calls = change(tables)
        dcall, order = encode_dcall(calls, np.array([0], np.uint64), np.array([1 << 32], np.uint64))
        evidence = bytes(tables.icf.evidence[row] for row in order.tolist())
        table = IcfTable(tuple(classes), tuple(tail_calls), evidence)
        edits = [SectionEdit(".debug_dcall", dcall), SectionEdit(".debug_icf", encode_icf(table, {}))]
        rewrite(image, path, edits)


def with_calls(path: Path, **changes: Callable[[np.ndarray[Any, Any]], None]) -> None:
    """Change columns of the call-site records."""

    def change(tables: Tables) -> tuple[DirectCalls, list[FoldClass], list[TailCall]]:
        columns = {name: getattr(tables.direct, name).copy() for name in ("call_site", "callee_die", "caller_die")}
        for name, edit in changes.items():
            edit(columns[name])
        return DirectCalls(**columns), list(tables.icf.classes), list(tables.icf.tail_calls)

    rewrite_tables(path, change)


def test_an_intact_image_has_nothing_wrong(shop: Path) -> None:
    assert problems(shop) == []
    assert icf("verify", shop).endswith("all agree with the code\n")
    assert '"problems": []' in icf("verify", "--json", shop)


@pytest.mark.parametrize("toolchain", [*FOUR, AARCH64], ids=str)
def test_fresh_tables_verify(toolchain: Toolchain, tmp_path: Path) -> None:
    link_flags = ("-nostdlib", "-Wl,--unresolved-symbols=ignore-all") if toolchain is AARCH64 else ()
    link = build(tmp_path, toolchain, link_flags=link_flags)
    run_pass(str(link.image), Options())
    assert problems(link.image) == []


def test_tables_written_anew_verify(shop: Path) -> None:
    with_calls(shop)
    assert problems(shop) == []


def test_a_call_site_where_no_call_ends(shop: Path) -> None:
    with Image.open(shop) as image:
        site = int(load_tables(image).direct.call_site[0])

    def move(sites: np.ndarray[Any, Any]) -> None:
        sites[0] += 1

    with_calls(shop, call_site=move)
    (problem,) = problems(shop)
    assert problem.startswith(f".debug_dcall: call site {site + 1:#x}, callee 0x")
    assert problem.endswith(": no call ends there")
    out = icf("verify", shop, status=1)
    assert out.splitlines()[0] == f"{shop}: {problem}" and out.endswith(": 1 problems\n")


def test_a_callee_that_the_code_does_not_call(shop: Path) -> None:
    with Image.open(shop) as image:
        tables = load_tables(image)
    first = int(tables.direct.callee_die[0])
    body = next(fold for fold in tables.icf.classes if any(member.die == first for member in fold.members))
    other = next(fold.members[0].die for fold in tables.icf.classes if fold is not body)

    def replace(dies: np.ndarray[Any, Any]) -> None:
        dies[0] = other

    with_calls(shop, callee_die=replace)
    (problem,) = problems(shop)
    assert problem.endswith(f", callee {other:#x}: the code calls {body.vaddr:#x}")


def test_a_callee_in_no_class(shop: Path) -> None:
    def replace(dies: np.ndarray[Any, Any]) -> None:
        dies[0] = 1

    with_calls(shop, callee_die=replace)
    (problem,) = problems(shop)
    assert problem.endswith("callee 0x1: the callee is in no class")


def test_a_caller_that_is_not_there(shop: Path) -> None:
    with Image.open(shop) as image:
        tables = load_tables(image)
    merged = [fold for fold in tables.icf.classes if fold.merged]
    sites = tables.direct.call_site.tolist()
    row, fold = next(
        (row, fold) for row, site in enumerate(sites) for fold in merged if 0 < site - fold.vaddr <= fold.size_bytes
    )

    def replace(dies: np.ndarray[Any, Any]) -> None:
        dies[row] = 1

    with_calls(shop, caller_die=replace)
    (problem,) = problems(shop)
    assert problem.endswith(f"caller 0x1 is not a function at {fold.vaddr:#x}")


def test_a_changed_call_in_the_code(shop: Path) -> None:
    with Image.open(shop) as image:
        site = int(load_tables(image).direct.call_site[0])
    change_code(shop, site - 5, lambda byte: byte ^ 1)  # e8, call, becomes e9, jmp
    found = problems(shop)
    assert found and all(line.startswith(f".debug_dcall: call site {site:#x}, ") for line in found)
    assert all(line.endswith(": no call ends there") for line in found)


def test_a_call_that_goes_elsewhere(shop: Path) -> None:
    with Image.open(shop) as image:
        site = int(load_tables(image).direct.call_site[0])
    change_code(shop, site - 4, lambda byte: byte ^ 1)
    found = problems(shop)
    assert found and all(line.startswith(f".debug_dcall: call site {site:#x}, ") for line in found)
    assert all("the code calls 0x" in line for line in found)


def test_a_tail_call_without_its_jump(shop: Path) -> None:
    with Image.open(shop) as image:
        icf_table = load_tables(image).icf
    jump = icf_table.tail_calls[0].jump
    target = icf_table.classes[icf_table.tail_calls[0].callee.class_idx].vaddr
    change_code(shop, jump, lambda _: 0xC3)
    found = problems(shop)
    assert f".debug_icf: tail call at {jump:#x}: no direct jump to {target:#x}" in found
    assert all(f"tail call at {jump:#x}" in line for line in found)


def test_a_tail_call_in_another_function(shop: Path) -> None:
    with Image.open(shop) as image:
        icf_table = load_tables(image).icf
    tail = icf_table.tail_calls[0]
    other = next(idx for idx in range(len(icf_table.classes)) if idx != tail.caller.class_idx)

    def change(tables: Tables) -> tuple[DirectCalls, list[FoldClass], list[TailCall]]:
        moved = TailCall(Vaddr(tail.jump), MemberRef(other, 0), tail.callee)
        return tables.direct, list(tables.icf.classes), sorted([moved, *tables.icf.tail_calls[1:]], key=key)

    def key(call: TailCall) -> tuple[int, MemberRef, MemberRef]:
        return call.jump, call.caller, call.callee

    rewrite_tables(shop, change)
    assert problems(shop) == [f".debug_icf: tail call at {tail.jump:#x} is outside of its caller's body"]


def test_evidence_that_does_not_fit_the_records(shop: Path) -> None:
    with Image.open(shop) as image:
        rewrite(image, shop, [SectionEdit(".debug_dcall", b"")])
    (problem,) = problems(shop)
    assert problem.startswith(".debug_icf has evidence for ") and problem.endswith(", .debug_dcall has 0")
    icf("verify", shop, status=1)


def test_a_second_pass_refuses_tables_that_do_not_fit(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Image.open(shop) as image:
        site = int(load_tables(image).direct.call_site[0])
    change_code(shop, site - 5, lambda byte: byte ^ 1)
    before = shop.read_bytes()
    icf("pass", shop, status=1)
    assert f"icf: error: {shop}: its tables do not fit its code: .debug_dcall: call site" in capsys.readouterr().err
    assert shop.read_bytes() == before


def test_an_image_without_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    icf("verify", SHOP / "shop.gold", status=1)
    text = capsys.readouterr().err
    assert text.splitlines()[0].endswith("shop.gold: has no .debug_icf, .debug_dcall or .debug_vcall")
    assert text.splitlines()[1] == "hint: run icf pass first"


def test_tables_in_a_stripped_image(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tool("strip"), shop)
    icf("verify", shop, status=1)
    assert "has no .debug_icf" in capsys.readouterr().err


@pytest.mark.parametrize("size_bytes", [0, 5])
def test_a_body_that_is_too_small(shop: Path, size_bytes: int, tmp_path: Path) -> None:
    """No function of it is taken for one that has the body for itself."""
    with Image.open(shop) as image:
        body = next(each for each in load_tables(image).icf.classes if len(each.members) > 1)

    def change(tables: Tables) -> tuple[DirectCalls, list[FoldClass], list[TailCall]]:
        classes = [each._replace(size_bytes=size_bytes) if each == body else each for each in tables.icf.classes]
        return tables.direct, classes, list(tables.icf.tail_calls)

    rewrite_tables(shop, change)
    found = [each for each in problems(shop) if each.startswith(f".debug_icf: class at {body.vaddr:#x}")]
    assert {each.partition(", ")[0].rpartition(" of ")[2] for each in found} == {f"{size_bytes} bytes"}
    for vaddr in (body.vaddr, body.vaddr + body.size_bytes - 1):
        (answer,) = open_resolver(str(shop), cache_dir=str(tmp_path / "cache")).resolve((vaddr,))
        assert answer.verdict is not Verdict.UNMERGED
