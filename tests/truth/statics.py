"""A generated C program of static functions, which have one name in every unit and call different ones in each.

In C a function has no linkage name. Link-time optimization renames all copies of a static function but one, each
compiler in its own way, and its debug information keeps the name.
"""

from __future__ import annotations

from pathlib import Path

from tests.truth.units import main_of_units

HEAD = """\
#include <stdlib.h>
#define NOINLINE __attribute__((noinline))
extern volatile int total;
void touch(int n);
typedef int (*Op)(int, int);
"""

# THIS, NEXT and OTHER are numbers of kinds
KIND = """\
NOINLINE static int scaledTHIS(int n, int by) { touch(n); total += by; return n * by + total; }
NOINLINE static int unusedTHIS(int n, int m) { touch(n); int r = scaledNEXT(n, 3); return r + n; }
static int partlyTHIS(int n) {
  if (n & 1) return n;
  touch(n);
  for (int i = 0; i < 3; i++) total += scaledOTHER(i + n, 3);
  total += unusedNEXT(n, n + 2);
  return total;
}
__attribute__((cold)) NOINLINE static int failTHIS(int n) {
  touch(n);
  int r = scaledTHIS(n, 3);
  total = r;
  return r + 3;
}
NOINLINE static int tailTHIS(int n, int m) { touch(n); total += 3; return unusedOTHER(n, n + 1); }
NOINLINE static int loopTHIS(int n) {
  touch(n);
  if (n <= 0) return total;
  int r = loopTHIS(n - 1) + failNEXT(n);
  total += r;
  return r;
}
NOINLINE static int pointTHIS(Op op, int n) { touch(n); int r = op(n, 3); total += r; return r; }
NOINLINE static int afterTHIS(int n) {
  total += n;
  touch(n);
  int r = tailNEXT(n, 3);
  return r + partlyOTHER(n) + pointTHIS(scaledNEXT, n);
}
static int compareTHIS(const void *a, const void *b) {
  touch(1);
  int r = *(const int *)a - *(const int *)b;
  total += scaledOTHER(r, 3);
  return r;
}
NOINLINE static int sortTHIS(int n) {
  int a[3] = {3, n, 1};
  qsort(a, 3, sizeof *a, compareTHIS);
  total += a[0];
  return a[1];
}
"""

DECLARED = """\
static int scaledTHIS(int, int);
static int unusedTHIS(int, int);
static int partlyTHIS(int);
static int failTHIS(int);
static int tailTHIS(int, int);
"""

USE = (
    "  r += partlyTHIS(n) + tailTHIS(n, 1) + loopTHIS(n & 3) + afterTHIS(n) + sortTHIS(n) + pointTHIS(scaledNEXT, n);\n"
)


def write_statics(folder: Path, unit_count: int, kind_count: int) -> list[Path]:
    """Write the sources; return them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for unit in range(unit_count):

        def of_kinds(text: str, unit: int = unit) -> str:
            return "".join(
                text.replace("THIS", str(kind))
                .replace("NEXT", str((kind + 1 + unit) % kind_count))
                .replace("OTHER", str((kind + 1 + 2 * unit) % kind_count))
                for kind in range(kind_count)
            )

        paths.append(folder / f"unit{unit}.c")
        paths[-1].write_text(
            f"{HEAD}{of_kinds(DECLARED)}{of_kinds(KIND)}int unit{unit}(int n) {{\n  int r = 0;\n{of_kinds(USE)}"
            "  return r;\n}\n"
        )
    paths.append(folder / "main.c")
    paths[-1].write_text(main_of_units(HEAD, unit_count, 9))
    return paths
