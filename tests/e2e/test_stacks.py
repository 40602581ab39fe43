"""`icf stacks` on core files of programs that crash: all threads, merged frames named, nothing named wrongly.

The same objects are linked with folding and without it, and both programs crash at the same place: frame k of a thread
of the one is frame k of that thread of the other, whose names are the truth.
"""

from __future__ import annotations

import json
import re
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from icf.filebytes import FileBytes
from tests.e2e.program import icf
from tests.support.cores import crash
from tests.support.minidumps import minidump_of
from tests.support.toolchain import find, lasting_folder, link, run, tool
from unwind.dumps.core import read_core

SOURCE = r"""
#include <csignal>
#include <cstdlib>
#include <pthread.h>
#include <unistd.h>
struct Order {}; struct Payment {}; struct User {};
static volatile int sum;
static volatile int waiting;

template <class T> struct Ledger {
  __attribute__((noinline)) static int post(int n);
  __attribute__((noinline)) static int book(int n) { int found = post(n + 1); sum = sum + found; return found; }
};
template <class T> int Ledger<T>::post(int n) {
  if (n > 100) abort();
  if (n > 40) { __atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST); for (;;) pause(); }
  return n + sum;
}
struct Shape { virtual int area(int n) = 0; virtual ~Shape() {} };
struct Square : Shape {
  int area(int n) override { int found = Ledger<User>::book(n); sum = sum + 1; return found; }
};
struct Circle : Shape {
  int area(int n) override { int found = Ledger<Order>::book(n); sum = sum + 1; return found; }
};

__attribute__((noinline)) void handler(int) { Ledger<User>::book(200); sum = sum + 2; }
__attribute__((noinline)) int jumps(int n) { sum = sum + 5; return Ledger<Payment>::book(n); }  // a tail call
void *orders(void *) { Ledger<Order>::book(50); sum = sum + 1; return nullptr; }
void *payments(void *) { sum = sum + jumps(51); return nullptr; }
__attribute__((noinline)) int total(Shape **shapes, int n) {
  int t = 0;
  for (int i = 0; i < 2; i++) t += shapes[i]->area(n);
  return t;
}
int main() {
  pthread_t first, second;
  pthread_create(&first, nullptr, orders, nullptr);
  while (waiting < 1) usleep(1000);
  pthread_create(&second, nullptr, payments, nullptr);
  while (waiting < 2) usleep(1000);
  usleep(20000);
  Shape *shapes[] = {new Square, new Circle};
  sum = sum + total(shapes, 3);
  signal(SIGUSR1, handler);
  raise(SIGUSR1);
}
"""
GDB_SCRIPT = """
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame, pcs = gdb.newest_frame(), []
    while frame is not None:
        if frame.type() in (gdb.NORMAL_FRAME, gdb.SIGTRAMP_FRAME):
            pcs.append(str(frame.pc()))
        frame = frame.older()
    print(f"TID {thread.ptid[1]}:", *pcs)
"""
FLAGS = ("-O2", "-g", "-ffunction-sections", "-fPIE")


def frames_of(core: Path, *options: str | Path) -> list[dict[str, Any]]:
    """What `icf stacks --json` says: an object for each thread, in the order in which they were started."""
    threads = [json.loads(line) for line in icf("stacks", core, "--json", *options).splitlines()]
    return sorted(threads, key=lambda thread: int(thread["labels"]["tid"]))


@pytest.fixture(scope="module")
def programs() -> tuple[Path, Path]:
    """The program with folding and with its tables, and without folding."""
    folder = lasting_folder()
    (folder / "shop.cpp").write_text(SOURCE)
    run(tool("clang++"), *FLAGS, "-c", "shop.cpp", "-o", "shop.o", folder=folder)
    folded = link(folder / "folded", "lld", folder / "shop.o", "-pie", "-pthread", "-Wl,--icf=all")
    apart = link(folder / "single", "lld", folder / "shop.o", "-pie", "-pthread", "-Wl,--icf=none")
    icf("pass", folded, "--objects", folder / "shop.o")
    return folded, apart


@pytest.fixture(scope="module")
def cores(programs: tuple[Path, Path]) -> tuple[Path, Path]:
    """The core files of both programs."""
    folded, apart = (crash(path.parent, path) for path in programs)
    return folded, apart


def test_merged_frames_have_the_names_that_they_have_without_folding(cores: tuple[Path, Path]) -> None:
    folded, apart = map(frames_of, cores)
    assert len(folded) == len(apart) == 3
    named = 0
    for thread, truth in zip(folded, apart, strict=True):
        assert len(thread["frames"]) == len(truth["frames"])
        for frame, true in zip(thread["frames"], truth["frames"], strict=True):
            assert frame["linkage_name"] in (None, true["linkage_name"])
            assert frame["linkage_name"] or true["linkage_name"] in frame["candidates"]
            assert (frame["file"], frame["line"]) in ((None, None), (true["file"], true["line"]))
            named += frame["verdict"] == "unique"
    assert named >= 6  # book and post of each thread
    names = ["".join(str(frame["name"]) for frame in thread["frames"]) for thread in folded]
    assert "Ledger<User>::post(int)Ledger<User>::book(int)" in names[0]
    assert sorted("Ledger<Payment>::book(int)" in text for text in names[1:]) == [False, True]


def test_frames_are_those_of_gdb_and_elfutils(programs: tuple[Path, Path], cores: tuple[Path, Path]) -> None:
    own = {
        thread["labels"]["tid"]: [int(frame["address"], 16) for frame in thread["frames"]]
        for thread in frames_of(cores[0], "--no-lines")
    }
    assert sorted(own) == sorted({thread["labels"]["tid"] for thread in frames_of(cores[0])})
    if find("eu-stack"):
        text = run("eu-stack", "--core", cores[0], "-e", programs[0], check=False).stdout
        threads = re.split(r"^TID (\d+):\n", text, flags=re.MULTILINE)[1:]
        found = {int(tid): addresses(frames) for tid, frames in zip(threads[::2], threads[1::2], strict=True)}
        assert found == own
    commands = ("set debuginfod enabled off", "set backtrace past-main on", "set backtrace past-entry on")
    options = [word for command in (*commands, f"python exec({GDB_SCRIPT!r})") for word in ("-ex", command)]
    text = run(tool("gdb"), "-nx", "-batch", programs[0], cores[0], *options).stdout
    found = {int(tid): [int(pc) for pc in pcs.split()] for tid, pcs in re.findall(r"^TID (\d+):(.*)$", text, re.M)}
    assert found == own


def addresses(frames: str) -> list[int]:
    """The addresses in a stack of eu-stack."""
    return [int(value, 16) for value in re.findall(r"^#\d+ +(0x[0-9a-f]+)", frames, flags=re.MULTILINE)]


def test_a_core_file_need_not_list_its_files(cores: tuple[Path, Path], tmp_path: Path) -> None:
    content = cores[0].read_bytes()
    assert content.count(b"ELIFCORE\0") == 1
    (tmp_path / "core").write_bytes(content.replace(b"ELIFCORE\0", b"elifCORE\0"))  # NT_FILE
    found, expected = ([each["frames"] for each in frames_of(core)] for core in (tmp_path / "core", cores[0]))
    for frame in (*chain(*found), *chain(*expected)):
        frame["module"] = Path(frame["module"]).name  # the dynamic linker says /lib, the kernel /usr/lib
        for missing in frame.pop("missing", ()):
            frame.setdefault("missing_names", []).append(missing["name"])
    assert found == expected


def test_the_text_reads_like_that_of_gdb(cores: tuple[Path, Path]) -> None:
    text = icf("stacks", "--core", cores[0])
    assert re.match(r"Thread 1 \(LWP \d+\), SIGABRT:\n#0  0x[0-9a-f]{16} in ", text)
    assert re.search(
        r"^#\d+ +0x[0-9a-f]{16} in Ledger<User>::post\(int\) \(\) at .*shop\.cpp:\d+  \[unique, \w+\]$", text, re.M
    )
    assert re.search(r"^#\d+ +<signal handler called>$", text, re.M)
    assert re.search(r"^    0x[0-9a-f]{16} in jumps\(int\) \(\) at .*shop\.cpp:\d+  \[tail call\]$", text, re.M)
    assert "Thread 3 (LWP " in text and "The stack goes on" not in text


def test_a_debug_file_is_that_of_one_module(
    programs: tuple[Path, Path], cores: tuple[Path, Path], tmp_path: Path
) -> None:
    """The program is stripped; its libraries are other modules."""
    stripped = tmp_path / "root" / programs[0].name
    stripped.parent.mkdir()
    run(tool("strip"), programs[0], "-o", stripped)
    options = ("--module-root", stripped.parent, "--cache-dir", tmp_path / "cache")
    assert frames_of(cores[0], *options) != frames_of(cores[0])
    assert frames_of(cores[0], *options, "--debug-file", programs[0]) == frames_of(cores[0])
    command = (sys.executable, "-m", "icf", "stacks", "--core", cores[0], *options, "--debug-file", programs[1])
    assert f"{programs[1]}: belongs to none of the modules: it was not used" in run(*command).stderr


def test_an_image_of_another_build_is_not_taken(
    programs: tuple[Path, Path], cores: tuple[Path, Path], tmp_path: Path
) -> None:
    core = moved(cores[0], programs, tmp_path)
    options = ("--cache-dir", tmp_path, "--core", core)
    done = run(sys.executable, "-m", "icf", "stacks", *options)
    assert "Ledger" not in done.stdout
    problem = rf"{programs[1]}: has build id [0-9a-f]+, not [0-9a-f]+"
    warning = rf"^icf: warning: {problem}: 2 distinct frames are unknown, copied stacks end there$"
    assert re.search(warning, done.stderr, re.M)
    assert len(re.findall(rf"^The stack goes on: {problem}$", done.stdout, re.M)) == 3
    # the user names the image: that of the build is taken, another is not
    assert "Ledger" in run(sys.executable, "-m", "icf", "stacks", *options, "-e", programs[0]).stdout
    assert "Ledger" not in run(sys.executable, "-m", "icf", "stacks", *options, "-e", programs[1]).stdout


@pytest.mark.parametrize("with_maps", [False, True], ids=["modules", "maps"])
def test_a_minidump_has_the_stacks_of_the_core_file(cores: tuple[Path, Path], tmp_path: Path, with_maps: bool) -> None:
    made = minidump_of(read_core(FileBytes.open(str(cores[0]))), with_maps=with_maps)
    (tmp_path / "dump").write_bytes(made.build())
    threads = [json.loads(line) for line in icf("stacks", "--minidump", tmp_path / "dump", "--json").splitlines()]
    of_core = frames_of(cores[0])
    assert [each["frames"] for each in sorted(threads, key=lambda each: int(each["labels"]["tid"]))] == [
        each["frames"] for each in of_core
    ]
    assert {each["labels"].get("signal") for each in threads} == {"SIGABRT", None}


def moved(core: Path, programs: tuple[Path, Path], folder: Path) -> Path:
    """The core file as if the program's path had that of the other build."""
    content = core.read_bytes().replace(bytes(programs[0]), bytes(programs[1]))
    path = folder / "core"
    path.write_bytes(content)
    return path


OVERFLOW = """
struct Order { int id; }; struct Payment { int id; };
template <class T> struct List {
  __attribute__((noinline)) int grow(T *t, int depth) {
    volatile char room[64];
    BEFORE
    int found = grow(t, depth + 1);
    AFTER
    return found + room[3];
  }
};
List<Order> orders; List<Payment> payments;
int main(int argc, char **) {
  Order order{1}; Payment payment{2};
  return argc > 1 ? payments.grow(&payment, 0) : orders.grow(&order, 0);
}
"""


@pytest.mark.parametrize("where", ["BEFORE", "AFTER"])
def test_a_stack_that_overflowed(tmp_path: Path, where: str) -> None:
    """The stack pointer lies below the stack, which nothing of the core file has; a call or a store has failed."""
    source = tmp_path / "deep.cpp"
    stores = dict.fromkeys(("BEFORE", "AFTER"), "") | {where: "room[depth & 63] = t->id;"}
    source.write_text(re.sub("BEFORE|AFTER", lambda found: stores[found[0]], OVERFLOW))
    run(tool("g++"), "-O1", "-g", "-ffunction-sections", "-c", source, "-o", tmp_path / "deep.o")
    link(tmp_path / "deep", "gold", tmp_path / "deep.o", "-Wl,--icf=all")
    icf("pass", tmp_path / "deep", "--objects", tmp_path / "deep.o")
    core = crash(tmp_path, tmp_path / "deep", "payments")
    (thread,) = frames_of(core, "--no-lines", "--cache-dir", tmp_path / "cache")
    names = [each["name"] for each in thread["frames"]]
    assert len(names) > 50_000 and "main" in names[-4:]
    assert set(names[: names.index("main")]) == {"List<Payment>::grow(Payment*, int)"}
