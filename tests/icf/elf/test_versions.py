"""Versions of dynamic symbols: linked by every linker, compared with readelf."""

from __future__ import annotations

import re
from pathlib import Path
from struct import pack

import pytest

from icf.elf.image import Image
from icf.elf.versions import read_versions
from icf.errors import FormatError
from tests.support.elf import Elf, Part, Sym, symbol_parts
from tests.support.toolchain import linker_options, run, tool

LIBRARY = """
int old(int x) { return x + 1; }  int new(int x) { return x + 2; }  int plain(int x) { return x + 3; }
__asm__(".symver old, g@V1"); __asm__(".symver new, g@@V2");
"""
USER = 'int g(int); int g1(int); __asm__(".symver g1, g@V1"); int use(int x) { return g(x) + g1(x); }'
SCRIPT = "V1 { global: g; }; V2 { global: g; plain; } V1;"


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_versions_are_those_of_readelf(linker: str, tmp_path: Path) -> None:
    library, user, script = (tmp_path / name for name in ("libg.so", "libuser.so", "script"))
    (tmp_path / "library.c").write_text(LIBRARY)
    (tmp_path / "user.c").write_text(USER)
    script.write_text(SCRIPT)
    shared = [tool("gcc"), "-O1", "-fPIC", "-shared", *linker_options(linker, tool(f"ld.{linker}")), "-o"]
    run(*shared, library, tmp_path / "library.c", f"-Wl,--version-script={script}")
    run(*shared, user, tmp_path / "user.c", library)
    with Image.open(library) as image:
        versions, symbols = read_versions(image), image.dynamic_symbols
        named = {(symbols.name(row), versions.name(row), versions.is_hidden(row)) for row in range(symbols.count)}
        assert {("g", "V1", True), ("g", "V2", False), ("plain", "V2", False)} <= named
        listed = run(tool("readelf"), "-W", "--dyn-syms", library).stdout
        defined = re.findall(r"FUNC +\w+ +DEFAULT +\d+ (\w+)(@@?)(\w+)", listed)
        assert {(name, version, at == "@") for name, at, version in defined} <= named
    with Image.open(user) as image:
        slots = {(image.got_imports[slot], version) for slot, version in image.slot_versions.items()}
        assert {("g", "V1"), ("g", "V2")} <= slots


def test_needed_versions_that_are_listed_again_and_again_are_refused(tmp_path: Path) -> None:
    files = b"".join(pack("<2H3I", 1, 2, 1, 48 - at, 16) for at in (0, 16, 32))  # three with the same two versions
    table = files + pack("<I2H2I", 0, 0, 2, 1, 16) + pack("<I2H2I", 0, 0, 3, 1, 0)
    parts = [*symbol_parts([Sym("f", 2, 1, 0)], 1), Part(".gnu.version_r", 0x6FFFFFFE, 0, table, link=2, info=3)]
    (tmp_path / "a.out").write_bytes(Elf(parts).build())
    with Image.open(tmp_path / "a.out") as image, pytest.raises(FormatError, match="more versions than there is room"):
        read_versions(image)
