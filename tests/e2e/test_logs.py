"""Reports of sanitizers, glibc and gdb about folded programs: after the filter every frame is as without folding.

Each program is compiled once and linked twice, with and without folding, and does the same thing wrong in one of three
functions that share a body. What the tool prints of the program that was not folded is the truth.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from icf.demangle import demangle
from icf.elf.image import Image
from linkpass import Options, run_pass
from tests.support.icf_command import icf_command
from tests.support.paths import ROOT
from tests.support.toolchain import lasting_folder, run, tool
from unwind.logs.filter import filter_log
from unwind.process.image_finder import ImageFinder
from unwind.readers.module_places import ModulePlaces
from unwind.target.recorded import RecordedResolver
from unwind.target.search import SearchPaths
from unwind.writers.named import Namer

PROGRAM = """
#include <cstdio>
#include <cstdlib>
#include <execinfo.h>
struct Order {}; struct Payment {}; struct User {};
int *sink;
__attribute__((noinline)) int show() { void *at[64]; backtrace_symbols_fd(at, backtrace(at, 64), 1); return 0; }
template <class T> struct List {
  __attribute__((always_inline)) int look(int n) { int r = 0; WRONG; return r; }
  __attribute__((noinline)) int grow(int n) {
    int r = look(n);
    asm volatile("");
    return r + 1;
  }
};
template <class T> __attribute__((noinline)) int run(int n) {
  List<T> list;
  int r = list.grow(n);
  asm volatile("");
  return r + 3;
}
int main(int count, char **words) {
  int which = atoi(words[1]), r;
  if (which == 0)
    r = run<Order>(count);
  else if (which == 1)
    r = run<Payment>(count);
  else
    r = run<User>(count);
  sink = nullptr;
  return r == -1;
}
"""
WRONG = {
    "address": "int *p = new int[n]; r = p[n]; delete[] p",
    "leak": "sink = new int[n]",
    "undefined": "r = n << (n + 32)",
    "memory": "int *p = new int[4]; if (p[n]) r = 1; delete[] p",
    "": "r = show()",
}
OPTIONS = {
    "address": "detect_leaks=0",
    "leak": "fast_unwind_on_malloc=0",
    "undefined": "print_stacktrace=1",
    "memory": "",
}
_FRAME = re.compile(r"#(\d+) +0x[0-9a-f]+ in (.*) (\S+?):(\d+)(?::\d+)?$")
_GDB = re.compile(r"#(\d+)  ?(?:0x[0-9a-f]+ in )?(\S.*?) \(.*\) at .*:(\d+)$")
Frame = tuple[str, ...]


@cache
def built(compiler: str, sanitizer: str, linker: str) -> tuple[Path, Path]:
    """Return the program as folded, with its tables, and as it is without folding."""
    folder = lasting_folder()
    driver = tool("clang++-19") if compiler == "clang" else tool("g++")
    linker_path = tool("ld.gold") if linker == "gold" else tool("ld.lld-19", "ld.lld")
    (folder / f"ld.{linker}").symlink_to(linker_path)
    (folder / "shop.cpp").write_text(PROGRAM)
    flags = [f"-fsanitize={sanitizer}"] if sanitizer else []
    options = ["-g", "-O1", "-fno-omit-frame-pointer", "-ffunction-sections", f"-DWRONG={WRONG[sanitizer]}", "-w"]
    subprocess.run([driver, *flags, *options, "-c", "shop.cpp"], cwd=folder, check=True)
    for name, folding in (("folded", "all"), ("plain", "none")):
        command = [driver, *flags, "shop.o", "-o", name, f"-B{folder}", f"-fuse-ld={linker}", f"-Wl,--icf={folding}"]
        if not sanitizer and name == "plain":
            command.append("-rdynamic")  # glibc names what is exported
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{compiler} has no runtime of -fsanitize={sanitizer}: {done.stderr[-200:]}")
    run_pass(str(folder / "folded"), Options())
    return folder / "folded", folder / "plain"


def report(program: Path, which: int, sanitizer: str, more: str = "") -> str:
    """Return what the program prints, with the standard error."""
    options = ":".join(part for part in (OPTIONS.get(sanitizer, ""), more) if part)
    names = {f"{tool_name}_OPTIONS": options for tool_name in ("ASAN", "LSAN", "UBSAN", "MSAN")}
    done = subprocess.run(
        [program, str(which)],
        env={**os.environ, **names}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False,
    )  # fmt: skip
    return done.stdout.decode()


def filtered(text: str, *roots: str) -> str:
    out = io.BytesIO()
    with RecordedResolver(SearchPaths(), ImageFinder(roots)) as resolver:
        filter_log(io.BytesIO(text.encode()), out, resolver, Namer(), ModulePlaces((), resolver.exported))
    return out.getvalue().decode()


def stacks(text: str) -> list[list[Frame]]:
    """Return name, file and line of the frames of the program, for each stack of a report."""
    found: list[list[Frame]] = []
    for line in text.splitlines():
        frame = _FRAME.search(line)
        if frame is None or "shop.cpp" not in frame[3]:
            continue
        if not found or found[-1][-1][0] == "main":
            found.append([])
        found[-1].append((frame[2], os.path.basename(frame[3]), frame[4]))
    return found


@pytest.mark.parametrize(
    ("compiler", "sanitizer", "linker"),
    [
        ("gcc", "address", "gold"),
        ("gcc", "address", "lld"),
        ("gcc", "leak", "gold"),
        ("gcc", "undefined", "gold"),
        ("clang", "address", "lld"),
        ("clang", "leak", "gold"),
        ("clang", "undefined", "gold"),
        ("clang", "memory", "lld"),
    ],
)
def test_reports_of_sanitizers(compiler: str, sanitizer: str, linker: str) -> None:
    folded, plain = built(compiler, sanitizer, linker)
    wrong_count = 0
    for which in range(3):
        truth_text = report(plain, which, sanitizer)
        truth = stacks(truth_text)
        assert truth and all(len(stack) >= 3 for stack in truth), truth_text
        text = report(folded, which, sanitizer)
        wrong_count += stacks(text) != truth
        after = filtered(text)
        assert stacks(after) == truth
        assert stacks(filtered(report(folded, which, sanitizer, "symbolize=0"))) == truth
        (summary,) = [line for line in after.splitlines() if "SUMMARY" in line and "leaked" not in line] or [""]
        assert summary.partition(" in ")[2] in ("", truth[0][0][0])
        outside = [line for line in text.splitlines() if "#" not in line and "SUMMARY" not in line]
        assert [line for line in after.splitlines() if "#" not in line and "SUMMARY" not in line] == outside
    # each check of UBSan has data of its own, with its line: such functions differ
    assert wrong_count > 0 or sanitizer == "undefined"


USE_AFTER_FREE = """
#include <cstdlib>
__attribute__((noinline)) static void drop(int *p) { free(p); asm(""); }
int main(int count, char **) { int *p = (int *)malloc(40); p[1] = count; drop(p); return p[1]; }
"""


def test_interceptors_have_the_names_of_what_they_stand_for(tmp_path: Path) -> None:
    """The runtime's `free` and `cfree` are one body; ASan prints one of the symbols there."""
    (tmp_path / "ld.lld").symlink_to(tool("ld.lld-19", "ld.lld"))
    (tmp_path / "use.cpp").write_text(USE_AFTER_FREE)
    command = [tool("clang++-19"), "-g", "-O1", "-fsanitize=address", f"-B{tmp_path}", "-fuse-ld=lld"]
    command += ["-Wl,--icf=all", "use.cpp", "-o", "use"]
    done = subprocess.run(
        [*icf_command(), "link", "--", *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"clang has no runtime of -fsanitize=address: {done.stderr[-200:]}")
    text = report(tmp_path / "use", 0, "address")
    found = [line.split()[3] for line in filtered(text).splitlines() if line.startswith("    #0")]
    assert found == ["main", "free", "malloc"]


@pytest.mark.parametrize("linker", ["gold", "lld"])
def test_backtraces_of_glibc(linker: str) -> None:
    folded, plain = built("gcc", "", linker)

    def names(text: str) -> list[str]:
        found = [line.partition("(")[2].partition(")[")[0].rpartition("+")[0] for line in text.splitlines()]
        return [demangle(name) for name in found[: found.index("main") + 1]]

    for which in range(3):
        truth = names(report(plain, which, ""))
        assert len(truth) == 4
        after = filtered(report(folded, which, ""))
        assert names(after) == truth
        assert re.search(r"\] at .*/shop\.cpp:1\d:\d+$", after.splitlines()[1])


def test_stacks_of_gdb() -> None:
    folded, plain = built("gcc", "", "gold")
    gdb = tool("gdb")

    def bt(program: Path, which: int) -> str:
        command = [gdb, "-nx", "-batch", "-ex", "break show", "-ex", "run"]
        command += ["-ex", "bt", "-ex", "bt full", "--args", str(program), str(which)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout

    def frames(text: str) -> list[Frame]:
        return [(found[2], found[3]) for line in text.splitlines() if (found := _GDB.match(line))]

    wrong_count = 0
    for which in range(3):
        truth = frames(bt(plain, which))
        if len(truth) != 10:
            pytest.skip("gdb cannot run the program here")
        text = bt(folded, which)
        wrong_count += frames(text) != truth
        command = [*icf_command(), "resolve", "--format", "log", "-e", str(folded)]
        done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, timeout=60, check=True)
        assert frames(done.stdout) == truth
    assert wrong_count == 2


@pytest.mark.parametrize("has_list", [True, False])
def test_stacks_of_lldb(has_list: bool, tmp_path: Path) -> None:
    """With the list of images in the session, which stands after the stacks, and with the image alone."""
    folded, plain = built("clang", "", "lld")
    lldb = tool("lldb-19", "lldb")

    def bt(program: Path, which: int) -> str:
        commands = ["breakpoint set -n show", f"run {which}", "bt", "image list"]
        command = [lldb, "-x", "-b", *[word for each in commands for word in ("-o", each)], str(program)]
        return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False).stdout

    def frames(text: str) -> list[Frame]:
        found = re.findall(r"frame #(\d+): 0x\w+ \w+`(.*?) at (shop\.cpp:\d+)", text)
        return [(number, name.partition("(")[0].partition(" [inlined]")[0], line) for number, name, line in found]

    wrong_count = 0
    for which in range(3):
        truth = frames(bt(plain, which))
        if len(truth) < 5:
            pytest.skip("lldb cannot run the program here")
        text = bt(folded, which)
        wrong_count += frames(text) != truth
        session = folded.with_name("session")
        session.write_text(text)
        where = ["--modules", str(session)] if has_list else ["-e", str(folded)]
        command = [*icf_command(), "resolve", "--format", "log", *where, str(session)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
        assert frames(done.stdout) == truth
    assert wrong_count == 2
    # a copy of another name is the program, where a list has its build id
    with Image.open(folded) as image:
        copy = tmp_path / ".build-id" / image.build_id.hex()[:2] / image.build_id.hex()[2:]
    copy.parent.mkdir(parents=True)
    shutil.copy(folded, copy)
    stacks, _, images = text.partition("(lldb) image list\n")
    session.write_text(stacks.replace("(lldb) bt\n", images))
    where = ["--modules", str(session), "--module-root", str(tmp_path)] if has_list else ["-e", str(copy)]
    command = [*icf_command(), "resolve", "--format", "log", *where, str(session)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert frames(done.stdout) == truth


THREADS = """
#include <thread>
struct Order {}; struct Payment {}; struct User {};
int shared;
template <class T> struct List {
  __attribute__((always_inline)) void look() { shared++; }
  __attribute__((noinline)) void grow() { look(); asm volatile(""); }
};
template <class T> __attribute__((noinline)) void worker() { List<T> list; list.grow(); asm volatile(""); }
static void orders() { worker<Order>(); asm volatile("nop"); }
static void payments() { worker<Payment>(); asm volatile("nop; nop"); }
static void users() { worker<User>(); asm volatile("nop; nop; nop"); }
int main() {
  std::thread a(orders), b(payments), c(users);
  a.join(), b.join(), c.join();
}
"""


def test_tsan(tmp_path: Path) -> None:
    """Which threads race differs from run to run; all frames of a stack are of one class."""
    (tmp_path / "shop.cpp").write_text(THREADS)
    command = [tool("g++"), "-g", "-O1", "-fsanitize=thread", "-ffunction-sections", "shop.cpp", "-o", "shop"]
    done = subprocess.run([*command, "-fuse-ld=gold", "-Wl,--icf=all"], cwd=tmp_path, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("gcc has no runtime of -fsanitize=thread, or there is no gold")
    run_pass(str(tmp_path / "shop"), Options())
    checked = 0
    for more in ("", "symbolize=0"):
        environment = {**os.environ, "TSAN_OPTIONS": more}
        done = subprocess.run([tmp_path / "shop"], env=environment, capture_output=True, timeout=60, check=False)
        if b"data race" not in done.stderr:
            pytest.skip("TSan does not run here")
        text = filtered(done.stderr.decode(), str(tmp_path))
        for stack in re.split(r"\n\s*\n", text):
            classes = set(re.findall(r"(?:List|worker)<(\w+)>", stack)) if "worker" in stack else set()
            assert len(classes) <= 1, stack
            checked += bool(classes)
    assert checked


RUST = """
use std::hint::black_box;
struct Order;
struct Payment;
struct List<T>(std::marker::PhantomData<T>);
impl<T> List<T> {
    #[inline(always)]
    fn check(n: u32) { if n == 3 { panic!("no {}", n) } }
    #[inline(never)]
    fn grow(n: u32) -> u32 { Self::check(n); black_box(n) + 1 }
    #[inline(never)]
    fn add(n: u32) -> u32 { black_box(Self::grow(n)) + 3 }
}
fn main() {
    let words: Vec<String> = std::env::args().collect();
    std::fs::copy("/proc/self/maps", &words[1]).unwrap();
    let n = words.len() as u32;
    let r = if words[2] == "order" { List::<Order>::add(n) } else { List::<Payment>::add(n) };
    println!("{}", black_box(r));
}
"""


@pytest.mark.parametrize("which", ["order", "payment"])
def test_panics_of_rust(which: str, tmp_path: Path) -> None:
    rustc, icf = tool("rustc"), (sys.executable, "-m", "icf")
    (tmp_path / "shop.rs").write_text(RUST)
    (tmp_path / "ld.lld").symlink_to(tool("ld.lld"))
    linker = tmp_path / "linker"
    linker.write_text(f'#!/bin/sh\nexec {" ".join(icf)} link -- cc -B{tmp_path} "$@"\n')
    linker.chmod(0o755)
    options = ["-g", "-C", "opt-level=1", "-C", "symbol-mangling-version=v0", "-C", f"linker={linker}"]
    names = {}
    for folding in ("none", "all"):
        uses = ["-C", "link-arg=-fuse-ld=lld", "-C", f"link-arg=-Wl,--icf={folding}"]
        run(rustc, *options, *uses, "shop.rs", "-o", folding, folder=tmp_path)
        environment = {**os.environ, "RUST_BACKTRACE": "full"}
        command: list[str | Path] = [tmp_path / folding, tmp_path / f"{folding}.maps", which]
        panic = subprocess.run(command, env=environment, capture_output=True, check=False).stderr
        (tmp_path / folding).with_suffix(".log").write_bytes(panic)
        if folding == "all":
            modules = ("--modules", tmp_path / "all.maps", "--cache-dir", tmp_path / "cache")
            text = run(*icf, "resolve", "--format", "log", *modules, tmp_path / "all.log").stdout
            recorded = run(*icf, "resolve", *modules, "--out", "json", tmp_path / "all.log").stdout
        else:
            text = panic.decode()
        frames = re.findall(r"^ *\d+: +0x[0-9a-f]+ - (.*)\n", text, re.MULTILINE)
        frames = [re.sub(r"\[[0-9a-f]+\]", "", name) for name in frames]
        names[folding] = [
            name for name in frames if "shop" in name and "check" not in name
        ]  # lld drops what is inlined
    assert names["all"] == names["none"]
    assert [name.rpartition("::")[2] for name in names["all"]] == ["grow", "add", "main"]
    assert f"shop::{which.title()}" in names["all"][0]
    assert [each["name"] for each in json.loads(recorded)["frames"] if "shop" in (each["name"] or "")] == names["all"]
