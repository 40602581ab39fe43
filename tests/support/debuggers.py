"""A program for debuggers: linked with folding and without, stopped at the same events, and what gdb then shows.

`event` is called in every situation; `settled` is the last one, with two more threads in merged functions. With two
arguments the program crashes then, in a virtual function; with one it waits. The stack of the unfolded program at the
same event is the truth.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.toolchain import compile_object, link, tool

MAIN = r"""
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
int crashes;
extern "C" __attribute__((noinline)) void event(int n) {
  asm volatile("nop" :: "r"(n) : "memory");
  if (crashes) __builtin_trap();
}
extern "C" __attribute__((noinline)) void settled(int n) { asm volatile("nop; nop" :: "r"(n) : "memory"); }
struct Order { long v; };
struct Payment { long v; };
int sink, pipes[2];
void shelve(int *p);
template <class T> struct List {
  long n = 0;
  static inline __attribute__((always_inline)) void bump(List *l) { l->n++; event(1); l->n++; }
  __attribute__((noinline)) void grow() { event(2); n += 2; }
  __attribute__((noinline)) void add(T *t) { grow(); n += t->v; bump(this); }
};
struct Shape { virtual ~Shape() {} virtual void draw() = 0; long pad = 0; };
struct Circle : Shape { void draw() override; };
struct Square : Shape { void draw() override; };
__attribute__((noinline)) void Circle::draw() { event(3); pad++; }
__attribute__((noinline)) void Square::draw() { event(3); pad++; }
__attribute__((noinline)) void leaf_a(int *p) { event(4); *p += 1; }
__attribute__((noinline)) void leaf_b(int *p) { event(4); *p += 1; }
__attribute__((noinline)) void tail_a(int *p) { *p ^= 3; leaf_a(p); }
__attribute__((noinline)) void tail_b(int *p) { *p ^= 3; leaf_b(p); }
__attribute__((noinline)) void solo(int *p) { *p ^= 7; tail_b(p); }
__attribute__((noinline)) void render(Shape *s) { s->draw(); sink++; }
__attribute__((noinline)) void wait_a(int *p) { char c; while (read(pipes[0], &c, 1) < 0) *p += 1; *p += 2; }
__attribute__((noinline)) void wait_b(int *p) { char c; while (read(pipes[0], &c, 1) < 0) *p += 1; *p += 2; }
void *run_a(void *p) { wait_a((int *)p); sink += 5; return p; }
void *run_b(void *p) { wait_b((int *)p); sink += 6; return p; }
__attribute__((noinline)) void raise_a(int *p) { *p += 9; kill(getpid(), SIGUSR1); *p += 1; }
__attribute__((noinline)) void raise_b(int *p) { *p += 9; kill(getpid(), SIGUSR1); *p += 1; }
void on_signal(int) { event(5); sink++; }
int main(int argc, char **) {
  List<Order> orders; List<Payment> payments; Order order{1}; Payment payment{2};
  orders.add(&order); payments.add(&payment);
  Circle circle; Square square; render(&circle); render(&square);
  tail_a(&sink); tail_b(&sink); solo(&sink);
  shelve(&sink);
  signal(SIGUSR1, on_signal); raise_a(&sink); raise_b(&sink);
  if (pipe(pipes)) return 1;
  pthread_t a, b; int counts[2] = {0, 0};
  pthread_create(&a, 0, run_a, counts); pthread_create(&b, 0, run_b, counts + 1);
  usleep(argc == 2 ? 0 : 100000);
  settled(6);
  if (argc == 2) pause();
  if (argc == 3) { crashes = 1; render(&square); }
  write(pipes[1], "ab", 2);
  pthread_join(a, 0); pthread_join(b, 0);
  return 0;
}
"""
SHELF = r"""
extern "C" void event(int n);
template <class T> struct Shelf { long n; __attribute__((noinline)) void put(T) { event(7); n++; } };
struct Tin { int v; };
struct Jar { int v; };
void shelve(int *p) {
  Shelf<Tin> tins{0}; Shelf<Jar> jars{0};
  tins.put(Tin{1}); jars.put(Jar{2}); *p += tins.n + jars.n;
}
"""
_COMPILE = ("-O2", "-gdwarf-4", "-ggdb", "-ffunction-sections", "-fPIC", "-fno-omit-frame-pointer")
_LINE = re.compile(
    r"(?P<number>#\d+)? +(?:(?P<address>0x[0-9a-f]+) in )?(?P<name>\S.*?)(?: \[icf: (?P<remark>.*)\])?"
    r" \((?P<arguments>|\.\.\.|\w*=.*)\)(?: at (?P<file>.*):(?P<line>\d+)| from .*)?"
)


class Shown(NamedTuple):
    """A line of a backtrace."""

    name: str
    file: str
    line: int


class Programs(NamedTuple):
    """The program linked with folding, its tables added, and without."""

    folded: Path
    unfolded: Path


def build(folder: Path, *flags: str) -> Programs:
    """Link both programs, each with a shared library, and add tables to the folded ones."""
    paths = []
    for icf in ("all", "none"):
        here = folder / icf
        here.mkdir()
        common = (f"-Wl,--icf={icf}", "-pthread", *flags)
        library = link(
            here / "libshelf.so", "lld", "-shared", "-Wl,-soname,libshelf.so", compile_object(SHELF, *_COMPILE), *common
        )
        main = compile_object(MAIN, *_COMPILE)
        paths.append(link(here / "shop", "lld", main, library, f"-Wl,-rpath,{here}", *common))
        if icf == "all":
            for image in (library, paths[0]):
                subprocess.run([sys.executable, "-m", "icf", "pass", "-q", image], check=True, timeout=60)
    return Programs(*paths)


def start_lines(debugger: str = "gdb") -> list[str]:
    """Return what `icf gdb --print-path` or that of lldb says; the helper is that of these sources."""
    printed = subprocess.run(
        [sys.executable, "-m", "icf", debugger, "--print-path"], capture_output=True, text=True, check=True, timeout=60
    )
    return printed.stdout.splitlines()


def gdb(*arguments: str | Path, commands: Sequence[str], plugin: bool = True, timeout_s: int = 120) -> str:
    """Return what gdb prints, with stderr in its place."""
    lines = ["set debuginfod enabled off", "set width 0", *(start_lines() if plugin else ()), *commands]
    words = [tool("gdb"), "-nx", "-batch", *[word for line in lines for word in ("-ex", line)]]
    return _printed([*words, *map(str, arguments)], timeout_s)


def lldb(*arguments: str | Path, commands: Sequence[str]) -> str:
    """Return what lldb prints with the plug-in, with stderr in its place."""
    lines = [*start_lines("lldb"), *commands]
    words = [tool("lldb"), "--no-lldbinit", "--batch", *[word for line in lines for word in ("-o", line)]]
    return _printed([*words, *map(str, arguments)], 120)


def _printed(words: Sequence[str], timeout_s: int) -> str:
    done = subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
    return done.stdout


def backtraces(text: str) -> list[list[Shown]]:
    """Return the frames of each backtrace in a text, without addresses and arguments.

    What has one frame is what gdb prints where a process has stopped.
    """
    found: list[list[Shown]] = []
    for line in text.splitlines():
        frame = _LINE.fullmatch(line)
        if frame is None:
            continue
        if frame["number"] == "#0":
            found.append([])
        if found:
            name = frame["name"]
            found[-1].append(Shown(name, Path(frame["file"] or "").name, int(frame["line"] or 0)))
    return [frames for frames in found if len(frames) > 1]


def remarks(text: str) -> list[str]:
    """Return the remarks in a text."""
    return [frame["remark"] for line in text.splitlines() if (frame := _LINE.fullmatch(line)) and frame["remark"]]


EVENTS = ["break event", "commands", "silent", "bt", "continue", "end"]
