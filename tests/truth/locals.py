"""A generated C++ program of local functions: gcc describes them without linkage names, and linkers drop their symbols.

Each unit has, in an unnamed namespace, the same names: methods of the same name in several classes, members of
templates over local types, classes and lambdas in functions. All bodies are merged, across units, too; but what a
function of one unit calls, its namesake of another unit does not.
"""

from __future__ import annotations

from pathlib import Path

from tests.truth.units import main_of_units

HEAD = """\
#include <functional>
#include <memory>
#include <vector>
#define NOINLINE __attribute__((noinline))
extern volatile int total;
NOINLINE void touch(int n);
"""

COMMON = """\
template <class T> struct Box {
  T item;
  NOINLINE int open(int n) { touch(n); total += n; return total * 3 + n; }
  template <class U> NOINLINE int pour(U n) { touch(n); total += 2; return total * 5 + open(n); }
};
struct Base { virtual ~Base() {} virtual int run(int n) = 0; virtual int walk(int n) { touch(n); return n + 1; } };
"""

# THIS, NEXT and OTHER are types of the unit
TYPE = """\
struct NutTHIS : Base {
  Box<KindNEXT> box;
  int run(int n) override { int r = box.open(n + 2); total += 1; return total * 3 + r; }
  NOINLINE int crack(int n) { int r = box.pour(n); total += 3; return r * 7 + total; }
  NOINLINE static int sell(int n) { Box<KindOTHER> b; int r = b.open(n); total += 11; return r; }
};
NOINLINE int shellTHIS(int n) {
  struct Inner {
    NOINLINE static int weigh(int n) { Box<NutOTHER *> b; int r = b.open(n + 4); total += 5; return r + total; }
    NOINLINE int count(int n) { touch(n); total += 1; return total; }
  } inner;
  int r = Inner::weigh(n) + inner.count(n);
  total += 9;
  return r;
}
NOINLINE int foldTHIS(int n) {
  std::function<int(int)> later = [n](int m) { Box<KindTHIS **> b; int r = b.open(m + n); total += 4; return r; };
  int r = later(n + 1);
  total += 1;
  return r;
}
template <int N> NOINLINE int level(KindTHIS *p, int n) {
  touch(n);
  int r = n;
  if constexpr (N > 0) r += level<N - 1>(p, n + 1);
  total += 1;
  return r;
}
"""

USE = """\
  { NutTHIS nut{}; r += nut.crack(n) + NutTHIS::sell(n) + shellTHIS(n) + foldTHIS(n) + level<2>((KindTHIS *)0, n);
    all.emplace_back(new NutTHIS); }
"""


def _of_type(text: str, number: int, unit: int, type_count: int) -> str:
    following, other = (number + unit) % type_count, (number + 2 * unit) % type_count
    return text.replace("THIS", str(number)).replace("NEXT", str(following)).replace("OTHER", str(other))


def write_locals(folder: Path, unit_count: int, type_count: int) -> list[Path]:
    """Write the sources; return them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for unit in range(unit_count):
        numbers = range(type_count)
        declared = "".join(f"struct Kind{number} {{ int id; }}; struct Nut{number};\n" for number in numbers)
        types = "".join(_of_type(TYPE, number, unit, type_count) for number in numbers)
        uses = "".join(_of_type(USE, number, unit, type_count) for number in numbers)
        paths.append(folder / f"unit{unit}.cpp")
        paths[-1].write_text(
            f"{HEAD}namespace {{\n{COMMON}{declared}{types}}}\n"
            f"int unit{unit}(int n) {{\n  int r = 0;\n  std::vector<std::unique_ptr<Base>> all;\n{uses}"
            "  for (auto &each : all) r += each->run(n) + each->walk(n);\n  return r;\n}\n"
        )
    paths.append(folder / "main.cpp")
    paths[-1].write_text(main_of_units(HEAD, unit_count, 12))
    return paths
