"""What the scan finds in real compilers' output is what pyelftools finds: every row, every name, every unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from icf.dwarf.columns import (
    COMP_DIR,
    DIE,
    DWO_NAME,
    END,
    FAILED,
    FLAGS,
    HAS_STMT_LIST,
    IS_SPLIT,
    LANGUAGE,
    LOW_PC,
    NAME,
    OFFSET,
    STMT_LIST,
    VERSION,
)
from icf.dwarf.dies import read_dies, resolve
from icf.dwarf.opening import open_debug
from icf.dwarf.scan import scan_functions
from icf.dwarf.units import DebugInfo
from icf.elf.image import Image
from tests.support.dwarf_oracle import Truth, read_truth
from tests.support.dwarf_programs import build
from tests.support.dwarf_units import read_once, uncompiled_kernels
from tests.support.toolchain import run, tool

CODE = [
    *[("gcc", (opt, f"-gdwarf-{version}")) for opt in ("-O0", "-O2") for version in (2, 3, 4, 5)],
    *[("clang", (opt, f"-gdwarf-{version}")) for opt in ("-O0", "-O2") for version in (2, 3, 4, 5)],
    ("gcc", ("-O2", "-gdwarf-4", "-gstrict-dwarf")),
    *[("gcc", ("-O2", f"-gdwarf-{version}", "-gdwarf64")) for version in (3, 4, 5)],
    *[("clang", ("-O2", f"-gdwarf-{version}", "-gdwarf64")) for version in (3, 4, 5)],
    *[("gcc", ("-O1", f"-gdwarf-{version}", "-fdebug-types-section")) for version in (4, 5)],
    *[("clang", ("-O1", f"-gdwarf-{version}", "-fdebug-types-section")) for version in (4, 5)],
    ("clang", ("-O2", "-gdwarf-5", "-fbasic-block-sections=all")),
    ("clang", ("-O2", "-gdwarf-4", "-fbasic-block-sections=all")),
    ("clang", ("-O2", "-gdwarf-5", "-mllvm", "-minimize-addr-in-v5=Ranges")),
    ("clang", ("-O2", "-gdwarf-5", "-gline-tables-only")),
    ("gcc", ("-O2", "-g1", "-gdwarf-4")),
]


def check(path: Path, *, truth: Truth | None = None) -> Truth:
    """Compare all that is read with pyelftools; gives what it found."""
    truth = truth or read_truth(path)
    with Image.open(path) as image:
        debug = open_debug(image)
        for threads in (1, 2):
            scan = scan_functions(debug, threads)
            f, s = scan.functions, scan.sites
            columns = (f.die, f.part, f.low, f.high, f.origin, f.unit)
            found = zip(*(column.tolist() for column in columns), strict=True)
            assert sorted(found) == sorted(truth.functions)
            sites = zip(s.pc.tolist(), s.origin.tolist(), s.caller.tolist(), s.flags.tolist(), strict=True)
            assert list(sites) == truth.sites
        assert debug.errors() == []
        check_units(debug, truth)
        check_names(debug, truth)
    return truth


def check_units(debug: DebugInfo, truth: Truth) -> None:
    assert debug.unit_count == len(truth.units)
    for unit, expected in zip(debug.units.tolist(), truth.units, strict=True):
        assert unit[OFFSET] == expected["offset"] and unit[END] == expected["end"] and unit[DIE] == expected["die"]
        assert unit[VERSION] == expected["version"]
        assert unit[STMT_LIST] == (expected["stmt_list"] or 0)
        assert bool(unit[FLAGS] & HAS_STMT_LIST) == (expected["stmt_list"] is not None)
        assert debug.string(unit[NAME]) == expected["name"]
        assert debug.string(unit[COMP_DIR]) == expected["comp_dir"]
        assert debug.string(unit[DWO_NAME]) == expected["dwo_name"]
        assert bool(unit[FLAGS] & IS_SPLIT) == bool(expected["dwo_name"])
        assert unit[LOW_PC] == expected["low_pc"] and unit[LANGUAGE] == expected["language"]


def check_names(debug: DebugInfo, truth: Truth) -> None:
    offsets = np.array(sorted(truth.named), np.uint64)
    identity = resolve(debug, offsets)
    assert not (read_dies(debug, offsets).flags & np.uint64(FAILED)).any()
    for row, offset in enumerate(offsets.tolist()):
        expected = truth.named[offset]
        assert debug.string(int(identity.name[row])) == expected.name
        assert debug.string(int(identity.linkage_name[row])) == expected.linkage_name
        found = [int(column[row]) for column in (identity.root, identity.decl_line, identity.decl_file)]
        assert found == [expected.root, expected.decl_line, expected.decl_file]
        assert bool(identity.external[row]) == expected.external


@pytest.mark.parametrize(("compiler", "flags"), CODE, ids=lambda value: "".join(value))
def test_compilers(compiler: str, flags: tuple[str, ...]) -> None:
    truth = check(build(compiler, flags))
    assert len(truth.functions) >= (20 if len(flags) == 2 else 0)
    assert len(truth.sites) >= (50 if compiler == "gcc" and "-O2" in flags and len(flags) == 2 else 0)


SPLIT = [
    *[("gcc", ("-O2", f"-gdwarf-{version}")) for version in (4, 5)],
    *[("clang", ("-O2", f"-gdwarf-{version}")) for version in (4, 5)],
    *[("clang", ("-O2", f"-gdwarf-{version}", "-fsplit-dwarf-inlining")) for version in (4, 5)],
    ("gcc", ("-O1", "-gdwarf-5", "-fdebug-types-section")),
    ("clang", ("-O1", "-gdwarf-4", "-fdebug-types-section")),
    ("clang", ("-O2", "-gdwarf-5", "-fbasic-block-sections=all")),
    ("clang", ("-O2", "-gdwarf-4", "-fbasic-block-sections=all")),
]


def described(path: Path) -> tuple[list[Any], list[Any]]:
    """Functions and call sites by name, wherever they are described."""
    with Image.open(path) as image:
        debug = open_debug(image)
        scan = scan_functions(debug)
        assert debug.errors() == [] and debug.missing == []
        f, s = scan.functions, scan.sites

        def names(dies: np.ndarray) -> list[tuple[object, ...]]:
            known = resolve(debug, dies)
            folder = str(path.parent.parent).encode()  # clang names a lambda by its place
            texts = [[debug.string(at).replace(folder, b"") for at in column.tolist()] for column in known[:2]]
            return list(zip(*texts, known.external.tolist(), known.decl_line.tolist(), strict=True))

        languages = debug.units[f.unit, LANGUAGE].tolist()
        functions = zip(names(f.die), f.part.tolist(), f.low.tolist(), f.high.tolist(), languages, strict=True)
        sites = zip(s.pc.tolist(), names(s.origin), names(s.caller), s.flags.tolist(), strict=True)
        return sorted(functions), sorted(sites)


@pytest.mark.parametrize(("compiler", "flags"), SPLIT, ids=lambda value: "".join(value))
def test_split_units_say_what_whole_ones_do(compiler: str, flags: tuple[str, ...]) -> None:
    split = described(build(compiler, (*flags, "-gsplit-dwarf")))
    assert len(split[0]) >= 20
    assert split == described(build(compiler, flags))


@pytest.mark.parametrize("version", [4, 5])
def test_both_builds_of_the_kernels_read_split_units_alike(version: int) -> None:
    path = build("gcc", ("-O2", f"-gdwarf-{version}", "-gsplit-dwarf"))
    with Image.open(path) as image:
        compiled = read_once(image).plain()
        with uncompiled_kernels():
            assert read_once(image).plain() == compiled


def test_functions_in_parts() -> None:
    """gcc moves the cold half of `hot` elsewhere; clang can be made to move every block."""
    for compiler, flags, linker in (
        ("gcc", ("-O2", "-gdwarf-4"), "bfd"),
        ("gcc", ("-O2", "-gdwarf-5"), "bfd"),
        ("clang", ("-O2", "-gdwarf-5", "-fbasic-block-sections=all"), "bfd"),
    ):
        truth = check(build(compiler, flags, linker))
        assert any(part for _, part, *_ in truth.functions)


def test_methods_of_local_classes_are_found_inside_of_them() -> None:
    """gcc does not put them at the end of the unit as it does with all other methods."""
    path = build("gcc", ("-O0", "-gdwarf-5"))
    truth = check(path)
    names = {truth.named[die].name for die, *_ in truth.functions}
    assert {b"m", b"s", b"operator()", b"get", b"again"} <= names


LINKS = [
    ("gcc", ("-O2", "-gdwarf-5"), "gold", ("--icf=all", "--print-icf-sections")),
    ("gcc", ("-O2", "-gdwarf-4"), "gold", ("--icf=all",)),
    ("clang", ("-O2", "-gdwarf-5"), "gold", ("--icf=all",)),
    ("clang", ("-O2", "-gdwarf-5"), "mold", ("--icf=all",)),
    ("gcc", ("-O2", "-gdwarf-4"), "mold", ("--icf=all",)),
    ("gcc", ("-O2", "-gdwarf-5"), "lld", ("--icf=all",)),
    ("clang", ("-O2", "-gdwarf-4"), "lld", ("--icf=all",)),
    ("clang", ("-O2", "-gdwarf-5"), "lld", ("--icf=all", "--compress-debug-sections=zlib")),
    ("gcc", ("-O2", "-gdwarf-5", "-gz=zlib"), "bfd", ("--compress-debug-sections=zlib-gnu",)),
    ("clang", ("-O2", "-gdwarf-5", "-flto=thin"), "lld", ()),
    ("clang", ("-O2", "-gdwarf-4", "-flto=full"), "lld", ()),
    ("gcc", ("-O2", "-gdwarf-5", "-flto"), "bfd", ()),
]


@pytest.mark.parametrize(("compiler", "flags", "linker", "link_flags"), LINKS, ids=lambda value: "".join(value))
def test_linkers(compiler: str, flags: tuple[str, ...], linker: str, link_flags: tuple[str, ...]) -> None:
    check(build(compiler, flags, linker, link_flags))


def test_zstd() -> None:
    """pyelftools does not inflate it: the same link without compression says what is to be found."""
    flags = ("-O2", "-gdwarf-5")
    truth = read_truth(build("clang", flags, "lld"))
    packed = build("clang", flags, "lld", ("--compress-debug-sections=zstd",))
    with Image.open(packed) as image:
        section = image.section(".debug_info")
        assert section is not None and image.is_compressed(section)
    check(packed, truth=truth)


FOLDED = (b"folded_a", b"folded_b", b"folded_c")


def _low_of(truth: Truth, *names: bytes) -> dict[bytes, int]:
    return {name: low for die, _, low, *_ in truth.functions if (name := truth.named[die].name) in names}


def _relocated(path: Path, directory: Path) -> Path:
    """A copy with symbol + addend at every 64-bit relocation of debug information."""
    data = bytearray(path.read_bytes())
    with path.open("rb") as file:
        elf = ELFFile(file)
        for name in (".debug_info", ".debug_addr", ".debug_ranges", ".debug_rnglists"):
            section, rela = elf.get_section_by_name(name), elf.get_section_by_name(".rela" + name)
            if section is None or rela is None:
                continue
            assert isinstance(rela, RelocationSection)
            symbols = elf.get_section(rela["sh_link"])
            assert isinstance(symbols, SymbolTableSection)
            for entry in rela.iter_relocations():
                if entry["r_info_type"] == 1:  # R_X86_64_64
                    value = symbols.get_symbol(entry["r_info_sym"])["st_value"] + entry["r_addend"]
                    at = section["sh_offset"] + entry["r_offset"]
                    data[at : at + 8] = (value % 2**64).to_bytes(8, "little")
    copy = directory / "relocated"
    copy.write_bytes(data)
    return copy


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("compress", [(), ("--compress-debug-sections=zlib",)], ids=["plain", "zlib"])
def test_restored_addresses(tmp_path: Path, compiler: str, version: int, compress: tuple[str, ...]) -> None:
    """lld keeps the relocations whose targets it overwrote; symbol + addend is the address of the one body."""
    flags = ("-O2", f"-gdwarf-{version}")
    path = build(compiler, flags, "lld", ("--icf=all", "--emit-relocs"))
    truth, overwritten = read_truth(_relocated(path, tmp_path)), read_truth(path)
    check(build(compiler, flags, "lld", ("--icf=all", "--emit-relocs", *compress)), truth=truth)
    assert set(_low_of(overwritten, *FOLDED).values()) > {0}
    assert len(set(_low_of(truth, *FOLDED).values())) == 1
    with Image.open(path) as image:
        plain = open_debug(image, restore=False)
        assert plain.restored == {} and (scan_functions(plain).functions.low == 0).any()


def test_gold_writes_the_address_of_the_kept_body() -> None:
    path = build("clang", ("-O2", "-gdwarf-5"), "gold", ("--icf=all",))
    truth = check(path)
    (low,) = set(_low_of(truth, *FOLDED).values())
    assert low
    with Image.open(path) as image:
        assert open_debug(image).restored == {}


@pytest.mark.parametrize("version", [4, 5])
def test_dwz(tmp_path: Path, version: int) -> None:
    """dwz moves what units share into partial units, and refers to it from them by DW_FORM_ref_addr."""
    out = tmp_path / "program"
    out.write_bytes(build("gcc", ("-O2", f"-gdwarf-{version}")).read_bytes())
    run(tool("dwz"), out)
    truth = check(out)
    with Image.open(out) as image:
        debug = open_debug(image)
        assert len(debug.units) > 3
    start_of = {die: truth.units[unit]["offset"] for die, *_, unit in truth.functions}
    assert any(truth.named[die].root < start for die, start in start_of.items())


def test_no_debug_information(tmp_path: Path) -> None:
    out = tmp_path / "program"
    out.write_bytes(build("gcc", ("-O2", "-gdwarf-5")).read_bytes())
    run(tool("strip"), out)
    check(out, truth=Truth())
