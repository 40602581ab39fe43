"""Small programs, compiled and linked in every manner whose debug information the scan has to read.

They have what makes it hard: methods and lambdas inside of functions, templates, functions of one name,
virtual functions, tail calls, calls that are inlined, a cold part, functions that fold. They need no library.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from tests.support.toolchain import lasting_folder, linker_options, run, tool

HEADER = """
extern "C" int sink(int);
struct Guard { int id; explicit Guard(int x) : id(x) { sink(x); } ~Guard() { sink(id); } };
template <class T> struct Box {
  T value;
  __attribute__((noinline)) int get(int by) { return sink(static_cast<int>(value) + by) + 1; }
  struct Inner { __attribute__((noinline)) int again(T by) { return sink(static_cast<int>(by)) * 2; } };
};
struct Shape { virtual int area(int) = 0; virtual int edges() { return sink(4); } int id; };
inline int shared(int x) { if (x > 7) return sink(x) + sink(x + 1); return sink(-x); }
"""
FIRST = """#include "h.h"
namespace n {
static __attribute__((noinline)) int same(int x) { return sink(x) + 10; }
namespace { struct Hidden { __attribute__((noinline)) int call(int x) { return same(x) - 1; } }; }
__attribute__((noinline)) int hot(int x) { Guard one(x); Guard two(x + 1); return sink(x) + 3; }
struct Square : Shape { int area(int x) override { return sink(x) * id; } };
auto global = [](int x) { return sink(x) + 7; };
}
template <class F> __attribute__((noinline)) int apply(F f, int x) { return f(x) + 1; }
extern "C" int second(int);
extern "C" __attribute__((noinline)) int folded_a(int x) { return sink(x) + sink(x * 3); }
extern "C" __attribute__((noinline)) int folded_b(int x) { return sink(x) + sink(x * 3); }
__attribute__((noinline)) int tail(int x) { return second(x + 1); }
__attribute__((noinline)) int local(int a) {
  auto add = [a](int x) __attribute__((noinline)) { return sink(x + a); };
  struct Local {
    int v;
    __attribute__((noinline)) int m(int k) { return sink(v + k) + 2; }
    static __attribute__((noinline)) int s(int q) { return sink(q) * 3; }
  };
  Local z{a};
  return apply(add, 3) + add(4) + z.m(a) + Local::s(a);
}
extern "C" int first(int x, Shape *shape, int (*pointer)(int)) {
  Box<int> i{x}; Box<long> l{x}; Box<int>::Inner in; n::Hidden h; n::Square s;
  s.id = x;
  return i.get(1) + l.get(2) + in.again(x) + h.call(x) + n::hot(x) + n::same(x) + n::global(x) + apply(n::global, x)
    + tail(x) + local(x) + shared(x) + shape->area(x) + shape->edges() + s.area(2) + pointer(x) + folded_a(x)
    + folded_b(x);
}
"""
SECOND = """#include "h.h"
static __attribute__((noinline)) int same(int x) { return sink(x) - 10; }
extern "C" __attribute__((noinline)) int folded_c(int x) { return sink(x) + sink(x * 3); }
extern "C" int second(int x) {
  Box<long> l{x}; Box<char> c{static_cast<char>(x)};
  return same(x) + l.get(3) + c.get(4) + shared(x) + folded_c(x);
}
"""
THIRD = """
static __attribute__((noinline)) int same(int x) { return x * 11; }
__attribute__((noinline)) int sink(int x) { __asm__ volatile("" : "+r"(x)); return same(x) ^ 1; }
int first(int, void *, int (*)(int));
void _start(void) { first(1, 0, sink); for (;;) {} }
void *memset(void *to, int c, unsigned long size) { char *p = to; while (size--) *p++ = (char)c; return to; }
void __cxa_pure_virtual(void) { for (;;) {} }
void __cxa_begin_catch(void) {}
void __gxx_personality_v0(void) {}
void _Unwind_Resume(void) {}
void _ZSt9terminatev(void) {}
"""
COMPILERS = {"gcc": ("gcc", "g++"), "clang": ("clang", "clang++")}
_PLAIN = ("-ffunction-sections", "-fPIE", "-fno-stack-protector")
_CXX = ("-fno-rtti",)


@cache
def _objects(compiler: str, flags: tuple[str, ...]) -> tuple[Path, ...]:
    c, cxx = COMPILERS[compiler]
    directory = lasting_folder()
    (directory / "h.h").write_text(HEADER)
    objects = []
    for name, text in (("first.cpp", FIRST), ("second.cpp", SECOND), ("third.c", THIRD)):
        (directory / name).write_text(text)
        is_c = name.endswith(".c")
        plain = _PLAIN if is_c else _PLAIN + _CXX
        out = directory / f"{name}.o"
        run(tool(c if is_c else cxx), *plain, *flags, "-c", directory / name, "-o", out)
        objects.append(out)
    return tuple(objects)


@cache
def build(compiler: str, flags: tuple[str, ...], linker: str = "bfd", link_flags: tuple[str, ...] = ()) -> Path:
    """The linked program; the same file for the same arguments, not to be changed."""
    objects = _objects(compiler, flags)
    out = Path(tempfile.mkdtemp(dir=objects[0].parent)) / "program"  # beside its objects, and what they leave there
    if any(flag.startswith("-flto") for flag in flags):
        choice = linker_options(linker, tool(f"ld.{linker}"))
        run(tool(COMPILERS[compiler][1]), *flags, "-nostdlib", "-pie", *choice, *link_flags, *objects, "-o", out)
    else:
        run(tool(f"ld.{linker}"), "-pie", *link_flags, *objects, "-o", out)
    return out
