"""PDBs of any size, and how long it takes to read one beside llvm-pdbutil.

    python -m tests.bench.pdbs [--copies N] [--turns N]    prints JSON: seconds and MB

A program with many functions is one object many times, each in a namespace of another number: names of one length
differ in their bytes only, so no compiler is needed for a copy. 40 copies make a PDB of some 60 MB. Nearly all of its
functions are merged, which is the most work: the linkage name of each is found among those of its body.

`index` reads the functions, their names and their lines, as every command does with a PDB; `symcache` also pairs them
with their linkage names, and writes a symcache.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.rows import Figures
from tests.bench.timing import run_in_turns, warm
from tests.support.toolchain import tool
from tests.support.windows import compile_windows, link_windows
from tests.truth.tool import default_command

KIND_COUNT = 600  # of records in each copy
_NUMBER = "N00000"
_HEAD = """
extern volatile int sink;
template <class T, int N> struct Box { T value; int pad; T get(int n); T put(T t, int n); };
template <class T, int N> __attribute__((noinline)) T Box<T, N>::get(int n) {
  int total = 0;
  for (int i = 0; i < n; i++)
    total += i * N;
  sink = total;
  return value;
}
template <class T, int N> __attribute__((noinline)) T Box<T, N>::put(T t, int n) {
  T old = value;
  value = t;
  sink = n;
  return old;
}
namespace N00000 {
"""
_KIND = """
struct Record{0} {{ int weight; Record{0} *next; }};
__attribute__((noinline)) int work(Record{0} *record, int n) {{
  Box<Record{0} *, {1}> box;
  for (int i = 0; i < n; i++)
    sink = i + {1};
  box.put(record, n);
  return box.get(n)->weight;
}}
"""
_INDEX = """
import sys
from icf.pdb.file import Pdb
with Pdb.open(sys.argv[1]) as pdb:
    count = 0
    for module in pdb.dbi.modules:
        symbols = pdb.symbols_of(module)
        lines = pdb.lines_of(module, symbols)
        names = [pdb.text(module.stream, row[0], row[1]) for row in symbols.procedures[:, %s].tolist()]
        count += len(names)
    print(count)
"""


def make_program(folder: Path, copy_count: int, kind_count: int = KIND_COUNT) -> Path:
    """Return a program whose PDB, beside it, has the functions of `copy_count` namespaces."""
    kinds = range(kind_count)
    calls = "".join(f"  {{ static Record{kind} record; work(&record, n); }}\n" for kind in kinds)
    source = _HEAD + "".join(_KIND.format(kind, kind % 7) for kind in kinds) + f"void all(int n) {{\n{calls}}}\n}}\n"
    whole = compile_windows(source, "-O1", name="copy").read_bytes()
    objects = []
    for number in range(copy_count):
        objects.append(folder / f"copy{number}.obj")
        objects[-1].write_bytes(whole.replace(_NUMBER.encode(), f"N{number:05}".encode()))
    names = [f"N{number:05}" for number in range(copy_count)]
    declared = "".join(f"namespace {name} {{ void all(int); }}\n" for name in names)
    main = f'{declared}volatile int sink;\nextern "C" int mainCRTStartup() {{\n'
    main += "".join(f"  {name}::all(3);\n" for name in names) + "  return 0;\n}\n"
    return link_windows(folder, compile_windows(main, "-O1", name="main"), *objects)


def bench_pdb(folder: Path, copy_count: int, turn_count: int, kind_count: int = KIND_COUNT) -> Figures:
    """Return the figures of one made PDB."""
    from icf.pdb import columns as col

    program = make_program(folder, copy_count, kind_count)
    pdb = program.with_suffix(".pdb")
    warm(pdb)
    index = _INDEX % [int(col.P_NAME), int(col.P_NAME_BYTES)]
    cache = folder / "cache"
    commands = {
        "llvm_pdbutil": [tool("llvm-pdbutil"), "dump", "-symbols", str(pdb)],
        "index": [sys.executable, "-c", index, str(pdb)],
        "symcache": [*default_command(), "cache", "--cache-dir", str(cache), "build", "--force", str(program)],
    }
    figures: Figures = {"pdb_mb": pdb.stat().st_size / 1e6}
    for name, cost in run_in_turns(commands, turn_count).items():
        figures |= {f"{name}_wall_s": cost.wall_s, f"{name}_cpu_s": cost.cpu_s, f"{name}_peak_mb": cost.peak_mb}
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="tests.bench.pdbs", description="measure the reader of PDBs")
    parser.add_argument("--copies", type=int, default=40)
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        print(json.dumps(bench_pdb(Path(folder), args.copies, args.turns), indent=1))


if __name__ == "__main__":
    main()
