"""PLT stubs: every call that the linker kept a relocation for must lead to a stub of the symbol's name.

Linked with `--emit-relocs`, the image itself says which symbol each call names, so the expectation comes
from neither our decoder nor objdump's. Where objdump names stubs, the names must agree.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from icf.elf.image import Image
from icf.elf.types import Machine
from tests.support.toolchain import LINKERS, compile_object, link, run, tool

PROGRAM = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
extern "C" {
static int seven(int a) { return a + 7; }
static int eight(int a) { return a + 8; }
static volatile int which;
int (*pick())(int) { return which ? eight : seven; }
int chosen(int) __attribute__((ifunc("pick")));
}
int (*volatile by_pointer)(const char *) = puts;  // one symbol both called and taken
int main(int argc, char **argv) {
    char *copy = strdup(argv[0]);
    by_pointer(copy);
    puts("a");
    printf("%d %d %d\\n", argc, getpid(), chosen(argc));
    free(copy);
    return 0;
}
"""
LIBRARY = """
extern "C" { int outside(int); __attribute__((noinline)) int exported(int x) { return outside(x) + 1; }
int calls_exported(int x) { return exported(x) * outside(x + 1); } }
"""
R_X86_64_PLT32, R_X86_64_PC32, R_AARCH64_CALL26 = 4, 2, 283

VARIANTS = {
    "lazy": ["-Wl,-z,lazy"],
    "now": ["-Wl,-z,now"],
    "no-pie": ["-no-pie"],
    "static": ["-static"],
    "hash-style": ["-Wl,--hash-style=sysv"],
}
IBT_FLAG = {"bfd": "-Wl,-z,ibtplt", "lld": "-Wl,-z,force-ibt", "mold": "-Wl,-z,ibtplt"}


def call_targets(image: Image) -> list[tuple[set[str], int]]:
    """(names of the symbol, target address) of every call that has a relocation to an import or an ifunc."""
    relocations = image.relocations(".rela.text")
    assert relocations is not None
    symbols = relocations.symbols
    kinds = {R_X86_64_PLT32} if image.machine is Machine.X86_64 else {R_AARCH64_CALL26}
    calls = []
    for row in np.flatnonzero(np.isin(relocations.type, list(kinds))).tolist():
        symbol, place = int(relocations.symbol[row]), int(relocations.offset[row])
        if symbols.is_defined[symbol] and symbols.type[symbol] != 10:
            continue
        word = int.from_bytes(image.read(place, 4), "little")
        if image.machine is Machine.X86_64:
            if image.read(place - 1, 1)[0] != 0xE8:
                continue  # a jump, or a load that the linker relaxed
            target = (place + 4 + word) & 0xFFFFFFFF
        else:
            target = place + ((word & 0x1FFFFFF) - (word & 0x2000000)) * 4
        aliases = np.flatnonzero(symbols.is_defined & (symbols.value == symbols.value[symbol])).tolist()
        names = {symbols.name(row).partition("@")[0] for row in [symbol, *aliases]}  # GNU ld appends @VERSION
        calls.append((names, target))
    return calls


def objdump_names(path: Path, machine: Machine) -> dict[int, str]:
    """Address -> name of the stubs that objdump names."""
    text = run(
        tool("aarch64-linux-gnu-objdump" if machine is Machine.AARCH64 else "objdump"), "-d", "--no-show-raw-insn", path
    ).stdout
    found = re.findall(r"^([0-9a-f]+) <([^*\s]+?)(?:@@?[\w.]+)?@plt>:", text, re.MULTILINE)
    return {int(address, 16): name for address, name in found}


def check_stubs(path: Path, needed: set[str]) -> None:
    with Image.open(path) as image:
        stubs = image.plt_stubs
        assert needed <= set(stubs.values())
        if (image.machine, image.linker.name) != (Machine.AARCH64, "gold"):  # which keeps wrong offsets
            calls = [(names, target) for names, target in call_targets(image) if target]  # 0: undefined weak
            for names, target in calls:
                assert stubs.get(target) in names, f"{names} at {target:#x}"
            assert needed <= {name for names, _ in calls for name in names}
        named = objdump_names(path, image.machine)
        assert named.items() <= stubs.items()
        if image.linker.name in ("bfd", "gold"):
            assert needed - {"chosen"} <= set(named.values())  # the comparison is not empty


@pytest.mark.parametrize("linker", LINKERS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_calls_of_an_executable_lead_to_named_stubs(linker: str, variant: str, tmp_path: Path) -> None:
    pic = "-fno-pic" if variant in ("no-pie", "static") else "-fPIC"
    program = compile_object(PROGRAM, "-O1", "-fno-builtin", pic)
    path = link(tmp_path / "a.out", linker, program, "-Wl,--emit-relocs", *VARIANTS[variant])
    check_stubs(path, {"chosen"} if variant == "static" else {"chosen", "puts", "printf", "getpid"})


@pytest.mark.parametrize("linker", ["bfd", "lld", "mold"])
def test_stubs_with_landing_pads(linker: str, tmp_path: Path) -> None:
    program = compile_object(PROGRAM, "-O1", "-fno-builtin", "-fPIC", "-fcf-protection=full")
    path = link(tmp_path / "a.out", linker, program, "-Wl,--emit-relocs", IBT_FLAG[linker])
    check_stubs(path, {"puts", "getpid"})


@pytest.mark.parametrize("flag", ["-Wl,-z,retpolineplt", "-Wl,-z,retpolineplt,-z,now"])
def test_retpoline_stubs(flag: str, tmp_path: Path) -> None:
    program = compile_object(PROGRAM, "-O1", "-fno-builtin", "-fPIC")
    check_stubs(link(tmp_path / "a.out", "lld", program, "-Wl,--emit-relocs", flag), {"puts", "getpid"})


@pytest.mark.parametrize("linker", LINKERS)
def test_calls_of_a_shared_object_lead_to_named_stubs(linker: str, tmp_path: Path) -> None:
    library = compile_object(LIBRARY, "-O1", "-fPIC")
    path = link(tmp_path / "a.so", linker, library, "-shared", "-Wl,--emit-relocs")
    check_stubs(path, {"outside"})
    with Image.open(path) as image:
        assert {"exported", "outside"} <= set(image.plt_stubs.values())  # exported may be preempted
        assert "exported" in image.got_imports.values()


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld"])
@pytest.mark.parametrize("flags", [["-Wl,-z,lazy"], ["-Wl,-z,now"], ["-no-pie"], ["-shared"]])
def test_stubs_of_aarch64(linker: str, flags: list[str], tmp_path: Path) -> None:
    if flags == ["-shared"]:
        program, needed = compile_object(LIBRARY, "-O1", "-fPIC", arch="aarch64"), {"outside"}
    else:
        program = compile_object(PROGRAM, "-O1", "-fno-builtin", "-fPIC", arch="aarch64")
        needed = {"puts", "printf", "getpid", "chosen"}
    check_stubs(link(tmp_path / "a.out", linker, program, "-Wl,--emit-relocs", *flags, arch="aarch64"), needed)


@pytest.mark.parametrize("linker", ["bfd", "lld"])
def test_stubs_of_aarch64_with_landing_pads(linker: str, tmp_path: Path) -> None:
    program = compile_object(PROGRAM, "-O1", "-fno-builtin", "-fPIC", "-mbranch-protection=standard", arch="aarch64")
    force = "-Wl,-z,force-bti,-z,pac-plt" if linker == "bfd" else "-Wl,-z,force-bti,-z,pac-plt"
    path = link(tmp_path / "a.out", linker, program, "-Wl,--emit-relocs", force, arch="aarch64")
    check_stubs(path, {"puts", "getpid"})


def test_an_image_without_imports_has_no_stubs(tmp_path: Path) -> None:
    source = 'extern "C" void _start() { for (;;) {} }'
    program = compile_object(source, "-O1", "-fno-pic")
    with Image.open(link(tmp_path / "a.out", "bfd", program, "-nostdlib", "-static")) as image:
        assert image.plt_stubs == {} and image.got_imports == {}
