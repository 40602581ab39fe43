"""A generated C++ program of visitors over trees, of values with operators, and of callbacks, whose bodies are merged.

Each unit is a small language of its own: classes of expressions that accept a visitor, and visitors that go on into the
parts of an expression. Frames are hard to tell apart as nearly all of its calls go through vtables:

    accept, visit             accept() ends in a jump through the visitor's vtable; one slot for each expression
    wrappers                  a visitor that passes each visit on to another one, with or without a frame
    values                    double dispatch on both operands; a value that holds another one in a field
    blocks of slots           several operators that load different slots and join in one jump
    leaves of the libraries   functions that end in fmod, round, strtod, dynamic_cast, or the destructor of an exception
    callbacks                 std::function, std::call_once, std::mem_fn, qsort
    clean-up                  a switch in a handler of exceptions

Classes of different units differ by their names only. Every path ends in `touch`, which allocates.
"""

from __future__ import annotations

from pathlib import Path

from tests.truth.generated import MAIN_HEAD

HEADER = """\
#pragma once
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>
#define NOINLINE __attribute__((noinline))
extern volatile unsigned long sink;
extern volatile double number;
NOINLINE void touch(unsigned n);
"""

KINDS = ("Literal", "Name", "Negate", "Invert", "Add", "Subtract", "Call", "Index")
TWO_PARTS = ("Add", "Subtract", "Call", "Index")

UNIT = """\
#include "common.h"
namespace {space} {{
{forward}
struct Visitor {{
  virtual ~Visitor() {{}}
{visits}
}};
struct Expression {{
  unsigned long weight = 1;
  virtual ~Expression() {{}}
  virtual void accept(Visitor &v) = 0;
  virtual void measure(unsigned n) = 0;
  virtual Expression *left() {{ return nullptr; }}
  virtual Expression *right() {{ return nullptr; }}
}};
{kinds}
struct Depth : Visitor {{
  unsigned long depth = 0;
{depth}
}};
struct Weigh : Visitor {{
  unsigned long total = 0;
{weigh}
}};
struct Each : Visitor {{
  Visitor *then;
  explicit Each(Visitor *v) : then(v) {{}}
{each}
}};
struct Traced : Visitor {{
  Visitor *then;
  explicit Traced(Visitor *v) : then(v) {{}}
{traced}
}};
struct Value {{
  double held = 2;
  virtual ~Value() {{}}
  virtual double plus(Value &other) = 0;
  virtual double minus(Value &other) = 0;
  virtual double times(Value &other) = 0;
  virtual double plus_whole(unsigned n) = 0;
  virtual double minus_whole(unsigned n) = 0;
  virtual double times_whole(unsigned n) = 0;
  virtual double rest(double by) = 0;
  virtual double rounded() = 0;
  virtual void store(unsigned n) = 0;
}};
struct Whole : Value {{
  NOINLINE double plus(Value &other) override {{ return other.plus_whole(2); }}
  NOINLINE double minus(Value &other) override {{ return other.minus_whole(2); }}
  NOINLINE double times(Value &other) override {{ return other.times_whole(2); }}
  NOINLINE double plus_whole(unsigned n) override {{ touch(n); number = number + held; return number; }}
  NOINLINE double minus_whole(unsigned n) override {{ touch(n); number = number + held; return number; }}
  NOINLINE double times_whole(unsigned n) override {{ touch(n); number = number * held; return number; }}
  NOINLINE double rest(double by) override {{ touch(1); return std::fmod(held, by); }}
  NOINLINE double rounded() override {{ touch(1); return std::round(held); }}
  NOINLINE void store(unsigned n) override {{ touch(n); number = held; }}
}};
struct Real : Value {{
  NOINLINE double plus(Value &other) override {{ number = number + 1; return other.plus_whole(3); }}
  NOINLINE double minus(Value &other) override {{ number = number + 1; return other.minus_whole(3); }}
  NOINLINE double times(Value &other) override {{ number = number + 1; return other.times_whole(3); }}
  NOINLINE double plus_whole(unsigned n) override {{ touch(n); number = number + held; return number; }}
  NOINLINE double minus_whole(unsigned n) override {{ touch(n); number = number - held; return number; }}
  NOINLINE double times_whole(unsigned n) override {{ touch(n); number = number * held; return number; }}
  NOINLINE double rest(double by) override {{ touch(2); return std::fmod(held, by); }}
  NOINLINE double rounded() override {{ touch(2); return std::round(held); }}
  NOINLINE void store(unsigned n) override {{ touch(n); number = held; }}
}};
struct Cell : Value {{
  Value *inside;
  explicit Cell(Value *v) : inside(v) {{}}
  NOINLINE double plus(Value &other) override {{ return inside->plus(other); }}
  NOINLINE double minus(Value &other) override {{ return inside->minus(other); }}
  NOINLINE double times(Value &other) override {{ return inside->times(other); }}
  NOINLINE double plus_whole(unsigned n) override {{ touch(n); return inside->plus_whole(n); }}
  NOINLINE double minus_whole(unsigned n) override {{ touch(n); return inside->minus_whole(n); }}
  NOINLINE double times_whole(unsigned n) override {{ touch(n); return inside->times_whole(n); }}
  NOINLINE double rest(double by) override {{ double r = inside->rest(by); number = r; return r + 1; }}
  NOINLINE double rounded() override {{ return inside->rounded(); }}
  NOINLINE void store(unsigned n) override {{ touch(1); inside->store(n); number = number + 1; }}
}};
struct Machine {{
  Value *top;
  explicit Machine(Value *v) : top(v) {{}}
  NOINLINE double apply(int code, Value &by) {{
    switch (code) {{
      case 0: number = number + 1; return top->plus(by);
      case 1: number = number + 2; return top->minus(by);
      default: number = number + 3; return top->times(by);
    }}
  }}
  NOINLINE double guarded(int code, Value &by) {{
    try {{
      if (code > 2) throw std::runtime_error("code");
      double r = apply(code, by);
      number = r;
      return r;
    }} catch (const std::exception &) {{
      touch(1);
      switch (code) {{
        case 3: number = 3; break; case 4: number = 5; break; case 5: number = 9; break; case 6: number = 7; break;
        case 7: number = 1; break; default: number = 8;
      }}
      return by.rounded();
    }}
  }}
}};
struct Failure : std::exception {{ std::string text; explicit Failure(const char *s) : text(s) {{}} }};
struct Job {{
  unsigned long done = 0;
  virtual ~Job() {{}}
  NOINLINE virtual void begin(unsigned n) {{ touch(n); done += 1; sink = sink + done; }}
  NOINLINE virtual void finish(unsigned n) {{ touch(n); done += 1; sink = sink + done; }}
  NOINLINE void pause(unsigned n) {{ touch(n); done += 2; sink = sink + done; }}
  NOINLINE void resume(unsigned n) {{ touch(n); done += 2; sink = sink + done; }}
}};
NOINLINE int less(const void *a, const void *b) {{ touch(1); return *(const int *)a < *(const int *)b; }}
NOINLINE int fewer(const void *a, const void *b) {{ touch(1); return *(const int *)a < *(const int *)b; }}
NOINLINE void sort_less(int *p) {{ qsort(p, 4, sizeof *p, less); sink = sink + p[0]; }}
NOINLINE void sort_fewer(int *p) {{ qsort(p, 4, sizeof *p, fewer); sink = sink + p[1] + 1; }}
NOINLINE void walk(Expression &e, Visitor &v) {{ e.accept(v); sink = sink + 1; e.measure(2); sink = sink + 2; }}
NOINLINE void show(const std::vector<Expression *> &all, Visitor &v) {{
  for (Expression *e : all) {{ e->accept(v); sink = sink + 3; }}
}}
NOINLINE void compute(Value &a, Value &b) {{
  number = a.plus(b) + 1; number = a.minus(b) + 2; number = a.times(b) + 3; number = a.rest(3) + 4;
  number = a.rounded() + 5; a.store(2); number = number + 6;
}}
NOINLINE void call(const std::function<void(unsigned)> &f) {{ f(2); sink = sink + 5; }}
NOINLINE void run(volatile int &zero) {{
  Literal one; Name name; Negate minus(&one); Invert invert(&name); Add add(&minus, &name); Subtract sub(&add, &one);
  Call call_(&sub, &invert); Index index(&call_, &add);
  std::vector<Expression *> all = {{&one, &name, &minus, &invert, &add, &sub, &call_, &index}};
  Depth depth; Weigh weigh; Each each(&weigh); Traced traced(&each); Traced twice(&depth);
  Visitor *visitors[] = {{&depth, &weigh, &each, &traced, &twice}};
  for (Visitor *v : visitors) {{ for (Expression *e : all) walk(*e, *v); show(all, *v); }}
  Whole whole; Real real; Cell cell(&whole), deep(&cell), other(&real);
  Value *values[] = {{&whole, &real, &cell, &deep, &other}};
  for (Value *a : values) for (Value *b : values) {{
    compute(*a, *b);
    Machine machine(a);
    for (int code = 0; code < 4; code++) number = machine.guarded(code + zero, *b) + 1;
  }}
  std::unique_ptr<Failure> failure(new Failure("a longer text than fits"));
  failure.reset();
  Job job;
  std::once_flag first, second;
  std::call_once(first, &Job::begin, &job, 2u);
  std::call_once(second, &Job::pause, &job, 2u);
  auto finish = std::mem_fn(&Job::finish);
  finish(job, 2u);
  unsigned long base = job.done;
  call([base](unsigned n) {{ touch(n); sink = sink + base; }});
  call([base](unsigned n) {{ touch(n); sink = sink + base + 1; }});
  int numbers[] = {{3, 1, 2, 4}};
  sort_less(numbers); sort_fewer(numbers);
}}
}}
NOINLINE void run_{space}(volatile int &zero) {{ {space}::run(zero); sink = sink + 1; }}
"""


def _kind(name: str) -> str:
    base = f"struct {name} : Expression {{\n  NOINLINE void accept(Visitor &v) override {{ v.visit(*this); }}\n"
    base += "  NOINLINE void measure(unsigned n) override { touch(n); weight += 1; sink = sink + weight; }\n"
    if name in TWO_PARTS:
        base += f"  Expression *a, *b;\n  {name}(Expression *x, Expression *y) : a(x), b(y) {{}}\n"
        base += "  NOINLINE Expression *left() override { touch(1); return a; }\n"
        base += "  NOINLINE Expression *right() override { touch(1); return b; }\n"
    elif name in ("Negate", "Invert"):
        base += f"  Expression *a;\n  explicit {name}(Expression *x) : a(x) {{}}\n"
        base += "  NOINLINE Expression *left() override { touch(1); return a; }\n"
    return base + "};"


def _visits(body: str, parts: str) -> str:
    """Return the functions of a visitor: what it does with each expression, and with one that has parts."""
    rows = []
    for number, name in enumerate(KINDS):
        two = "e.a->accept(*this); sink = sink + 6; e.b->accept(*this); sink = sink + 7;"
        one = "e.a->accept(*this);"
        into = two if name in TWO_PARTS else one if name in ("Negate", "Invert") else ""
        same = number - (name in ("Invert", "Subtract"))  # these do what the kind before them does
        rows.append(f"  NOINLINE void visit({name} &e) override {{ {body.format(same)} {parts and into} }}")
    return "\n".join(rows)


def write_visitors(folder: Path, unit_count: int = 6) -> list[Path]:
    """Write the program's sources; the same arguments give the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "common.h").write_text(HEADER)
    sources = []
    for unit in range(unit_count):
        source = folder / f"unit{unit}.cpp"
        source.write_text(
            UNIT.format(
                space=f"language{unit}",
                forward=" ".join(f"struct {name};" for name in KINDS),
                visits="\n".join(f"  virtual void visit({name} &) = 0;" for name in KINDS),
                kinds="\n".join(map(_kind, KINDS)),
                depth=_visits("touch(2); depth += e.weight + {}; sink = sink + depth;", "parts"),
                weigh=_visits("touch(2); total += {}; sink = sink + total;", ""),
                each=_visits("then->visit(e);", ""),
                traced=_visits("touch(1); then->visit(e); sink = sink + {};", ""),
            )
        )
        sources.append(source)
    declarations = "".join(f"void run_language{unit}(volatile int &zero);\n" for unit in range(unit_count))
    calls = " ".join(f"run_language{unit}(zero);" for unit in range(unit_count))
    main = folder / "main.cpp"
    main.write_text(
        f"{MAIN_HEAD}volatile double number;\n{declarations}int main(int argc, char **) {{\n"
        f"  volatile int zero = argc - 1;\n"
        f"  for (int round = 0; round < argc; round++) {{ {calls} }}\n"
        '  printf("%lu %f\\n", (unsigned long)sink, (double)number);\n}\n'
    )
    return [main, *sources]
