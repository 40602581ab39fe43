"""Programs of any size with realistic folding: the same sources in N namespaces.

    python -m tests.bench.copies MB FOLDER [--compiler clang] [--linker lld] [--option=--emit-relocs]

A large program is large because it has the same few things very often: containers, visitors, handlers and lambdas,
each time for other types. So a handful of sources is compiled once, in the namespace `N00000`; each copy is those
objects with another number, which takes no compiler: names of one length differ in symbol and string tables only.

Of the functions of a copy some fold with those of all other copies (a body of thousands of members), some with
others of their own copy only, and some with none: those that refer to what differs between copies, a vtable or a text.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

from icf.elf.image import Image
from tests.support.toolchain import linker_options, run
from tests.truth.programs import find

FLAGS = ("-O2", "-g", "-ffunction-sections", "-fdata-sections", "-w")
NAMESPACE = "N{:05}"
TYPE_COUNT = 12  # in each source
PARTS = ("shapes", "tables")  # the sources

HEAD = """\
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#define NOINLINE __attribute__((noinline))
extern volatile unsigned long sink;
void touch(unsigned long n);
namespace N00000 {
namespace PART {
inline const char *where() { return "N00000::PART"; }
struct Visitor;
struct Node {
  unsigned long weight = 1;
  virtual ~Node() {}
  virtual unsigned long cost() const { return weight; }
  virtual void accept(Visitor &visitor) = 0;
};
struct Visitor {
  std::vector<Node *> seen;
  virtual ~Visitor() {}
  virtual void visit(Node &node) { seen.push_back(&node); touch(node.cost()); }
};
template <class T> struct List {
  std::vector<std::unique_ptr<T>> items;
  std::map<std::string, T *> by_name;
  T &add(const std::string &name, unsigned long value) {
    items.push_back(std::make_unique<T>());
    T *item = items.back().get();
    item->value = value;
    by_name[name] = item;
    touch(items.size());
    return *item;
  }
  NOINLINE T *find(const std::string &name) {
    auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : found->second;
  }
  template <class F> void each(F apply) {
    for (auto &item : items) apply(*item);
  }
  NOINLINE void sort() {
    std::sort(items.begin(), items.end(), [](const auto &a, const auto &b) { return a->value < b->value; });
  }
  NOINLINE T &first() {
    if (items.empty()) throw std::out_of_range(where());
    return *items.front();
  }
};
template <class T> struct Leaf : Node {
  T held;
  unsigned long cost() const override { return weight + held.value; }
  void accept(Visitor &visitor) override { visitor.visit(*this); touch(weight); visitor.visit(*this); }
};
template <class T> struct Counter : Visitor {
  unsigned long total = 0;
  void visit(Node &node) override { total += node.cost(); Visitor::visit(node); touch(total); }
};
template <class T> NOINLINE unsigned long inner(List<T> &list, unsigned long depth) {
  unsigned long sum = 0;
  list.each([&](T &item) { sum += item.value * depth; touch(sum); });
  return sum;
}
template <class T> NOINLINE unsigned long outer(List<T> &list, unsigned long depth) {
  unsigned long sum = inner(list, depth) + 1;
  list.sort();
  return sum + inner(list, depth + 1);
}
"""

TYPE = """\
struct T{i} {{ unsigned long value = {i}; int get() const {{ return value; }} }};
NOINLINE void handle_T{i}(List<T{i}> &list, const std::string &name) {{
  std::function<unsigned long(unsigned long)> apply = [&](unsigned long n) {{
    list.add(name, n);
    return n + list.items.size();
  }};
  touch(apply({i}));
  touch(list.find(name) ? list.find(name)->get() : 0);
}}
NOINLINE unsigned long run_T{i}() {{
  List<T{i}> list;
  handle_T{i}(list, where());
  Leaf<T{i}> leaf;
  Counter<T{i}> counter;
  leaf.accept(counter);
  sink = sink + outer(list, {i}) + list.first().value;
  return counter.total;
}}
"""


def source(part: str) -> str:
    """Return one source, in the namespace of the first copy."""
    types = "".join(TYPE.format(i=i) for i in range(TYPE_COUNT))
    calls = "".join(f"  sink = sink + run_T{i}();\n" for i in range(TYPE_COUNT))
    return HEAD.replace("PART", part) + types + f"void run() {{\n{calls}}}\n}}\n}}\n"


def main_source(copy_count: int, parts: Sequence[str] = PARTS) -> str:
    """Return the source that runs all copies of some sources."""
    names = [f"{NAMESPACE.format(i)}::{part}" for i in range(copy_count) for part in parts]
    declared = "".join(f"namespace {name} {{ void run(); }}\n" for name in names)
    head = "volatile unsigned long sink;\n__attribute__((noinline)) void touch(unsigned long n) { sink = sink + n; }\n"
    return f"{head}{declared}int main() {{\n" + "".join(f"  {name}::run();\n" for name in names) + "}\n"


def make(megabytes: float, folder: Path, compiler: str = "clang++", linker: str = "lld", *options: str) -> Path:
    """Make a program with so many MB of .debug_info, and a little more; return its path.

    Args:
        megabytes: of 1,000,000 bytes.
        folder: where it is made. A program of this size that is there is kept; the objects, which are larger, are not.
        compiler, linker: as in `tests.support.toolchain`.
        options: of the linker.

    Raises:
        Unavailable: a tool is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "-".join([compiler, linker, *(option.strip("-") for option in options), f"{megabytes:g}"])
    if program.exists():
        return program
    driver, chosen = find(compiler), linker_options(linker, find(f"ld.{linker}"))
    with TemporaryDirectory(dir=folder) as scratch:
        objects = make_objects(driver, megabytes * 1e6, Path(scratch))
        response = Path(scratch, "objects")
        response.write_text("\n".join(map(str, objects)))
        linked = Path(scratch, "program")
        wanted = [f"-Wl,{option}" for option in ("--icf=all", "--gc-sections", "--build-id=sha1", *options)]
        run(driver, *chosen, *wanted, f"@{response}", "-o", linked)
        linked.rename(program)
    return program


def make_objects(driver: str, wanted_bytes: float, folder: Path) -> list[Path]:
    """Make the objects of a program with so many bytes of .debug_info; the first is that of `main`."""
    first = [_compiled(driver, part, source(part), folder) for part in PARTS]
    copy_count = ceil(wanted_bytes / sum(map(_debug_info_bytes, first)))
    objects = [_compiled(driver, "main", main_source(copy_count), folder)]
    return objects + [copied for path in first for copied in copies_of(path, copy_count, folder)]


def copies_of(path: Path, copy_count: int, folder: Path) -> list[Path]:
    """Make so many copies of an object, each in a namespace of its own."""
    content, own = path.read_bytes(), NAMESPACE.format(0).encode()
    objects = [folder / f"{path.stem}{i}.o" for i in range(copy_count)]
    for i, copied in enumerate(objects):
        copied.write_bytes(content.replace(own, NAMESPACE.format(i).encode()))
    return objects


def _compiled(driver: str, name: str, text: str, folder: Path) -> Path:
    path = folder / f"{name}.cc"
    path.write_text(text)
    run(driver, *FLAGS, "-c", path, "-o", path.with_suffix(".o"))
    return path.with_suffix(".o")


def _debug_info_bytes(path: Path) -> int:
    with Image.open(path, allow_rel=True) as image:
        section = image.section(".debug_info")
        return section.size_bytes if section is not None else 0


def main() -> None:
    """Make the program that the command line asks for, and print its path."""
    parser = argparse.ArgumentParser(prog="tests.bench.copies", description="make a program of any size")
    parser.add_argument("megabytes", type=float, metavar="MB", help="of .debug_info")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--compiler", default="clang++")
    parser.add_argument("--linker", default="lld")
    parser.add_argument("--option", action="append", default=[], help="of the linker: --option=--emit-relocs")
    args = parser.parse_args()
    print(make(args.megabytes, args.folder, args.compiler, args.linker, *args.option))


if __name__ == "__main__":
    main()
