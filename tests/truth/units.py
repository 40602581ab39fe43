"""The file with `main` of the generated programs whose units have one function each to call: unit0, unit1, ..."""

from __future__ import annotations


def main_of_units(head: str, unit_count: int, rounds: int, more: str = "") -> str:
    """Return the source, C and C++: `main` calls each unit in turn, `touch` allocates; `more` comes before `main`."""
    calls = "".join(f" r += unit{unit}(i);" for unit in range(unit_count))
    declared = "".join(f"int unit{unit}(int n);\n" for unit in range(unit_count))
    return (
        f"{head}#include <stdlib.h>\n{declared}volatile int total;\nvoid *volatile last;\n"
        f"void touch(int n) {{ last = malloc(n & 31); free(last); }}\n{more}"
        f"int main(void) {{\n  int r = 0;\n  for (int i = 0; i < {rounds}; i++) {{{calls} }}\n  return r == 7;\n}}\n"
    )
