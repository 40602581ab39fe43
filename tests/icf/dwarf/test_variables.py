"""Data that units define is found by the bytes of its location; data that they only use is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from icf.dwarf.opening import open_debug
from icf.dwarf.variables import find_defined
from icf.elf.image import Image
from tests.support.toolchain import run, tool

DESCRIBED = """
    extern int theirs[4];
    void use(int *values, int count);
    int ours[4] = {1};
    static int hidden[4];
    int main() { use(ours, 1); use(theirs, 2); use(hidden, 3); }
"""
BARE = "int theirs[4] = {2}; void use(int *values, int count) { values[0] += count; }"


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("version", [4, 5])
def test_what_units_define(tmp_path: Path, compiler: str, version: int) -> None:
    (tmp_path / "described.cpp").write_text(DESCRIBED)
    (tmp_path / "bare.cpp").write_text(BARE)
    driver, program = tool(compiler), tmp_path / "program"
    run(driver, "-O2", "-g", f"-gdwarf-{version}", "-c", tmp_path / "described.cpp", "-o", tmp_path / "described.o")
    run(driver, "-O2", "-c", tmp_path / "bare.cpp", "-o", tmp_path / "bare.o")
    run(driver, tmp_path / "described.o", tmp_path / "bare.o", "-o", program)
    with Image.open(program) as image:
        symbols = image.symbols
        rows = {name: row for row, name in enumerate(symbols.names(list(range(symbols.count))))}
        vaddrs = {name: int(symbols.value[rows[name]]) for name in ("ours", "theirs", "_ZL6hidden")}
        found = find_defined(image, open_debug(image), np.array(sorted(vaddrs.values()), np.uint64))
    assert set(found.tolist()) == {vaddrs["ours"], vaddrs["_ZL6hidden"]}
