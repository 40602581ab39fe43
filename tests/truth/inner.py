"""A generated C++ program of classes in functions with internal linkage, in a named namespace.

Each unit has the same names, but what a function of one unit calls, its namesake of another unit does not. The classes
have two bases, so that there are thunks; clang writes linkage names for these functions, and no name has the mark of an
unnamed namespace: `_ZThn16_ZN3boxL5make0EiEN4Both5rightEi`.
"""

from __future__ import annotations

from pathlib import Path

from tests.truth.units import main_of_units

HEAD = """\
#define NOINLINE __attribute__((noinline))
extern volatile int total;
NOINLINE void touch(int n);
struct Left { virtual ~Left() {} virtual int left(int n) = 0; int cents = 0; };
struct Right {
  virtual ~Right() {}
  virtual int right(int n) = 0;
  virtual int field(int n) { touch(n); return n; }
  int cents = 1;
};
"""

COMMON = "template <class T> NOINLINE int leafy(T *, int n) { touch(n); total += n; return n * 5 + total; }\n"

# THIS, NEXT and OTHER are numbers of functions
TYPE = """\
static NOINLINE int leafTHIS(int n) { touch(n); total += n; return n * 3 + total; }
static NOINLINE int makeTHIS(int n) {
  struct Both : Left, Right {
    int own = 3;
    int left(int n) override { touch(n); int r = leafNEXT(n); total += r; return r + own; }
    int right(int n) override { touch(n); int r = leafOTHER(n) + leafy(this, n); total += r; return r + own; }
    NOINLINE int plain(int n) { touch(n); int r = leafOTHER(n); total += r; return r - own; }
  };
  Both *both = new Both;
  Left *left = both;
  Right *right = both;
  asm volatile("" : "+r"(left), "+r"(right));
  int r = left->left(n) + right->right(n) + right->field(n) + both->plain(n);
  delete left;
  return r;
}
"""


def write_inner(folder: Path, unit_count: int, type_count: int) -> list[Path]:
    """Write the sources; return them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    numbers = range(type_count)
    declared = "".join(f"static int leaf{number}(int n);\n" for number in numbers)
    calls = "".join(f" r += box::make{number}(n);" for number in numbers)
    for unit in range(unit_count):
        types = ""
        for number in numbers:
            following, other = (number + unit) % type_count, (number + 2 * unit) % type_count
            text = TYPE.replace("THIS", str(number)).replace("NEXT", str(following))
            types += text.replace("OTHER", str(other))
        paths.append(folder / f"unit{unit}.cpp")
        paths[-1].write_text(
            f"{HEAD}namespace box {{\n{COMMON}{declared}{types}}}\n"
            f"int unit{unit}(int n) {{\n  int r = 0;\n {calls}\n  return r;\n}}\n"
        )
    paths.append(folder / "main.cpp")
    paths[-1].write_text(main_of_units(HEAD, unit_count, 12))
    return paths
