"""Profiles that gperftools and jemalloc write while a program with merged functions runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from icf.cli import main
from tests.e2e.workshop import GOLD, Workshop

PROGRAM = """
    #include <stdlib.h>
    struct Order {}; struct Payment {};
    template <class T> struct List {
        void **last; long count;
        NOINLINE void grow(long n) {
            for (long i = 0; i < n; ++i) { last = (void **)malloc(100000); *last = 0; ++count; }
        }
    };
    NOINLINE void place(List<Order> *list) { list->grow(300); ++list->count; }
    NOINLINE void pay(List<Payment> *list) { list->grow(100); --list->count; }
    volatile long sum;
    template <class T> NOINLINE void spin(long n) { for (long i = 0; i < n; ++i) sum += i; }
    NOINLINE void slow(long n) { spin<Order>(3 * n); ++sum; }
    NOINLINE void fast(long n) { spin<Payment>(n); --sum; }
    int main(int argc, char **) {
        List<Order> orders{}; List<Payment> payments{};
        place(&orders);
        pay(&payments);
        for (int i = 0; i < 20; ++i) { slow(2000000L * argc); fast(2000000L * argc); }
        return 0;
    }
"""
FOLDERS = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), "/usr/lib/x86_64-linux-gnu", "/usr/lib64"]
pytestmark = pytest.mark.parametrize("toolchain", [GOLD], ids=str, indirect=True)


def library(name: str) -> Path:
    """Return the path of a library; skips the test where it is not installed."""
    for folder in FOLDERS:
        if folder and (path := Path(folder, name)).exists():
            return path
    pytest.skip(f"needs {name}")


@pytest.fixture
def program(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ICF_CACHE_DIR", str(workshop.folder / "cache"))
    return workshop.build_with_tables(PROGRAM, ["-fno-omit-frame-pointer"]).folded


def run(program: Path, preloaded: Path, **environment: str) -> None:
    paths = f"{preloaded.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    variables = {"LD_PRELOAD": str(preloaded), "LD_LIBRARY_PATH": paths, **environment}
    subprocess.run([program], check=True, timeout=120, capture_output=True, env={**os.environ, **variables})


def counts(profile: Path, out: Path) -> dict[str, int]:
    """Return what each function with `List` or `spin` in its name counts, as the innermost of them."""
    assert main(["resolve", str(profile), "--out", "collapsed", "-o", str(out)]) == 0
    found: dict[str, int] = {}
    for line in out.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        names = [name for name in stack.split(";") if name.startswith(("List", "void spin"))]
        if names:
            found[names[-1]] = found.get(names[-1], 0) + int(count)
    return found


def test_a_heap_profile_of_gperftools(program: Path, tmp_path: Path) -> None:
    run(program, library("libtcmalloc_and_profiler.so.4"), HEAPPROFILE=str(tmp_path / "heap"))
    (profile,) = tmp_path.glob("heap.*.heap")
    grown = {"List<Order>::grow(long)": 30_000_000, "List<Payment>::grow(long)": 10_000_000}
    assert counts(profile, tmp_path / "out") == grown


def test_a_heap_profile_of_jemalloc(program: Path, tmp_path: Path) -> None:
    # each allocation of 100,000 bytes is rounded up, and sampled
    options = f"prof:true,prof_final:true,lg_prof_sample:0,prof_prefix:{tmp_path / 'heap'}"
    run(program, library("libjemalloc.so.2"), MALLOC_CONF=options)
    (profile,) = tmp_path.glob("heap.*.heap")
    found = counts(profile, tmp_path / "out")
    order, payment = found.pop("List<Order>::grow(long)"), found.pop("List<Payment>::grow(long)")
    assert found == {} and order == 3 * payment >= 30_000_000


def test_a_cpu_profile_of_gperftools(program: Path, tmp_path: Path) -> None:
    profile = tmp_path / "cpu"
    run(program, library("libtcmalloc_and_profiler.so.4"), CPUPROFILE=str(profile), CPUPROFILE_FREQUENCY="1000")
    found = counts(profile, tmp_path / "out")
    slow, fast = found["void spin<Order>(long)"], found["void spin<Payment>(long)"]
    samples = (slow + fast) / 1_000_000  # one a millisecond
    error = 4 * (0.75 * 0.25 / samples) ** 0.5
    assert abs(slow / (slow + fast) - 0.75) < error, f"{slow}, {fast} of {samples} samples"
