// Exceptions through merged functions: landing pads, cleanups, rethrow, function try blocks, noreturn ends.
#include <cstdio>
#include <stdexcept>
#define NOINLINE __attribute__((noinline))
volatile long sink;
NOINLINE void leaf(long x) { sink = sink + x; }

template <class T> struct Guard {
  NOINLINE ~Guard() { leaf(g); sink = sink + 1; }
  long g = 1;
};
template <class T> struct Oops : std::runtime_error {
  Oops() : std::runtime_error("oops") {}
};
template <class T> [[noreturn]] NOINLINE void fail(long x) { leaf(x); throw Oops<T>(); }
template <class T> [[noreturn]] NOINLINE void fail_too(long x) { leaf(x); throw Oops<T>(); }
template <class T> NOINLINE void check(long x) { leaf(x); if (x == 0) fail<T>(x); }
template <class T> NOINLINE void check_too(long x) { leaf(x); if (x == 0) fail_too<T>(x); }
template <class T> NOINLINE void dig(long x) {
  Guard<T> guard; leaf(x);
  if (x > 0) dig<T>(x - 1); else check<T>(x);
  sink = sink + 2;
}
template <class T> NOINLINE void dig_too(long x) {
  Guard<T> guard; leaf(x);
  if (x > 0) dig_too<T>(x - 1); else check_too<T>(x);
  sink = sink + 2;
}
template <class T> NOINLINE void again(long x) {
  try { dig<T>(x); } catch (Oops<T> &) { leaf(3); throw; } catch (...) { leaf(4); }
}
template <class T> NOINLINE void swallow(long x) {
  try { dig_too<T>(x); } catch (std::exception &) { leaf(5); check<T>(1); sink = sink + 3; }
}
template <class T> struct Member { Member(long x) { leaf(x); check<T>(x); } NOINLINE ~Member() { leaf(6); sink = sink + 4; } };
template <class T> struct Holder {
  Guard<T> guard; Member<T> one, two;
  NOINLINE Holder(long x) try : one(1), two(x) { leaf(7); } catch (...) { leaf(8); }
};
template <class T> NOINLINE void run() {
  for (long x = 0; x < 3; x++) {
    try { again<T>(x); } catch (Oops<T> &) { leaf(9); sink = sink + 5; }
    swallow<T>(x);
    try { Holder<T> holder(x); leaf(10); } catch (std::exception &) { leaf(11); sink = sink + 6; }
  }
}
struct A; struct B;
int main() { run<A>(); sink = sink + 1; run<B>(); sink = sink + 1; return 0; }
