"""The loader's table of names: linked by every linker, against all dynamic symbols."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import numpy as np
import pytest

from icf.elf.image import Image
from icf.elf.symbolhash import SymbolHash, read_symbol_hash
from icf.elf.types import SHT_GNU_HASH, Section
from icf.errors import FormatError
from tests.support.toolchain import linker_options, run, tool
from unwind.program.image_exports import ImageExports

SOURCE = "".join(f'int f{number}(int x) {{ return x * {number} + puts(""); }}\n' for number in range(300))
VERSIONED = '__asm__(".symver f0, g@V1"); __asm__(".symver f1, g@@V2");\n'


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_every_name_is_found_and_no_other(linker: str, tmp_path: Path) -> None:
    (tmp_path / "library.c").write_text(f"int puts(const char*);\n{SOURCE}{VERSIONED}")
    (tmp_path / "script").write_text("V1 { global: g; }; V2 { global: g; f*; local: *; } V1;")
    exports = []
    for style in ("gnu", "sysv"):
        library = tmp_path / f"{style}.so"
        options = (*linker_options(linker, tool(f"ld.{linker}")), f"-Wl,--version-script={tmp_path / 'script'}")
        run(
            tool("gcc"),
            "-O1",
            "-fPIC",
            "-shared",
            *options,
            f"-Wl,--hash-style={style}",
            "-o",
            library,
            tmp_path / "library.c",
        )
        with Image.open(library) as image:
            table, symbols = read_symbol_hash(image), image.dynamic_symbols
            assert (table is not None) == (style == "gnu")
            for row in np.flatnonzero(symbols.is_defined).tolist():
                assert table is None or row in table.rows(symbols.name(row))
            found = ImageExports(image)
            names = ["g", "g@V1", "g@V2", "g@V3", "puts", "none", "", *(f"f{number}" for number in range(2, 302))]
            exports.append([[export._replace(vaddr=0) for export in found.find(name)] for name in names])
    assert exports[0] == exports[1]
    assert [len(each) for each in exports[0]] == [2, 1, 1, 0, 0, 0, 0] + 298 * [1] + [0, 0]


def table(content: bytes) -> SymbolHash:
    section = Section(1, ".gnu.hash", SHT_GNU_HASH, 0, 0, 0, len(content), 0, 0, 8, 0)
    return SymbolHash("a.so", section, memoryview(content))


@pytest.mark.parametrize(
    "content, problem",
    [
        (b"\1\0", "the header needs 16 bytes, 2 are there"),
        (pack("<4I", 1 << 31, 1, 1, 0), "2147483648 buckets end outside of the section"),
        (pack("<4I", 1, 1, 1 << 31, 0), "1 buckets end outside of the section"),
        (pack("<4IQ3I", 1, 1, 1, 0, 0, 1, 4, 6), "the bucket of row 1 has no end"),
        (pack("<4IQ3I", 1, 1, 1, 0, 0, 9, 4, 6), "the bucket of row 9 has no end"),
    ],
)
def test_a_table_that_breaks_the_format_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=f"^a.so: .gnu.hash.0x0: {problem}"):
        table(content).rows("f")


def test_no_buckets() -> None:
    assert table(pack("<4I", 0, 1, 0, 0)).rows("f") == []
