"""Rewritten output of four linkers, as seen by everybody else's tools: nothing new may be said about it.

A long chain of tools runs for each variant, so the programs are small and each variant is linked once.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from icf.elf.image import Image
from icf.elf.symbols import Symbols
from linkpass.rewrite.edits import SectionEdit, SectionGrowth
from linkpass.rewrite.sections import rewrite
from tests.fuzz.limits import peak_memory, reset_peak_memory
from tests.support.toolchain import LINKERS, compile_object, link, run, tool

PROGRAM = """
#include <cstdio>
static int __attribute__((noinline)) local_one(int x) { return x * 3 + 1; }
int main(int argc, char **argv) { return std::printf("%d\\n", local_one(argc)) != 2; }
"""
EMPTY_UNIT = bytes.fromhex(
    "09000000"  # unit_length
    "0500"  # version
    "01"  # DW_UT_compile
    "08"  # address_size
    "00000000"  # debug_abbrev_offset
    "00"  # a null entry
)
KINDS = {
    "pie": ("-fPIC", ["-pie"]),
    "no-pie": ("-fno-pic", ["-no-pie"]),
    "static": ("-fno-pic", ["-static"]),
    "shared": ("-fPIC", ["-shared"]),
}
METHODS = {
    "bfd": ("none", "zlib"),
    "gold": ("none", "zlib"),
    "lld": ("none", "zlib", "zstd"),
    "mold": ("none", "zlib"),
}
EDITS = [SectionEdit(".debug_dcall", bytes(range(256)) * 5), SectionEdit(".debug_icf", b"icf" * 7, align=8)]


def complaints(path: Path) -> dict[str, list[str]]:
    """What tools say that look at the whole file, without what a new layout changes."""
    lint = run(tool("eu-elflint"), "--gnu-ld", path, check=False)
    readelf = run(tool("readelf"), "-SlsrW", path, check=False)
    llvm = run(tool("llvm-readelf"), "-SlsrW", path, check=False)
    verify = run(tool("llvm-dwarfdump"), "--verify", path, check=False)
    anonymous = [re.sub(r"\[ ?\d+\]|symbol \d+", "", line) for line in (lint.stdout + lint.stderr).splitlines()]
    return {
        "eu-elflint": sorted(anonymous),
        "readelf": [readelf.stderr.replace(str(path), "")],
        "llvm-readelf": [llvm.stderr.replace(str(path), "")],
        "llvm-dwarfdump": [line for line in verify.stdout.splitlines() if not line.startswith("Verifying ")],
    }


def build(tmp_path: Path, linker: str, kind: str, *flags: str) -> Path:
    pic, kind_flags = KINDS[kind]
    return link(tmp_path / "a.out", linker, compile_object(PROGRAM, "-O1", "-g", pic), *kind_flags, *flags)


def symbol_sections(image: Image, symbols: Symbols) -> list[tuple[str, str]]:
    """Name and section of each function and object."""
    rows = ((symbols.type == 1) | (symbols.type == 2)) & symbols.is_defined
    return [(symbols.name(row), image.sections[int(symbols.shndx[row])].name) for row in rows.nonzero()[0].tolist()]


def check_tools(path: Path, out: Path, kind: str) -> None:
    assert complaints(out) == complaints(path)
    if kind != "shared":
        assert run(out).stdout == "4\n"
    where = run(tool("gdb"), "-nx", "-batch", "-ex", "info line local_one", out).stdout
    assert 'Line 3 of "' in where
    for name, *flags in (["objcopy"], ["strip", "-o"], ["eu-strip", "-o"], ["llvm-objcopy"]):
        before = run(tool(name), path, *flags, path.with_suffix(f".{name}"), check=False)
        after = run(tool(name), out, *flags, out.with_suffix(f".{name}"), check=False)
        assert (before.returncode, before.stderr) == (after.returncode, after.stderr)
    run(tool("objcopy"), "--only-keep-debug", out, out.with_suffix(".debug"))
    with Image.open(out.with_suffix(".debug")) as debug:
        for edit in EDITS:
            assert bytes(debug.contents(edit.name)) == edit.content


VARIANTS = [(linker, "none", kind) for linker in LINKERS for kind in KINDS]
VARIANTS += [(linker, method, "pie") for linker in LINKERS for method in METHODS[linker] if method != "none"]


@pytest.mark.parametrize(("linker", "method", "kind"), VARIANTS)
def test_added_sections_disturb_nobody(linker: str, method: str, kind: str, tmp_path: Path) -> None:
    path = build(tmp_path, linker, kind, f"-Wl,--compress-debug-sections={method}")
    before, out = path.read_bytes(), tmp_path / "b.out"
    with Image.open(path) as image:
        rewrite(image, out, EDITS)
        build_id = image.build_id
    check_tools(path, out, kind)
    with Image.open(out) as again:
        assert again.build_id == build_id
        rewrite(again, out, EDITS)
    with Image.open(path) as image:
        rewrite(image, path, EDITS)
    assert path.read_bytes() == out.read_bytes() != before


@pytest.mark.parametrize(("linker", "method"), [(linker, method) for linker in LINKERS for method in METHODS[linker]])
def test_a_grown_section_disturbs_nobody(linker: str, method: str, tmp_path: Path) -> None:
    path = build(tmp_path, linker, "pie", f"-Wl,--compress-debug-sections={method}")
    out = tmp_path / "b.out"
    with Image.open(path) as image:
        size_bytes = len(image.contents(".debug_info"))
        growths = [SectionGrowth(".debug_info", EMPTY_UNIT)]
        rewrite(image, out, EDITS, growths)
    with Image.open(out) as image:
        assert bytes(image.contents(".debug_info")[size_bytes:]) == EMPTY_UNIT
        section = image.section(".debug_info")
        assert section is not None and image.is_compressed(section) == (method != "none")
        rewrite(image, tmp_path / "c.out", EDITS, [SectionGrowth(".debug_info", EMPTY_UNIT, keep_bytes=size_bytes)])
    assert out.read_bytes() == (tmp_path / "c.out").read_bytes()
    assert complaints(out)["eu-elflint"] == complaints(path)["eu-elflint"]
    assert run(out).stdout == "4\n"
    assert 'Line 3 of "' in run(tool("gdb"), "-nx", "-batch", "-ex", "info line local_one", out).stdout


@pytest.mark.parametrize("kind", ["pie", "shared"])
@pytest.mark.parametrize("linker", LINKERS)
def test_removed_relocations_leave_no_trace(linker: str, kind: str, tmp_path: Path) -> None:
    path, out = build(tmp_path, linker, kind, "-Wl,--emit-relocs"), tmp_path / "b.out"
    with Image.open(path) as image:
        removals = [s.name for s in image.sections if s.name.startswith(".rela.") and not s.is_alloc]
        assert ".rela.text" in removals
        functions, exported = symbol_sections(image, image.symbols), symbol_sections(image, image.dynamic_symbols)
        rewrite(image, out, EDITS, removals=removals)
    with Image.open(out) as image:
        assert [s.name for s in image.sections if s.name.startswith(".rela.") and not s.is_alloc] == []
        assert symbol_sections(image, image.symbols) == functions
        assert symbol_sections(image, image.dynamic_symbols) == exported
    check_tools(path, out, kind)


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld"])
def test_an_image_for_aarch64_still_runs(linker: str, tmp_path: Path) -> None:
    program = compile_object(PROGRAM, "-O1", "-g", "-fPIC", arch="aarch64")
    path = link(tmp_path / "a.out", linker, program, "-static", "-Wl,--emit-relocs", arch="aarch64")
    out = tmp_path / "b.out"
    with Image.open(path) as image:
        removals = [s.name for s in image.sections if s.name.startswith(".rela.") and not s.is_alloc]
        rewrite(image, out, EDITS, removals=removals)
    assert run(tool("qemu-aarch64"), out).stdout == "4\n"
    assert complaints(out)["llvm-readelf"] == complaints(path)["llvm-readelf"]


def test_a_large_copy_takes_no_memory(tmp_path: Path) -> None:
    source = '.section .debug_blob,"",@progbits\n.fill 8000000,8,0x1234567\n.text\n.globl main\nmain: ret\n'
    path = link(tmp_path / "a.out", "bfd", compile_object(source, suffix=".s"))
    with Image.open(path) as image:
        start_bytes = reset_peak_memory()
        rewrite(image, path, EDITS)
        assert peak_memory() - start_bytes < 16 << 20
    assert path.stat().st_size > 64_000_000
