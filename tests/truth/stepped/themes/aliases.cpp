// Functions that compilers merge before the linker does: ~Derived as an alias of ~Base, C1 and C2, gcc's -fipa-icf.
#include <cstdlib>
#define NOINLINE __attribute__((noinline))
volatile long sink;
NOINLINE void leaf(long x) { sink = sink + x; }

template <class T> struct Base {
  NOINLINE Base(long x) : base(x) { leaf(x); sink = sink + 1; }
  NOINLINE ~Base() { leaf(base); sink = sink + 2; }
  long base;
};
template <class T> struct Derived : Base<T> {
  using Base<T>::Base;
  NOINLINE ~Derived() {}
};
template <class T> struct Further : Derived<T> {
  using Derived<T>::Derived;
  NOINLINE ~Further() {}
};
template <class T> struct Abstract {
  NOINLINE virtual ~Abstract() { leaf(4); sink = sink + 3; }
  NOINLINE virtual void act() { leaf(5); sink = sink + 4; }
};
template <class T> struct Concrete : Abstract<T> {
  NOINLINE ~Concrete() override {}
  NOINLINE void act() override { leaf(5); sink = sink + 4; }
};
template <class T> NOINLINE void scope() {
  { Base<T> a(1); leaf(1); }
  { Derived<T> b(2); leaf(2); }
  { Further<T> c(3); leaf(3); }
  { Abstract<T> d; d.act(); }
  { Concrete<T> e; e.act(); }
  sink = sink + 5;
}
NOINLINE long twin_one(long x) { leaf(x); sink = sink + 6; return x + 1; }
NOINLINE long twin_two(long x) { leaf(x); sink = sink + 6; return x + 1; }
NOINLINE static long local_one(long x) { leaf(x); sink = sink + 7; return x + 2; }
NOINLINE static long local_two(long x) { leaf(x); sink = sink + 7; return x + 2; }
static int less_one(const void *a, const void *b) { leaf(1); return *(const long *)a < *(const long *)b; }
static int less_two(const void *a, const void *b) { leaf(1); return *(const long *)a < *(const long *)b; }
NOINLINE void sort_one(long *p) { qsort(p, 4, sizeof *p, less_one); leaf(1); }
NOINLINE void sort_two(long *p) { qsort(p, 4, sizeof *p, less_two); leaf(1); }
extern "C" NOINLINE long plain(long x) { leaf(x); sink = sink + 8; return x; }
extern "C" long other(long x) __attribute__((alias("plain")));
extern "C" long weak_one(long x) __attribute__((weak, alias("plain")));
long (*volatile by_pointer[])(long) = {twin_one, twin_two, local_one, local_two, plain, other, weak_one};
struct A; struct B;
int main() {
  scope<A>(); scope<B>();
  twin_one(1); sink = sink + 1; twin_two(2); sink = sink + 1; local_one(3); sink = sink + 1; local_two(4);
  sink = sink + 1;
  long numbers[] = {3, 1, 4, 2};
  sort_one(numbers); sort_two(numbers);
  plain(1); sink = sink + 1; other(2); sink = sink + 1; weak_one(3); sink = sink + 1;
  for (auto each : by_pointer) { each(5); sink = sink + 9; }
  Base<A> *bases[] = {new Derived<A>(1), new Further<A>(2)};
  delete static_cast<Derived<A> *>(bases[0]); delete static_cast<Further<A> *>(bases[1]);
  Abstract<B> *objects[] = {new Abstract<B>, new Concrete<B>};
  for (auto each : objects) { each->act(); sink = sink + 1; delete each; }
  return 0;
}
