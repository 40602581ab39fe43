"""The classes of methods in programs of gcc; of those of clang linkage names have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.dwarf.dies import resolve
from icf.dwarf.method_classes import MethodClasses
from icf.dwarf.opening import open_debug
from icf.dwarf.scan import scan_functions
from icf.elf.image import Image
from tests.support.toolchain import run, tool

SOURCE = """
#define NOINLINE __attribute__((noinline))
volatile int total;
template <class T> struct Box { NOINLINE int open(int n) const { return total += n; } };
namespace ns { struct Nut { struct Inner; NOINLINE int crack(int n); NOINLINE static int sell(int n); }; }
struct ns::Nut::Inner { NOINLINE int peel(int n) { return total += 2 * n; } };
int ns::Nut::crack(int n) { return total -= n; }
int ns::Nut::sell(int n) { return total *= n; }
NOINLINE int plain(int n) { return total /= n; }
NOINLINE int with_local(int n) {
  struct Local { NOINLINE int weigh(int n) { return total += 5 * n; } };
  return Local().weigh(n);
}
int main(int n, char **) {
  ns::Nut nut; ns::Nut::Inner inner;
  return Box<ns::Nut>().open(n) + nut.crack(n) + nut.sell(n) + inner.peel(n) + plain(n) + with_local(n);
}
"""
CLASSES = {
    "open": "Box<ns::Nut>",
    "crack": "Nut",
    "sell": "",
    "peel": "Inner",
    "plain": "",
    "weigh": "Local",
    "main": "",
}


@pytest.mark.parametrize("flags", [("-O2",), ("-O0",), ("-O2", "-gdwarf-4")], ids=" ".join)
def test_classes_are_those_of_the_declarations(flags: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(SOURCE)
    run(tool("g++"), "-g", *flags, tmp_path / "main.cpp", "-o", tmp_path / "program")
    with Image.open(tmp_path / "program") as image:
        debug = open_debug(image)
        found = resolve(debug, scan_functions(debug).functions.die)
        names = [name.decode() for name in debug.strings(found.name)]
        classes = dict(zip(names, MethodClasses(debug).of(found.root.tolist()), strict=True))
    assert CLASSES.items() <= classes.items()
