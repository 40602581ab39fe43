"""A generated C++ program of functions in the forms that compilers make of them, which linkers name in their own ways.

Of each there are several that differ in the name of a type only. In every second unit they are in an unnamed namespace,
under the same names in all of these; but what a function of one unit calls, its namesake of another unit does not.

    cold functions      in a section that is named like those of cold parts
    cold parts          of functions that clean up, or that call cold functions
    clones              with a constant or an unused argument, and the rest of a function that is inlined in part
    thunks              beside their method, and in sections of their own; a method that inlines looks like another one
    coroutines          a function that starts them, one that goes on, one that destroys
    versions            for other processors, behind an indirect function
    aliases             two names of one function
    thread-local data   a function that each use calls
    static data         a function that makes it, before main and at the first use
    recursion           functions that call each other
"""

from __future__ import annotations

from pathlib import Path

from tests.truth.units import main_of_units

HEAD = """\
#include <coroutine>
#include <cstdlib>
#include <memory>
#include <vector>
#define NOINLINE __attribute__((noinline))
#define COLD __attribute__((cold, noinline))
extern volatile int total;
NOINLINE void touch(int n);
NOINLINE int seed(int n);
struct Left { virtual ~Left() {} virtual int left(int n) { return n; } int cents = 0; };
struct Right { virtual ~Right() {} virtual int right(int n) = 0; virtual int field() = 0; int cents = 1; };
struct Crate { int n; NOINLINE ~Crate() { touch(n); } };
struct Task {
  struct promise_type {
    int value = 0;
    Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    std::suspend_always yield_value(int n) { value = n; return {}; }
    void unhandled_exception() { throw; }
  };
  std::coroutine_handle<promise_type> handle;
  int next() { if (!handle.done()) handle.resume(); return handle.promise().value; }
};
"""

# THIS, NEXT and OTHER are numbers of types; LOCAL is `static ` where the functions are not in an unnamed namespace
TYPE = """\
LOCALCOLD int fail(KindTHIS *, int n) { touch(n); int r = total + 3; total = r; return r; }
LOCALCOLD int refuse(KindTHIS *k, int n) { touch(n); int r = fail((KindNEXT *)k, n + 1); total += r; return r + 1; }
LOCALNOINLINE int tidy(KindTHIS *k, int n) {
  Crate crate{n};
  if (n % 3 == 0) throw refuse((KindOTHER *)k, n);
  total += n;
  return total;
}
LOCALNOINLINE int scaled(KindTHIS *k, int n, int by) { touch(n); total += by; return n * by + total; }
LOCALNOINLINE int unused(KindTHIS *k, int n, int) { touch(n); int r = scaled((KindNEXT *)k, n, 3); return r + n; }
LOCALint partly(KindTHIS *k, int n) {
  if (n & 1) return n;
  touch(n);
  for (int i = 0; i < 3; i++) total += scaled((KindOTHER *)k, i + n, 3);
  total += unused((KindNEXT *)k, n, n + 2);
  return total;
}
struct BothTHIS : Left, Right {
  int own = 5;
  int right(int n) override { touch(n); int r = partly((KindNEXT *)0, n); total += r; return r + own; }
  int field() override { touch(own); total += own; return own; }
  int left(int n) override { touch(n); int r = scaled((KindTHIS *)0, n, 3); total += r; return r + cents_of(); }
  int cents_of() { return Left::cents + Right::cents; }
};
struct PlainTHIS {
  void *head[2];
  int field, own;
  NOINLINE int read() { touch(field); total += field; return field; }
  NOINLINE int take() { touch(own); total += own; return own; }
};
LOCALNOINLINE int step(KindTHIS *k, int n) { touch(n); int r = unused((KindOTHER *)k, n, 1); total += r; return r; }
LOCALTask count(KindTHIS *k, int n) {
  Crate crate{n};
  for (int i = 0; i < n; i++) co_yield step(k, i);
}
LOCALNOINLINE int walk(KindTHIS *k, int n);
LOCALNOINLINE int climb(KindTHIS *k, int n) {
  touch(n);
  if (n <= 0) return total;
  int r = walk(k, n - 1);
  return r + n;
}
LOCALNOINLINE int walk(KindTHIS *k, int n) {
  touch(n);
  if (n <= 0) return total;
  int r = climb(k, n - 1);
  return r - n;
}
LOCALNOINLINE int once(KindTHIS *k, int n) {
  static int first = seed(n) + step((KindNEXT *)k, n);
  total += first;
  return first + total;
}
struct MadeTHIS { int n; NOINLINE MadeTHIS() : n(seed(7)) { touch(n); } NOINLINE ~MadeTHIS() { touch(3); } };
static MadeTHIS madeTHIS;
static thread_local MadeTHIS oursTHIS;
"""

# in no namespace only: names must not clash
ALONE = """\
extern "C" NOINLINE int aliasUNIT_THIS(int n) { touch(n); int r = step((KindNEXT *)0, n); total += r; return r; }
extern "C" __attribute__((alias("aliasUNIT_THIS"))) int aliasedUNIT_THIS(int n);
#ifdef __x86_64__
__attribute__((target_clones("avx2", "default"))) int versionUNIT_THIS(int n) {
  touch(n);
  int r = scaled((KindOTHER *)0, n, 3);
  total += r;
  return r;
}
#else
NOINLINE int versionUNIT_THIS(int n) { touch(n); int r = scaled((KindOTHER *)0, n, 3); total += r; return r; }
#endif
"""

USE = """\
  try {
    KindTHIS k{};
    r += tidy(&k, n) + unused(&k, n, n) + partly(&k, n) + once(&k, n) + walk(&k, n & 3);
  } catch (int m) { r += m; }
  {
    PlainTHIS p{{}, n, n + 1};
    r += p.read() + p.take();
    Task t = count((KindTHIS *)0, n & 3);
    for (int i = 0; i < 5; i++) r += t.next();
    t.handle.destroy();
    r += madeTHIS.n + oursTHIS.n;
    lefts.emplace_back(new BothTHIS);
    rights.emplace_back(new BothTHIS);
  }
"""
USE_ALONE = "  r += aliasUNIT_THIS(n) + aliasedUNIT_THIS(n) + versionUNIT_THIS(n);\n"


def _of_type(text: str, number: int, unit: int, type_count: int) -> str:
    following, other = (number + 1 + unit) % type_count, (number + 2 * unit + 1) % type_count
    text = text.replace("THIS", str(number)).replace("NEXT", str(following)).replace("OTHER", str(other))
    return text.replace("UNIT", str(unit))


def write_forms(folder: Path, unit_count: int, type_count: int) -> list[Path]:
    """Write the sources; return them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for unit in range(unit_count):
        numbers = range(type_count)
        is_unnamed = unit % 2 == 0
        local, around = ("", ("namespace {", "}")) if is_unnamed else ("static ", (f"namespace unit_{unit} {{", "}"))
        declared = "".join(
            f"struct Kind{number} {{ int id; }};\n{local}int step(Kind{number} *, int);\n"
            f"{local}int fail(Kind{number} *, int);\n{local}int refuse(Kind{number} *, int);\n"
            f"{local}int scaled(Kind{number} *, int, int);\n{local}int unused(Kind{number} *, int, int);\n"
            f"{local}int partly(Kind{number} *, int);\n"
            for number in numbers
        )
        types = "".join(_of_type(TYPE, number, unit, type_count) for number in numbers).replace("LOCAL", local)
        alone = "".join(_of_type(ALONE, number, unit, type_count) for number in numbers)
        uses = "".join(_of_type(USE + USE_ALONE, number, unit, type_count) for number in numbers)
        opened = "" if is_unnamed else f"using namespace unit_{unit};\n"
        paths.append(folder / f"unit{unit}.cpp")
        paths[-1].write_text(
            f"{HEAD}{around[0]}\n{declared}{types}{around[1]}\n{opened}{alone}int unit{unit}(int n) {{\n  int r = 0;\n"
            "  std::vector<std::unique_ptr<Left>> lefts;\n  std::vector<std::unique_ptr<Right>> rights;\n"
            f"{uses}  for (auto &each : lefts) r += each->left(n);\n"
            "  for (auto &each : rights) r += each->right(n) + each->field();\n  return r;\n}\n"
        )
    paths.append(folder / "main.cpp")
    paths[-1].write_text(main_of_units(HEAD, unit_count, 9, "int seed(int n) { return total + n; }\n"))
    return paths
