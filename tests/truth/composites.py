"""A generated C++ program whose functions call merged bodies in several ways at once: what missing frames confuse.

For each kind of part, of which there are many that differ in their name only:

    both ways                 a function calls one member of a body, and ends with a jump to another one
    composites                a virtual function calls itself for the parts inside, by slot, and by name for the base
    factories                 make<T>() calls allocate<T>() and init<T>(), directly, and through a table of makers
    recursion                 a function calls itself, and another of its body
    chains of jumps           a jump to a jump to the body
    through the middle        a virtual function that calls another class's function of the same slot by its name
    clean-up                  destructors of members and bases, in code that only exceptions reach, too

`promises` has continuations: what one function stores, another calls long after, through a pointer.

Every path ends in `touch`, which allocates. Parts differ by unit and number in their name only.
"""

from __future__ import annotations

from functools import partial

from tests.truth.virtuals import write_virtuals

HEADER = """\
#pragma once
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>
#define NOINLINE __attribute__((noinline))
extern volatile unsigned long sink;
NOINLINE void touch(unsigned n);

struct Part {
  unsigned long weight = 1;
  std::vector<Part *> inside;
  virtual ~Part() {}
  virtual void render(unsigned n) = 0;
  virtual void measure(unsigned n) = 0;
  virtual void settle(unsigned n) = 0;
};
template <class T> NOINLINE void load(unsigned n) { touch(n); sink = sink + 3; }
template <class T> NOINLINE void store(unsigned n) { touch(n); sink = sink + 3; }
template <class T> NOINLINE void on_to_store(unsigned n) { sink = sink + 51; store<T>(n); }
template <class T> NOINLINE void load_store(unsigned n) { load<T>(n); sink = sink + n; store<T>(n + 1); }
template <class T> NOINLINE void store_load(unsigned n) { store<T>(n); sink = sink + n; load<T>(n + 1); }
template <class T> NOINLINE void load_on(unsigned n) { load<T>(n); sink = sink + 52; on_to_store<T>(n); }
template <class T> NOINLINE void dive(unsigned n) {
  if (n) { dive<T>(n - 1); sink = sink + 4; load<T>(n); } else store<T>(n);
}
template <class T> NOINLINE void climb(unsigned n) {
  if (n) { climb<T>(n - 1); sink = sink + 4; load<T>(n); } else store<T>(n);
}
template <class T> struct Leaf : Part {
  NOINLINE void render(unsigned n) override { load<T>(n); sink = sink + 5; }
  NOINLINE void measure(unsigned n) override { load<T>(n); sink = sink + 5; }
  NOINLINE void settle(unsigned n) override { store<T>(n); sink = sink + 5; }
};
template <class T> struct Group : Leaf<T> {
  NOINLINE void render(unsigned n) override {
    for (Part *part : this->inside) part->render(n);
    Leaf<T>::render(n); sink = sink + 6;
  }
  NOINLINE void measure(unsigned n) override {
    for (Part *part : this->inside) part->measure(n);
    Leaf<T>::measure(n); sink = sink + 7;
  }
  NOINLINE void settle(unsigned n) override {
    for (Part *part : this->inside) part->render(n);
    sink = sink + 8; Leaf<T>::settle(n);
  }
};
template <class T> struct Framed : Group<T> {
  NOINLINE void render(unsigned n) override { sink = sink + 9; Group<T>::measure(n); Group<T>::render(n); }
  NOINLINE void measure(unsigned n) override { Leaf<T>::render(n); sink = sink + 10; this->settle(n); }
};
template <class T> NOINLINE T *allocate() { touch(2); return static_cast<T *>(malloc(sizeof(T))); }
template <class T> NOINLINE void init(T *made) { touch(1); made->weight = 2; sink = sink + 11; }
template <class T> NOINLINE void reset(T *made) { touch(1); made->weight = 2; sink = sink + 11; }
template <class T> NOINLINE Part *make() {
  free(allocate<T>()); T *made = new T; init<T>(made); sink = sink + 12; return made;
}
template <class T> NOINLINE Part *remake() {
  free(allocate<T>()); T *made = new T; reset<T>(made); sink = sink + 12; return made;
}
template <class T> struct Owner {
  std::unique_ptr<Part> first, second;
  NOINLINE ~Owner() { touch(1); sink = sink + 13; }
};
template <class T> struct Holder {
  std::unique_ptr<Part> first, second;
  NOINLINE ~Holder() { touch(1); sink = sink + 13; }
};
template <class T> NOINLINE void fail(unsigned n) {
  touch(n); if (n > 2) throw std::runtime_error("n"); sink = sink + 14;
}
template <class T> NOINLINE void guarded(unsigned n) { Owner<T> owner; fail<T>(n); sink = sink + 15; }
template <class T> NOINLINE void attempted(unsigned n) { Holder<T> holder; fail<T>(n); sink = sink + 15; }
template <class T> NOINLINE void attempt(unsigned n) {
  try { guarded<T>(n); } catch (const std::exception &) { sink = sink + 16; load<T>(2); }
  try { attempted<T>(n); } catch (const std::exception &) { sink = sink + 17; store<T>(2); }
}
template <class T> NOINLINE void show(Part &part, unsigned n) {
  part.render(n); sink = sink + 18; part.measure(n); sink = sink + 19;
}
template <class T> NOINLINE void finish(Part &part, unsigned n) { part.settle(n); }
template <class T> NOINLINE void run(volatile int &zero) {
  load_store<T>(1 + zero); sink = sink + 1;
  store_load<T>(1 + zero); sink = sink + 1;
  load_on<T>(1 + zero); sink = sink + 1;
  dive<T>(2 + zero); sink = sink + 1;
  climb<T>(2 + zero); sink = sink + 1;
  Part *(*makers[])() = {make<Leaf<T>>, make<Group<T>>, make<Framed<T>>, remake<Leaf<T>>, remake<Framed<T>>};
  std::vector<std::unique_ptr<Part>> made;
  for (auto *maker : makers) made.emplace_back(maker());
  made.emplace_back(make<Group<T>>()); made.emplace_back(remake<Group<T>>());
  made[1]->inside = {made[0].get(), made[3].get()};
  made[2]->inside = {made[1].get(), made[0].get()};
  made[4]->inside = {made[2].get()};
  for (auto &part : made) { show<T>(*part, 1); finish<T>(*part, 1); }
  attempt<T>(2 + zero); attempt<T>(3 + zero); sink = sink + 1;
}
"""

PROMISES = """\
#pragma once
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>
#define NOINLINE __attribute__((noinline))
extern volatile unsigned long sink;
NOINLINE void touch(unsigned n);

struct Deleter { virtual void operator()(void *p) = 0; virtual ~Deleter() {} };
using Reply = std::function<void(unsigned)>;
struct Queue {
  std::vector<std::pair<Reply, unsigned>> waiting;
  NOINLINE void post(Reply reply, unsigned n) { touch(1); waiting.emplace_back(std::move(reply), n); }
  NOINLINE void turn() {
    auto ready = std::move(waiting);
    waiting.clear();
    for (auto &[reply, n] : ready) { reply(n); sink = sink + 2; }
  }
};
template <class T> NOINLINE void log_value(unsigned n) { touch(n); sink = sink + 3; }
template <class T> NOINLINE void log_error(unsigned n) { touch(n); sink = sink + 3; }
template <class T> NOINLINE void succeed(unsigned n) { log_value<T>(n); sink = sink + 4; }
template <class T> NOINLINE void refuse(unsigned n) { log_error<T>(n); sink = sink + 4; }
template <class T> NOINLINE void value_error(unsigned n) { log_value<T>(n); sink = sink + n; log_error<T>(n + 1); }
template <class T> struct Promise {
  Reply then;
  unsigned result = 0;
  NOINLINE void resolve(unsigned n) { touch(1); result = n; if (then) then(n); sink = sink + 5; }
  NOINLINE void reject(unsigned n) { touch(1); result = n; if (then) then(n); sink = sink + 5; }
  NOINLINE void settle(unsigned n) { touch(2); sink = sink + n; resolve(n); }
};
template <class T> struct Erased : Deleter {
  NOINLINE void operator()(void *p) override { touch(1); sink = sink + 6; delete static_cast<Promise<T> *>(p); }
};
template <class T> struct Pooled : Deleter {
  NOINLINE void operator()(void *p) override { touch(1); sink = sink + 6; delete static_cast<Promise<T> *>(p); }
};
template <class T> NOINLINE void dispose(Deleter &deleter, void *p) { sink = sink + 7; deleter(p); }
template <class T> NOINLINE void drop(Deleter &deleter, void *p) { deleter(p); sink = sink + 8; }
template <class T> struct Service {
  virtual ~Service() {}
  NOINLINE virtual void get(unsigned n, const Reply &reply) { log_value<T>(n); reply(n); sink = sink + 9; }
  NOINLINE virtual void put(unsigned n, const Reply &reply) { log_error<T>(n); reply(n); sink = sink + 9; }
  NOINLINE virtual void ask(unsigned n, const Reply &reply) { sink = sink + 10; reply(n); }
};
template <class T> NOINLINE void remote_get(Service<T> &service, unsigned n, const Reply &reply) {
  service.get(n, reply); sink = sink + 11;
}
template <class T> NOINLINE void remote_ask(Service<T> &service, unsigned n, const Reply &reply) {
  service.ask(n, reply); sink = sink + 11;
}
template <class T> NOINLINE void run(volatile int &zero) {
  Queue queue;
  auto *promise = new Promise<T>, *other = new Promise<T>;
  promise->then = succeed<T>;
  other->then = [promise](unsigned n) { promise->settle(n); sink = sink + 12; };
  queue.post([promise](unsigned n) { promise->resolve(n); }, 1 + zero);
  queue.post([other](unsigned n) { other->reject(n); }, 2 + zero);
  queue.post(value_error<T>, 1);
  queue.post(refuse<T>, 2);
  queue.turn();
  Service<T> service;
  remote_get<T>(service, 1, succeed<T>);
  remote_ask<T>(service, 2, refuse<T>);
  remote_ask<T>(service, 2, [&](unsigned n) { queue.post(succeed<T>, n); queue.post(log_error<T>, n); });
  queue.turn();
  Erased<T> erased; Pooled<T> pooled;
  Deleter *deleters[] = {&erased, &pooled};
  dispose<T>(*deleters[0 + zero], promise);
  drop<T>(*deleters[1 - zero], other);
}
"""

write_composites = partial(write_virtuals, header=HEADER)
write_promises = partial(write_virtuals, header=PROMISES)
