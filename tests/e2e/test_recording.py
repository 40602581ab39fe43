"""From nothing to a profile with right names: `icf link`, `icf record`, `icf resolve`, each as a user calls it."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.toolchain import linker_options, run, tool

ICF = (sys.executable, "-m", "icf")
SOURCE = """
#include <ctime>
struct Order {}; struct Payment {};
static volatile unsigned long sum;
template <class T> struct Ledger {
  __attribute__((noinline)) static void post(unsigned long count) {
    for (unsigned long i = 0; i < count; i++) sum += i;
    sum++;
  }
};
__attribute__((noinline)) void orders(unsigned long count) { Ledger<Order>::post(count); sum++; }
__attribute__((noinline)) void payments(unsigned long count) { Ledger<Payment>::post(3 * count); sum--; }
int main() { while (clock() < CLOCKS_PER_SEC / 2) { orders(1000000); payments(1000000); } }
"""
FLAGS = ("-O2", "-g", "-ffunction-sections", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer")
LARGEST_ERROR = 0.06  # four times the standard deviation of a share of 1/4 among 800 samples, some less than are taken


def shares(program: Path, folder: Path) -> dict[str, float]:
    """Return which part of the samples each function has itself, with its caller's name."""
    data = folder / f"{program.name}.data"
    run(*ICF, "record", "-e", "cpu-clock", "-F", "2000", "-o", data, "--", program)
    text = run(*ICF, "resolve", data, "--out", "collapsed", "--cache-dir", folder / "cache").stdout
    counts: Counter[str] = Counter()
    for line in text.splitlines():
        stack, count = line.rsplit(" ", 1)
        own = [
            name for name in stack.split(";") if "::post(" in name or name.startswith(("orders", "payments", "main"))
        ]
        counts[own[-1] if own else "other"] += int(count)
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()}


@pytest.mark.slow
def test_two_merged_loops_have_the_shares_that_they_have_apart(tmp_path: Path) -> None:
    perf = tool("perf")
    if run(perf, "record", "-q", "-e", "cpu-clock", "-o", tmp_path / "try", "--", "true", check=False).returncode:
        pytest.skip("perf may not record here")
    compiler, (use, folder) = tool("clang++"), linker_options("lld", tool("ld.lld"))
    (tmp_path / "ledger.cpp").write_text(SOURCE)
    run(compiler, *FLAGS, "-c", tmp_path / "ledger.cpp", "-o", tmp_path / "ledger.o")
    command = (compiler, use, folder, tmp_path / "ledger.o", "-o")
    run(*ICF, "link", "--strict", "--", *command, tmp_path / "folded", "-Wl,--icf=all")
    run(*command, tmp_path / "apart", "-Wl,--icf=none")
    folded, apart = shares(tmp_path / "folded", tmp_path), shares(tmp_path / "apart", tmp_path)
    order, payment = "Ledger<Order>::post(unsigned long)", "Ledger<Payment>::post(unsigned long)"
    assert not any(" | " in name for name in folded)
    assert folded[order] == pytest.approx(0.25, abs=LARGEST_ERROR)
    assert folded[payment] == pytest.approx(0.75, abs=LARGEST_ERROR)
    assert set(folded) | {"other", "main"} == set(apart) | {"other", "main"}
    for name in (order, payment):
        assert folded[name] == pytest.approx(apart[name], abs=LARGEST_ERROR)
    # what perf itself says: one of the two has it all
    script = run(perf, "script", "-i", tmp_path / "folded.data", "-F", "ip,sym").stdout
    assert len({name for name in (order, payment) if name.split("(")[0] in script}) == 1
