"""Functions that a compiler has merged without a trace: said once for the image, with the option that prevents it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.e2e.program import icf
from tests.e2e.workshop import GOLD, LLD_ALONE, Toolchain, Workshop
from tests.support.icf_command import icf_command
from tests.support.toolchain import run, tool

MERGED = """
    volatile int total;
    NOINLINE void leaf(int n) { total += n; }
    static NOINLINE int apples(int n) { leaf(n); leaf(n + 1); return n * 7; }
    static NOINLINE int pears(int n) { leaf(n); leaf(n + 1); return n * 7; }
    int main(int n, char **) { return apples(n) == pears(n + 1); }
"""


def run_pass(image: Path, capsys: pytest.CaptureFixture[str]) -> tuple[bool, list[str], str]:
    """What the pass says in JSON and on stderr, and `icf dump` agrees."""
    capsys.readouterr()
    summary = json.loads(icf("pass", "--json", image))
    said = capsys.readouterr().err
    assert json.loads(icf("dump", "--json", image))["merged_by_compiler"] is summary["merged_by_compiler"]
    return summary["merged_by_compiler"], summary["merging_compilers"], said


@pytest.mark.parametrize("toolchain", [GOLD, Toolchain("gcc", "lld")], ids=str, indirect=True)
@pytest.mark.parametrize("flag", ["-fipa-icf", "-fno-ipa-icf"])
def test_gcc(workshop: Workshop, flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    image, _ = workshop.link("program", workshop.compile(MERGED, flag), "all")
    merged, compilers, said = run_pass(image, capsys)
    assert (merged, compilers) == ((True, ["gcc"]) if flag == "-fipa-icf" else (False, []))
    assert said.count("icf: note:") == said.count("-fno-ipa-icf") == int(merged)


@pytest.mark.parametrize("toolchain", [LLD_ALONE], ids=str, indirect=True)
def test_clang_merges_nothing_unless_it_is_asked_to(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    image, _ = workshop.link("program", workshop.compile(MERGED), "all")
    assert run_pass(image, capsys) == (False, [], "")


# of two methods of one class that gcc has merged only one has debug information
HOOKS = """
    extern volatile int total;
    struct Hooks { virtual void before(int n); virtual void after(int n); virtual void body(int n) = 0; };
"""
METHODS = {
    "hooks.cpp": f"""{HOOKS}
    void Hooks::before(int n) {{ total = total + n; }}
    void Hooks::after(int n) {{ total = total + n; }}
    """,
    "main.cpp": f"""{HOOKS}
    volatile int total;
    struct Mine : Hooks {{ void body(int n) override {{ total = total + n * 2; }} }};
    NOINLINE void other(int n) {{ total = total + n; }}
    NOINLINE void run(Hooks &hooks, int n) {{ hooks.before(n); hooks.body(n); hooks.after(n); }}
    int main(int n, char **) {{ Mine mine; other(n); run(mine, n); return 0; }}
    """,
}


@pytest.mark.parametrize("toolchain", [GOLD, Toolchain("gcc", "lld")], ids=str, indirect=True)
def test_each_slot_has_the_method_that_debug_information_has_in_it(workshop: Workshop) -> None:
    image, _ = workshop.link("program", workshop.compile(METHODS, "-fipa-icf"), "all")
    icf("pass", image)
    vtables = json.loads(icf("dump", "--json", image))["vtables"]
    slots = {tuple(slot["name"] for slot in vtable["slots"][:2]) for vtable in vtables}
    assert slots == {("Hooks::before(int)", "Hooks::after(int)")}


def test_icf_link_says_it_once(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text(MERGED.replace("NOINLINE", "__attribute__((noinline))"))
    gcc = (tool("g++"), "-O2", "-g", "-ffunction-sections")
    run(*gcc, "-c", "a.cpp", folder=tmp_path)
    tool("ld.gold")
    link = [*icf_command(), "link", "--", *gcc, "-fuse-ld=gold", "-Wl,--icf=all", "a.o", "-o", "a"]
    done = run(*link, folder=tmp_path)
    assert done.stderr.count("icf: note: a: gcc may have merged") == 1 == len(done.stderr.splitlines())


POOLS = """
use std::hint::black_box;
pub struct Order(pub u64, pub u64);
pub struct Payment(pub u64, pub u64);
pub struct Pool<T> { items: Vec<T>, n: usize }
impl<T> Pool<T> {
    #[inline(never)] fn new() -> Self { Pool { items: Vec::new(), n: 0 } }
    #[inline(never)] fn add(&mut self, t: T) { self.n += 1; self.items.push(t); self.n ^= 3; }
}
#[inline(never)] fn orders() { let mut p = Pool::<Order>::new(); p.add(Order(1, 2)); black_box(&p.n); }
#[inline(never)] fn payments() { let mut p = Pool::<Payment>::new(); p.add(Payment(1, 2)); black_box(&p.n); }
fn main() { orders(); payments(); }
"""
KEEP = ("-C", "llvm-args=-mergefunc-preserve-debug-info")


@pytest.mark.parametrize("keep", [False, True])
def test_rust(tmp_path: Path, keep: bool) -> None:
    rustc = tool("rustc")
    (tmp_path / "pools.rs").write_text(POOLS)
    (tmp_path / "ld.lld").symlink_to(tool("ld.lld"))
    linker = tmp_path / "linker"
    linker.write_text(f'#!/bin/sh\nexec {shlex.join(icf_command())} link -- cc -B{tmp_path} "$@"\n')
    linker.chmod(0o755)
    options = ["-Awarnings", "-g", "-C", "opt-level=3", "-C", "codegen-units=1", "-C", f"linker={linker}"]
    options += ["-C", "link-arg=-fuse-ld=lld", "-C", "link-arg=-Wl,--icf=all", *(KEEP if keep else ())]
    run(rustc, *options, "pools.rs", "-o", "pools", folder=tmp_path)
    image = tmp_path / "pools"
    run(image)
    assert json.loads(icf("dump", "--json", "--vcall", image))["merged_by_compiler"] is not keep
    classes = json.loads(icf("dump", "--folds", "--json", image))["classes"]
    names = [[each["linkage_name"] for each in one["members"] if "3new17h" in each["linkage_name"]] for one in classes]
    assert max(map(len, names)) == (2 if keep else 0)  # Pool<T>::new, of Order and of Payment: one text, two functions
