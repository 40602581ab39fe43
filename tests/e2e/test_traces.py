"""The same objects linked with folding and without, traced by valgrind: each function runs as many instructions."""

from __future__ import annotations

import json
import subprocess
from bisect import bisect_right
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from icf.demangle import demangle
from tests.e2e.program import icf
from tests.support.core_traces import recorded, write_cores
from tests.support.toolchain import compile_object, find, linker_options, run, tool
from unwind.trace import columns as c
from unwind.trace import layout as k
from unwind.trace.container import TraceFile
from unwind.trace.reader import TraceReader

SOURCE = """
#define ALONE __attribute__((noinline))
#define WORK(n) for (int i = 0; i < n; i++) sink = sink + i
struct Base { virtual int get(int) = 0; virtual int twice(int n) { return 2 * n; } };
static volatile int sink;
ALONE int apples(int n) { WORK(n); return n + 1; }
ALONE int pears(int n) { WORK(n); return n + 1; }
ALONE int plums(int n) { WORK(n); return n + 1; }
struct One : Base { int get(int n) override { WORK(n); return n * 3; } };
struct Two : Base { int get(int n) override { WORK(n); return n * 3; } };
struct Three : Base { int get(int n) override { return n; } };
ALONE int sell_apples(int n) { int r = apples(n); sink = r; return r + 7; }
ALONE int sell_pears(int n) { int r = pears(n); sink = r; return r + 7; }
ALONE int tail_apples(int n) { sink = 1; return apples(n); }
ALONE int tail_plums(int n) { sink = 1; return plums(n); }
ALONE int visit(Base *b, int n) { int r = b->get(n); sink = r; return r; }
ALONE int again(int n) { if (n == 0) return apples(2); int r = again(n - 1); return r + pears(1); }
static void *env[5];
ALONE void leave(int n) { sink = pears(n); __builtin_longjmp(env, 1); }
ALONE void deep(int n) { if (n == 0) leave(5); else { deep(n - 1); sink = 3; } }
ALONE void jumps() { if (!__builtin_setjmp(env)) deep(4); sink = plums(6); sink = apples(3); }
ALONE void shop() {
  One one; Two two; Three three;
  for (int i = 0; i < 10; i++) {
    sink = sell_apples(3); sink = sell_pears(5); sink = plums(2); sink = tail_apples(4); sink = tail_plums(2);
    sink = visit(&one, 6); sink = visit(&two, 8); sink = visit(&three, 8);
    sink = again(3);
    jumps();
  }
}
extern "C" void __cxa_pure_virtual() {}
extern "C" { void *_ZTVN10__cxxabiv117__class_type_infoE[3], *_ZTVN10__cxxabiv120__si_class_type_infoE[3]; }
extern "C" void _start() {
  shop();
  asm volatile("syscall" : : "a"(231), "D"(0));
}
"""
FLAGS = ("-O1", "-g", "-ffunction-sections", "-fno-inline", "-fno-exceptions", "-fno-pie", "-fno-stack-protector")
SELVES = ("apples(int)", "pears(int)", "plums(int)", "One::get(int)", "Two::get(int)", "sell_apples(int)")


def traced(folder: Path, icf_mode: str) -> tuple[Path, Path]:
    """Return the program and its trace."""
    program = folder / icf_mode
    options = (
        *linker_options("lld", tool("ld.lld")),
        f"-Wl,--icf={icf_mode}",
        "-Wl,--emit-relocs",
        "-nostdlib",
        "-static",
    )
    run(tool("clang++"), *options, compile_object(SOURCE, *FLAGS), "-o", program)
    log, trace = folder / "log", folder / f"{icf_mode}.trace.zip"
    lackey = ("--tool=lackey", "--trace-mem=yes", "--vex-guest-chase=no", f"--log-file={log}")
    subprocess.run([find("valgrind") or "", *lackey, program], check=True, timeout=120)
    icf("trace", "convert", log, "-e", program, "-o", trace, "--chunk-size", "1000")
    return program, trace


def truth_of(program: Path, trace: Path) -> Counter[str]:
    """Return how many instructions each symbol of a program ran."""
    with program.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        symbols = sorted(
            (each["st_value"], demangle(each.name))
            for each in table.iter_symbols()
            if each["st_info"]["type"] == "STT_FUNC"
        )
    starts = [start for start, _ in symbols]
    counts: Counter[str] = Counter()
    with TraceFile(str(trace)) as opened:
        for rows in TraceReader(opened, c.KEEP_INSTRUCTIONS).rows():
            for row in range(len(rows)):
                if rows[row, c.WHAT] & c.TYPE_MASK != k.NO_FETCH:
                    counts[symbols[bisect_right(starts, rows[row, c.ADDRESS]) - 1][1]] += 1
    return counts


@pytest.mark.skipif(find("valgrind") is None, reason="needs valgrind")
def test_every_instruction_of_a_merged_body_is_that_of_the_function_that_was_called(tmp_path: Path) -> None:
    truth = truth_of(*traced(tmp_path, "none"))
    folded, trace = traced(tmp_path, "all")
    icf("pass", "-q", folded)
    found = json.loads(icf("trace", "profile", "--json", "-e", folded, "--cache-dir", tmp_path / "cache", trace))
    assert {each["name"]: each["after"] for each in found["functions"] if each["after"]} == dict(truth)
    assert not any(each["is_open"] for each in found["functions"])
    before = {each["name"]: each["before"] for each in found["functions"]}
    assert sum(truth[name] != before.get(name, 0) for name in SELVES) == len(SELVES)  # folding hid all of them

    # dealt out to three cores, among which the thread moves
    cores = write_cores(tmp_path / "cores", {1: recorded(trace)}, core_count=3, quantum=500, chance=Random(1))
    moved = json.loads(icf("trace", "profile", "--json", "-e", folded, "--cache-dir", tmp_path / "cache", cores))
    assert moved == found

    lines = icf("trace", "profile", "--out", "collapsed", "-e", folded, "--cache-dir", tmp_path / "cache", trace)
    of_innermost: Counter[str] = Counter()
    for line in lines.splitlines():
        stack, _, count = line.rpartition(" ")
        of_innermost[stack.rpartition(";")[2]] += int(count)
    assert of_innermost == truth
    assert "shop();sell_pears(int);pears(int) " in lines and "shop();tail_plums(int);plums(int) " in lines
    assert "shop();visit(Base*, int);Two::get(int) " in lines
