"""Stacks of a process that has become another program several times: those of its last program, to their ends.

perf 6.1 ends most of these stacks at the first frame or two; why is not known. So the truth is the program itself,
whose calls are known; on cores of such a process eu-stack finds the same frames.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from icf.cli import main
from tests.support.toolchain import compile_object, link, run, tool

CHAIN = r"""
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
volatile long sink;
[[gnu::noinline]] long spin(long n) { for (long i = 0; i < 40000000; i++) sink += i * n; return sink; }
[[gnu::noinline]] long inner(long n) { return spin(n) + 1; }
[[gnu::noinline]] long outer(long n) { return inner(n) + 1; }
int main(int argc, char **argv) {
  int left = atoi(argv[1]);
  char word[12];
  snprintf(word, sizeof word, "%d", left - 1);
  if (left) return execl(argv[0], argv[0], word, nullptr);
  outer(3);
  _exit(0);
}
"""


def test_stacks_after_exec_reach_the_start_of_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = link(tmp_path / "chain", "bfd", compile_object(CHAIN, "-O2"))
    data = tmp_path / "perf.data"
    how = ("-q", "-e", "cpu-clock:u", "-F", "997", "--call-graph", "dwarf")
    done = run(tool("perf"), "record", *how, "-o", data, "--", program, "4", check=False)
    if done.returncode or not data.exists():
        pytest.skip(f"perf cannot record: {done.stderr.strip()[:80]}")
    assert main(["resolve", str(data), "--out", "collapsed", "--cache-dir", str(tmp_path / "cache")]) == 0
    counts: dict[tuple[str, ...], int] = {}
    for line in capsys.readouterr().out.splitlines():
        stack, _, count = line.rpartition(" ")
        names = [name.partition("(")[0] for name in stack.split(";")]
        if "outer" in names:
            start, end = names.index("_start"), names.index("main")
            counts[(*names[: start + 1], *names[end:])] = int(count)
    assert sum(counts.values()) > 20
    assert {stack[-5:] for stack in counts} == {("_start", "main", "outer", "inner", "spin")}
