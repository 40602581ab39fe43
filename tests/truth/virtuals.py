"""A generated C++ program that calls through objects and pointers, and has hardly a body that is not merged.

For each kind of shape, of which there are many that differ in their name only:

    slots, overloads          several virtual functions of one body in one class, and of one slot over all classes
    double dispatch           accept() ends in a jump through the visitor's vtable (a tail call), or calls it
    decorators                a function passes the call on to another object, by the same slot or another one
    several bases             thunks that adjust `this`; a call through the second base
    virtual bases             thunks that look up how far to adjust; construction vtables
    covariant returns         a thunk that calls
    life and death            constructors and destructors that make virtual calls, `delete` through a base
    member pointers           to virtual functions and to others
    pointers                  std::function, lambdas, callbacks, C tables of pointers, a tail call by one of them
    hidden results            a virtual function that returns a big object: `this` is the second argument
    direct calls              from merged functions to merged functions around all of it

Every path ends in `touch`, which allocates. Shapes differ by unit and number in their name only.
"""

from __future__ import annotations

from pathlib import Path

from tests.truth.generated import MAIN_HEAD

HEADER = """\
#pragma once
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>
#define NOINLINE __attribute__((noinline))
extern volatile unsigned long sink;
NOINLINE void touch(unsigned n);
struct Shape;
struct Big { unsigned long words[6]; };

struct Visitor {
  virtual ~Visitor() {}
  virtual void begin(Shape &s) = 0;
  virtual void visit_small(Shape &s) = 0;
  virtual void visit_large(Shape &s) = 0;
  virtual void finish(Shape &s) = 0;
};
struct Shape {
  unsigned long weight = 1;
  Shape *inside = nullptr;
  virtual ~Shape() {}
  virtual void draw(unsigned n) = 0;
  virtual void fill(unsigned n) = 0;
  virtual void accept_small(Visitor &v) = 0;
  virtual void accept_large(Visitor &v) = 0;
  virtual void accept_all(Visitor &v) = 0;
  virtual Shape *clone() = 0;
  virtual Big measure(unsigned n) = 0;
};
struct Named {
  unsigned long tag = 2;
  virtual ~Named() {}
  virtual void rename(unsigned n) = 0;
  virtual void retag(unsigned n) = 0;
};
struct Root {
  unsigned long level = 3;
  virtual ~Root() {}
  virtual void climb(unsigned n) = 0;
  virtual void descend(unsigned n) = 0;
};
struct Stream { void (*open)(unsigned); void (*pump)(Stream *, unsigned); void (*close)(unsigned); };

template <class T> struct Solid : Shape {
  NOINLINE void draw(unsigned n) override { touch(n); weight += 1; sink = sink + weight; }
  NOINLINE void fill(unsigned n) override { touch(n); weight += 1; sink = sink + weight; }
  NOINLINE void accept_small(Visitor &v) override { v.visit_small(*this); }
  NOINLINE void accept_large(Visitor &v) override { sink = sink + 1; v.visit_large(*this); }
  NOINLINE void accept_all(Visitor &v) override {
    v.begin(*this); sink = sink + 1; v.visit_small(*this); sink = sink + 2; v.finish(*this); sink = sink + 3;
  }
  NOINLINE Solid *clone() override { touch(2); return new Solid; }
  NOINLINE Big measure(unsigned n) override { touch(n); sink = sink + 6; return Big{{weight, n, 3, 4, 5, 6}}; }
};
template <class T> struct Wrapper : Solid<T> {
  NOINLINE void draw(unsigned n) override { touch(1); this->inside->draw(n); sink = sink + 4; }
  NOINLINE void fill(unsigned n) override { sink = sink + 5; this->inside->fill(n); }
  NOINLINE void accept_small(Visitor &v) override { this->inside->accept_small(v); }
  NOINLINE void accept_large(Visitor &v) override { touch(3); this->inside->accept_small(v); sink = sink + 7; }
};
template <class T> struct Walker : Visitor {
  unsigned long seen = 0;
  NOINLINE void begin(Shape &s) override { touch(2); seen++; s.draw(2); sink = sink + seen; }
  NOINLINE void visit_small(Shape &s) override { touch(3); seen += 3; s.fill(3); sink = sink + seen; }
  NOINLINE void visit_large(Shape &s) override { touch(3); seen += 3; s.fill(3); sink = sink + seen; }
  NOINLINE void finish(Shape &s) override { touch(2); seen++; s.draw(2); sink = sink + seen; }
};
template <class T> struct Label : Solid<T>, Named {
  NOINLINE void rename(unsigned n) override { touch(n); tag += 5; sink = sink + tag; }
  NOINLINE void retag(unsigned n) override { touch(n); tag += 5; sink = sink + tag; this->draw(n); sink = sink + 8; }
  NOINLINE Label *clone() override { touch(4); return new Label; }
};
template <class T> struct Left : virtual Root {
  unsigned long left = 4;
  NOINLINE Left() { touch(1); climb(1); sink = sink + left; }
  NOINLINE ~Left() { touch(2); descend(2); sink = sink + left; }
  NOINLINE void climb(unsigned n) override { touch(n); left += 7; sink = sink + left; }
  NOINLINE void descend(unsigned n) override { touch(n); left += 7; sink = sink + left; }
};
template <class T> struct Right : virtual Root {
  unsigned long right = 5;
  virtual void turn(unsigned n) { touch(n); right += 9; sink = sink + right; }
};
template <class T> struct Both : Left<T>, Right<T> {
  unsigned long both = 6;
  NOINLINE void climb(unsigned n) override { touch(n); both += 11; sink = sink + both; }
  NOINLINE void turn(unsigned n) override { touch(n); both += 12; sink = sink + both; }
};
template <class T> struct Base {
  unsigned long base = 7;
  NOINLINE Base() { touch(1); hook(1); sink = sink + base; }
  NOINLINE virtual ~Base() { touch(2); hook(2); sink = sink + base; }
  NOINLINE virtual void hook(unsigned n) { touch(n); base += 13; sink = sink + base; }
  NOINLINE virtual void spare(unsigned n) { touch(n); base += 13; sink = sink + base; }
};
template <class T> struct Derived : Base<T> {
  NOINLINE Derived() { touch(3); this->hook(3); sink = sink + 1; }
  NOINLINE ~Derived() override { touch(4); this->hook(4); sink = sink + 2; }
  NOINLINE void hook(unsigned n) override { touch(n); this->base += 13; sink = sink + this->base; }
  NOINLINE void plain(unsigned n) { touch(n); this->base += 17; sink = sink + this->base; }
  NOINLINE void other(unsigned n) { touch(n); this->base += 17; sink = sink + this->base; }
};
template <class T> NOINLINE void paint(Shape &s, unsigned n) { s.draw(n); sink = sink + 1; s.fill(n); sink = sink + 2; }
template <class T> NOINLINE void inspect(Shape &s, Visitor &v) {
  s.accept_small(v); sink = sink + 1; s.accept_large(v); sink = sink + 2; s.accept_all(v); sink = sink + 3;
}
template <class T> NOINLINE void label(Named &n) { n.rename(2); sink = sink + 1; n.retag(3); sink = sink + 2; }
template <class T> NOINLINE void climb(Root &r) { r.climb(2); sink = sink + 1; r.descend(1); sink = sink + 2; }
template <class T> NOINLINE void drop(Base<T> *b) { b->hook(2); b->spare(1); delete b; sink = sink + 3; }
template <class T> NOINLINE void through(Derived<T> *d, void (Derived<T>::*f)(unsigned)) {
  (d->*f)(2); sink = sink + 4;
}
template <class T> NOINLINE void size(Shape &s) { Big big = s.measure(3); sink = sink + big.words[0]; }
template <class T> NOINLINE void call(const std::function<void(unsigned)> &f) { f(2); sink = sink + 5; }
template <class T> NOINLINE void open_stream(unsigned n) { touch(n); sink = sink + 21; }
template <class T> NOINLINE void close_stream(unsigned n) { touch(n); sink = sink + 21; }
template <class T> NOINLINE void pump_stream(Stream *s, unsigned n) { sink = sink + 22; s->close(n); }
template <class T> NOINLINE void drain_stream(Stream *s, unsigned n) {
  s->open(n); sink = sink + 23; s->pump(s, n); sink = sink + 24;
}
template <class T> NOINLINE void each(unsigned n, void (*f)(unsigned)) {
  f(n); sink = sink + 25; f(n + 1); sink = sink + 26;
}
template <class T> NOINLINE void run(volatile int &zero) {
  std::unique_ptr<Shape> solid(new Solid<T>), wrapper(new Wrapper<T>), label_owner(new Label<T>);
  wrapper->inside = solid.get();
  Shape *shapes[] = {solid.get(), wrapper.get(), label_owner.get()};
  Walker<T> walker;
  for (Shape *shape : shapes) {
    paint<T>(*shape, 2); sink = sink + 1;
    inspect<T>(*shape, walker); sink = sink + 2;
    size<T>(*shape);
    std::unique_ptr<Shape> copy(shape->clone());
    copy->draw(1);
  }
  label<T>(*static_cast<Label<T> *>(shapes[2 + zero]));
  { Both<T> both; climb<T>(both); Right<T> &right = both; right.turn(2 + zero); sink = sink + 1; }
  drop<T>(new Derived<T>); drop<T>(new Base<T>);
  using Member = void (Derived<T>::*)(unsigned);
  Derived<T> d;
  for (Member member : {&Derived<T>::plain, &Derived<T>::hook, &Derived<T>::other}) through<T>(&d, member);
  unsigned long base = walker.seen;
  call<T>([base](unsigned n) { touch(n); sink = sink + base; });
  call<T>([base](unsigned n) { touch(n); sink = sink + base + 1; });
  static Stream to = {open_stream<T>, pump_stream<T>, close_stream<T>};
  static Stream fro = {close_stream<T>, pump_stream<T>, open_stream<T>};
  for (Stream *stream : {&to, &fro}) drain_stream<T>(stream, 2);
  each<T>(2, open_stream<T>); each<T>(3, close_stream<T>);
}
"""


def write_virtuals(folder: Path, unit_count: int = 4, type_count: int = 8, header: str = HEADER) -> list[Path]:
    """Write the program's sources; the same arguments give the same bytes. `header` has `run` for a type."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "common.h").write_text(header)
    sources = []
    for unit in range(unit_count):
        names = [f"Kind{unit}_{number}" for number in range(type_count)]
        structs = "".join(f"struct {name} {{ int value; }};\n" for name in names)
        calls = " ".join(f"run<{name}>(zero);" for name in names)
        source = folder / f"unit{unit}.cpp"
        source.write_text(
            f'#include "common.h"\n{structs}'
            f"NOINLINE void run_unit_{unit}(volatile int &zero) {{ {calls} sink = sink + {unit}; }}\n"
        )
        sources.append(source)
    declarations = "".join(f"void run_unit_{unit}(volatile int &zero);\n" for unit in range(unit_count))
    calls = " ".join(f"run_unit_{unit}(zero);" for unit in range(unit_count))
    main = folder / "main.cpp"
    main.write_text(
        f"{MAIN_HEAD}{declarations}int main(int argc, char **) {{\n"
        f"  volatile int zero = argc - 1;\n"
        f"  for (int round = 0; round < 3 * argc; round++) {{ {calls} }}\n"
        '  printf("%lu\\n", (unsigned long)sink);\n}\n'
    )
    return [main, *sources]
