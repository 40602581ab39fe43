"""The memory of the pass grows with the debug information, by a stated multiple and no more.

Programs with much debug information take long to compile, so the units of a small one are repeated: thousands of
units that describe the same functions, as in a program whose headers are in every file.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from icf.elf.image import Image
from linkpass.rewrite.edits import SectionGrowth
from linkpass.rewrite.sections import rewrite
from tests.support.paths import ROOT
from tests.support.toolchain import linker_options, run, tool

SHOP = ROOT / "testdata" / "shop"
BASE_BYTES, MULTIPLE = 80 << 20, 3  # as README has it


# The kernel's ru_maxrss is inherited from the process that spawns: VmHWM starts anew with the program
PASS_AND_PEAK = """
import re, sys
from icf.cli import main
status = main(["pass", "-q", *sys.argv[1:]])
print(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
sys.exit(status)
"""


def peak_bytes(image: Path, out: Path) -> int:
    """The most memory that `icf pass` has at a time, the mapped file included."""
    done = subprocess.run(
        [sys.executable, "-c", PASS_AND_PEAK, image, "-o", out], capture_output=True, text=True, check=True
    )
    return int(done.stdout) << 10


@pytest.mark.parametrize("name", ["shop.gold", "shop.lld"])
def test_memory_is_a_multiple_of_the_debug_information(name: str, tmp_path: Path) -> None:
    small, large, out = SHOP / name, tmp_path / "large", tmp_path / "out"
    with Image.open(small) as image:
        units = bytes(image.contents(".debug_info"))
        info_bytes = (32 << 20) // len(units) * len(units)
        rewrite(image, large, [], [SectionGrowth(".debug_info", units * (info_bytes // len(units) - 1))])
    assert peak_bytes(small, out) < BASE_BYTES
    assert peak_bytes(large, out) < BASE_BYTES + MULTIPLE * info_bytes


def class_with_methods(folder: Path, count: int) -> Path:
    """A program with a class, and one derived from it, all of whose virtual functions have one body."""
    lines = ["volatile int x; __attribute__((noinline)) void sink(int a) { x = a; }"]
    lines.append(f"struct B {{ {' '.join(f'virtual void f{i}();' for i in range(count))} }};")
    lines.append(f"struct C : B {{ {' '.join(f'void f{i}() override;' for i in range(count))} }};")
    lines += [f"void {kind}::f{i}() {{ sink(1); sink(2); }}" for kind in "BC" for i in range(count)]
    lines.append(f"int main() {{ B *b = x ? new C : new B; {' '.join(f'b->f{i}();' for i in range(count))} }}")
    source = folder / f"methods{count}.cpp"
    source.write_text("\n".join(lines))
    image = source.with_suffix("")
    linker = linker_options("gold", tool("ld.gold"))
    run(tool("g++"), "-g", "-O1", "-ffunction-sections", *linker, "-Wl,--icf=all", source, "-o", image, folder=folder)
    return image


def test_memory_for_equal_virtual_functions_grows_with_their_number(tmp_path: Path) -> None:
    """With 800 its blocks of rows are full. What grows with the square is four times as large."""
    few, many = (peak_bytes(class_with_methods(tmp_path, count), tmp_path / "out") for count in (800, 1600))
    assert many < 1.5 * few
