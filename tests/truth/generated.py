"""A generated C++ program in which almost everything folds, for when no real one is at hand.

Real programs merge what templates and copied getters happen to make equal. This one provokes, in every
unit and deterministically, each situation that makes frames hard to tell apart:

    getters, setters          same body for every type, called directly from unmerged code
    chains of templates       outer<T> -> middle<T> -> inner<T>: merged callers of merged callees
    swapped pairs             two callers fold although they call two folded callees in opposite order
    recursion                 a tree of T whose merged clean-up calls itself
    virtual calls, visitors   one slot per class, accept() dispatching back
    tail calls                a call that leaves no return address
    lambdas, pointers         calls through std::function and through tables of addresses
    local functions           static ones, several units using the same name
    exceptions                clean-up code that the compiler moves to a `.cold` part

Every path ends in `touch`, which allocates: the sampler finds its events there as well as at entries.
Types differ by unit and number only in their name, so that no two units hold the same function by ODR.
"""

from __future__ import annotations

from pathlib import Path

HEADER = """\
#pragma once
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#define NOINLINE __attribute__((noinline))
extern volatile unsigned long sink;
NOINLINE void touch(unsigned n);

struct Visitor;
struct Node {
  unsigned long weight = 1;
  virtual ~Node() {}
  virtual void work(unsigned n) = 0;
  virtual void rest(unsigned n) = 0;
  virtual void accept(Visitor &v) = 0;
};
struct Visitor {
  virtual ~Visitor() {}
  virtual void enter(Node &n) = 0;
  virtual void leave(Node &n) = 0;
};
template <class T> struct Box {
  T *first = nullptr, *last = nullptr;
  unsigned long filled = 0;
  NOINLINE T *get() { touch(1); return first; }
  NOINLINE T *end() { touch(2); return last; }
  NOINLINE void put(T *p) { touch(3); last = p; if (!first) first = p; filled++; }
  NOINLINE void drop() { touch(4); first = last = nullptr; filled = 0; }
};
template <class T> NOINLINE void inner(Box<T> &b, T *p) { b.put(p); sink = sink + b.filled; }
template <class T> NOINLINE void middle(Box<T> &b, T *p) { inner<T>(b, p); sink = sink + 1; b.get(); }
template <class T> NOINLINE void outer(Box<T> &b, T *p) { middle<T>(b, p); sink = sink + 2; b.drop(); sink = sink + 9; }
template <class T> struct Tree {
  Tree *left = nullptr, *right = nullptr;
  NOINLINE void grow(unsigned depth) {
    touch(depth);
    if (!depth) return;
    left = new Tree; left->grow(depth - 1);
    right = new Tree; right->grow(depth / 2);
    sink = sink + depth;
  }
  NOINLINE void fell() {
    touch(1);
    if (left) { left->fell(); delete left; }
    if (right) { right->fell(); delete right; }
    sink = sink + 3;
  }
};
template <class T> struct Leaf : Node {
  NOINLINE void work(unsigned n) override { touch(n); weight += 1; sink = sink + weight; }
  NOINLINE void rest(unsigned n) override { touch(n); weight += 2; sink = sink + weight; }
  NOINLINE void accept(Visitor &v) override { v.enter(*this); sink = sink + 1; v.leave(*this); sink = sink + 2; }
};
template <class T> struct Walker : Visitor {
  unsigned long seen = 0;
  NOINLINE void enter(Node &n) override { touch(2); seen++; n.work(2); sink = sink + seen; }
  NOINLINE void leave(Node &n) override { touch(3); seen += 3; n.rest(1); sink = sink + seen; }
};
"""

UNIT_HEAD = """\
#include "common.h"
namespace {{
NOINLINE void helper(unsigned n) {{ touch(n); sink = sink + 11; }}
struct Scope {{ unsigned n; NOINLINE ~Scope() {{ touch(n); sink = sink + 5; }} }};
}}
static NOINLINE void local_{unit}(unsigned n) {{ touch(n); sink = sink + 13; }}
static NOINLINE void count(unsigned n) {{ helper(n); sink = sink + 17; }}
"""

TYPE = """\
struct {t} {{ int value; }};
NOINLINE void alpha_{t}(unsigned n) {{ touch(n); sink = sink + 7; }}
NOINLINE void beta_{t}(unsigned n) {{ touch(n); sink = sink + 7; }}
NOINLINE void first_{t}(unsigned n) {{ alpha_{t}(n); sink = sink + 19; beta_{t}(n); sink = sink + 23; }}
NOINLINE void second_{t}(unsigned n) {{ beta_{t}(n); sink = sink + 19; alpha_{t}(n); sink = sink + 23; }}
NOINLINE void jump_{t}(unsigned n) {{ sink = sink + 29; alpha_{t}(n); }}
NOINLINE void leap_{t}(unsigned n) {{ sink = sink + 31; jump_{t}(n); }}
NOINLINE void risky_{t}(unsigned n) {{
  Scope scope{{n}};
  if (n > 1000) throw std::runtime_error("too many");
  alpha_{t}(n);
  sink = sink + 37;
}}
NOINLINE void run_{t}() {{
  static {t} value;
  Box<{t}> box;
  outer<{t}>(box, &value);
  inner<{t}>(box, &value);
  sink = sink + (box.get() == box.end());
  Tree<{t}> tree;
  tree.grow(3);
  tree.fell();
  first_{t}(2); second_{t}(3); jump_{t}(4); leap_{t}(5);
  sink = sink + 1;
  helper(1); local_{unit}(2); count(3);
  try {{ risky_{t}(3); risky_{t}(2000); }} catch (const std::exception &) {{ alpha_{t}(1); }}
  std::unique_ptr<Node> leaf(new Leaf<{t}>);
  Walker<{t}> walker;
  leaf->work(3); leaf->rest(2); leaf->accept(walker);
  std::vector<{t} *> list;
  for (int k = 0; k < 5; k++) list.push_back(&value);
  std::map<std::string, {t} *> names;
  names["a"] = &value; names["bb"] = &value;
  names.erase("a");
  unsigned long base = list.size();
  std::function<void(unsigned)> call = [base](unsigned n) {{ touch(n); sink = sink + base; }};
  call(3);
  static void (*const table[])(unsigned) = {{alpha_{t}, beta_{t}, jump_{t}}};
  for (auto entry : table) {{ entry(2); sink = sink + 1; }}
}}
"""

MAIN_HEAD = """\
#include "common.h"
#include <cstdio>
volatile unsigned long sink;
void *volatile block;
NOINLINE void touch(unsigned n) {
  block = malloc(n + 1);
  for (unsigned k = 0; k < n; k++) sink = sink * 31 + k;
  free(block);
}
"""


def type_name(unit: int, number: int) -> str:
    return f"Kind{unit}_{number}"


def write_sources(folder: Path, unit_count: int = 4, type_count: int = 6) -> list[Path]:
    """Write the program's sources; the same arguments give the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "common.h").write_text(HEADER)
    sources = []
    for unit in range(unit_count):
        parts = [UNIT_HEAD.format(unit=unit)]
        parts += [TYPE.format(unit=unit, t=type_name(unit, number)) for number in range(type_count)]
        calls = " ".join(f"run_{type_name(unit, number)}();" for number in range(type_count))
        parts.append(f"NOINLINE void run_unit_{unit}() {{ {calls} sink = sink + {unit}; }}\n")
        source = folder / f"unit{unit}.cpp"
        source.write_text("".join(parts))
        sources.append(source)
    declarations = "".join(f"void run_unit_{unit}();\n" for unit in range(unit_count))
    calls = " ".join(f"run_unit_{unit}();" for unit in range(unit_count))
    main = folder / "main.cpp"
    main.write_text(
        f"{MAIN_HEAD}{declarations}int main(int argc, char **) {{\n"
        f"  for (int round = 0; round < 3 * argc; round++) {{ {calls} }}\n"
        '  printf("%lu\\n", (unsigned long)sink);\n}\n'
    )
    return [main, *sources]
