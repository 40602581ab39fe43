"""What Microsoft's compiler and linker make: `icf` on ten images and their PDBs, beside LLVM's tools."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from icf.debugfiles.opening import open_any
from icf.microsoft_names import declared_by, spelled_alike
from icf.model import MemberFlag
from icf.pdb.functions import PdbBody, PdbMember, find_bodies, read_procedures
from icf.pe.classes import code_ranges
from tests.e2e.program import icf
from tests.support.microsoft import ARM64, IMAGES, X86_64, microsoft
from tests.support.toolchain import run, tool

_STEP = 7  # every so many functions are looked up: all would take a minute
_EVERY_IMAGE = pytest.mark.parametrize("name", IMAGES)


class Said:
    """Sections, procedures and lines of an image as llvm-pdbutil and llvm-readobj print them; addresses are RVAs."""

    def __init__(self, path: Path) -> None:
        text = run(tool("llvm-readobj"), "--sections", "--file-headers", path).stdout
        self.base = int(re.findall(r"ImageBase: (0x\w+)", text)[0], 16)
        starts = [int(each, 16) for each in re.findall(r"VirtualAddress: (0x\w+)", text)]
        self.procedures: dict[int, list[tuple[str, int]]] = {}  # by RVA: name and size
        self.own_lines: dict[int, list[list[tuple[int, int]]]] = {}  # by RVA: one list of (RVA, line) a subsection
        said = run(tool("llvm-pdbutil"), "dump", "-symbols", "-l", path.with_suffix(".pdb")).stdout
        name, part = "", list[tuple[int, int]]()
        last, module = (-1, -1, -1), 0
        for line in said.splitlines():
            if found := re.match(r" *Mod (\d+) \|", line):
                module = int(found[1])
            elif found := re.match(r" *\d+ \| S_(?:[GL]PROC32|THUNK32) \[size = \d+\] `(.*)`", line):
                name = found[1]
            elif name and (found := re.search(r"addr = (\d+):(\d+), code size = (\d+)", line)):
                self._add(starts, name, int(found[1]), int(found[2]), int(found[3]))
                name = ""
            elif name and (found := re.search(r"kind = .*size = (\d+), addr = (\d+):(\d+)", line)):
                self._add(starts, name, int(found[2]), int(found[3]), int(found[1]))
                name = ""
            elif found := re.match(r"  (\d{4}):([0-9A-F]{8})-([0-9A-F]{8}), line", line):
                segment, low, high = int(found[1]), int(found[2], 16), int(found[3], 16)
                start = starts[segment - 1] if segment else 0
                if (module, start + low, high) != last:  # else another file of the same code
                    part = []
                    self.own_lines.setdefault(start + low, []).append(part)
                last = module, start + low, high
            elif re.match(r" +(?:\d+|[AN]SI) [0-9A-F]{8}\b", line):
                rows = re.findall(r"(\d+|[AN]SI) ([0-9A-F]{8})", line)
                part += [(start + int(at, 16), int(number) if number.isdigit() else 0) for number, at in rows]

    def _add(self, starts: list[int], name: str, segment: int, offset: int, size_bytes: int) -> None:
        if segment and size_bytes:  # 0: the linker removed it
            self.procedures.setdefault(starts[segment - 1] + offset, []).append((name, size_bytes))


@cache
def said(name: str) -> Said:
    return Said(microsoft(name))


def written(member: PdbMember) -> str:
    """The name of a function as its record has it, but for spelling."""
    declared = None if member.flags & MemberFlag.NAMELESS else declared_by(member.name)
    return spelled_alike(declared.name if declared else member.name)


@cache
def bodies_of(name: str) -> list[PdbBody]:
    with open_any(str(microsoft(name)), None, ()) as image:
        assert image.format == "PE" and image.pdb is not None
        return find_bodies(image.pdb, read_procedures(image.pdb), code_ranges(image))


def symbolized(path: Path, vaddrs: list[int], folder: Path) -> Iterator[list[dict[str, Any]]]:
    """The frames of each address, innermost first."""
    text = icf("symbolize", "--style", "json", "--no-demangle", "--cache-dir", folder, "-e", path, *map(hex, vaddrs))
    for each in json.loads(text):
        yield each["Symbol"]


@_EVERY_IMAGE
def test_the_functions_of_each_body_are_those_of_the_records(name: str) -> None:
    true = said(name).procedures
    ours = {body.start: body for body in bodies_of(name)}
    assert ours.keys() == true.keys() and len(ours) > 500
    for rva, body in ours.items():
        assert body.end - body.start == max(size for _, size in true[rva])
        assert len(body.members) == len(true[rva])
        if len(body.members) > 1:
            assert sorted(map(written, body.members)) == sorted(spelled_alike(record) for record, _ in true[rva])
    assert sum(len(body.members) > 1 for body in ours.values()) >= 10


@_EVERY_IMAGE
def test_every_function_with_external_linkage_has_its_linkage_name(name: str) -> None:
    for body in bodies_of(name):
        for member in body.members:
            assert not member.flags & MemberFlag.NAMELESS or member.flags & MemberFlag.LOCAL, member.name


@_EVERY_IMAGE
def test_names_and_lines_are_those_of_the_records(name: str, tmp_path: Path) -> None:
    path, true = microsoft(name), said(name)
    asked = []
    for body in bodies_of(name)[::_STEP]:
        parts = true.own_lines.get(body.start, [])
        if len(body.members) == 1 and len(parts) == 1 and parts[0]:
            asked += [(body, sorted(parts[0], key=itemgetter(0)), rva) for rva in range(body.start, body.end, 13)]
    frames = symbolized(path, [true.base + rva for _, _, rva in asked], tmp_path)
    inlined = 0
    for (body, rows, rva), found in zip(asked, frames, strict=True):
        assert found[-1]["FunctionName"] == body.members[0].name
        row = bisect_right(rows, rva, key=itemgetter(0)) - 1
        if len(found) == 1:  # else it is the line of the inlined call, which can have code in several places
            assert found[0]["Line"] == (rows[row][1] if row >= 0 else 0), hex(rva)
        else:
            assert found[-1]["Line"] in {line for _, line in rows}, hex(rva)
        assert all(each["FunctionName"] and each["FileName"] for each in found[:-1])
        inlined += len(found) - 1
    assert len(asked) > 500 and inlined > 100


@_EVERY_IMAGE
def test_an_address_in_a_merged_body_has_all_of_its_functions(name: str, tmp_path: Path) -> None:
    path, base = microsoft(name), said(name).base
    merged = [body for body in bodies_of(name) if len(body.members) > 1]
    stacks = "".join(f"{base + body.start:#x}\n" for body in merged)
    (tmp_path / "stacks").write_text(stacks)
    text = icf("resolve", "-e", path, "--cache-dir", tmp_path, "--out", "json", tmp_path / "stacks")
    answers = [json.loads(line) for line in text.splitlines()]
    frames = [each["frames"][0] for each in answers if "frames" in each]
    assert len(frames) == len(merged)
    for body, frame in zip(merged, frames, strict=True):
        assert frame["verdict"] == "ambiguous"
        # of static functions that are merged with their overloads the name of the source alone is known
        assert frame["candidates"] == sorted({member.name for member in body.members})


@pytest.mark.parametrize("name", [*X86_64[:2], *ARM64[:2]])
def test_machine_code_is_that_of_llvm_objdump(name: str, tmp_path: Path) -> None:
    path, true = microsoft(name), said(name)
    lines = icf("disasm", "-e", path, "--json", "--cache-dir", tmp_path).splitlines()
    ours: dict[int, dict[str, Any]] = {}
    regions = []
    for line in lines:
        each = json.loads(line)
        if "region" in each:
            regions.append((int(each["region"]["address"], 16) - true.base, each["region"]))
        else:
            ours[int(each["address"], 16)] = each
    # each function begins at an instruction of its own, and has its names
    starts = {rva: region for rva, region in regions if region["members"]}
    assert starts.keys() == true.procedures.keys()
    listed = run(tool("llvm-objdump"), "-d", path).stdout
    calls = {
        int(found[1], 16): int(found[2], 16)
        for found in re.finditer(
            r"^ *([0-9a-f]+):(?: (?:[0-9a-f]{2})+)+ *\s+(?:callq|bl)\s+0x([0-9a-f]+)", listed, re.M
        )
    }
    inside = Spans(true)
    compared = 0
    for vaddr, target in calls.items():
        if inside.has(vaddr - true.base) and vaddr in ours:
            compared += 1
            assert ours[vaddr]["mnemonic"] in ("call", "bl"), hex(vaddr)
            assert int(ours[vaddr]["operands"].lstrip("#"), 16) == target, hex(vaddr)
            notes = [note for note in ours[vaddr]["notes"] if note["kind"] == "function"]
            if target - true.base in true.procedures:
                assert notes, hex(vaddr)
                assert notes[0]["members"] == len(true.procedures[target - true.base]), hex(vaddr)
    assert compared > 0.98 * sum(inside.has(vaddr - true.base) for vaddr in calls) and compared > 500


class Spans:
    """The code of procedures."""

    def __init__(self, true: Said) -> None:
        self._spans = sorted((rva, rva + max(size for _, size in each)) for rva, each in true.procedures.items())
        self._starts = [low for low, _ in self._spans]

    def has(self, rva: int) -> bool:
        row = bisect_right(self._starts, rva) - 1
        return row >= 0 and rva < self._spans[row][1]


@pytest.mark.parametrize("name", [X86_64[0], ARM64[0]])
def test_a_symcache_answers_as_the_image_does(name: str, tmp_path: Path) -> None:
    path, base = microsoft(name), said(name).base
    built = icf("cache", "build", "--cache-dir", tmp_path / "built", path)
    assert path.name in built
    vaddrs = [base + body.start for body in bodies_of(name)[:: 3 * _STEP]]
    assert list(symbolized(path, vaddrs, tmp_path / "built")) == list(symbolized(path, vaddrs, tmp_path / "other"))
    assert icf("cache", "verify", "--cache-dir", tmp_path / "built").startswith("good: ")


@_EVERY_IMAGE
def test_a_snapshot_has_what_identifies_the_image(name: str) -> None:
    path = microsoft(name)
    (module,) = json.loads(icf("snapshot", path))
    text = run(tool("llvm-readobj"), "--file-headers", "--coff-debug-directory", path).stdout
    assert int(module["pe"]["timestamp"], 16) == int(re.findall(r"TimeDateStamp: .*\((0x\w+)\)", text)[0], 16)
    assert module["pe"]["image_size_bytes"] == int(re.findall(r"SizeOfImage: (\d+)", text)[0])
    assert module["pe"]["debug_directory_entry_bytes"] == 28 * text.count("DebugEntry {")


def test_what_the_pass_says_without_objects(tmp_path: Path) -> None:
    text = icf("pass", microsoft(X86_64[0]), "-o", tmp_path / "agent.icf")
    assert "162 functions share 59 of 1042 bodies" in text and "named       0 of 232 direct calls" in text
    assert re.search(r"missing     .*kernel32\.lib and \d+ more: virtual calls stay open", text)


def test_what_needs_tables_says_what_makes_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in (X86_64[4], ARM64[4]):
        icf("disasm", "-e", microsoft(name), "--cache-dir", tmp_path, "napi_register_module_v1")
        first, second = capsys.readouterr().err.splitlines()
        assert first.endswith("has no call-site tables, so calls of merged functions are ambiguous")
        assert second.startswith("hint: run 'icf pass IMAGE --objects")


def test_what_the_pass_says_of_an_image_for_arm64(tmp_path: Path) -> None:
    image = microsoft(ARM64[0])
    text = icf("pass", image, "-o", tmp_path / "agent.icf")
    folds = json.loads(icf("dump", "--folds", "--json", image))["classes"]
    merged = {int(each["address"], 16) for each in folds if len(each["members"]) > 1}
    listing = run(tool("llvm-objdump"), "-d", "--no-show-raw-insn", image).stdout
    count = sum(int(target, 16) in merged for target in re.findall(r"\tbl\t0x([0-9a-f]+)", listing))
    assert f"149 functions share {len(merged)} of 1019 bodies" in text and len(merged) == 50
    assert f"named       0 of {count} direct calls" in text and count > 400
    assert "pointers    stay open: of objects for ARM64 only direct calls are read" in text
