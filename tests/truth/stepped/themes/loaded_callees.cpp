// What loaded.cpp calls, often through registers: each call of main is into another file.
#include "loaded.h"
volatile long sink;
NOINLINE void leaf(long x) { sink = sink + x; }
#define BOTH(NAME, ...) \
  NOINLINE void NAME##_a(long x) { __VA_ARGS__ } \
  NOINLINE void NAME##_b(long x) { __VA_ARGS__ }
BOTH(plain, leaf(x); sink = sink + 1;)
BOTH(other, leaf(x); sink = sink + 2;)
BOTH(hooked, leaf(x); sink = sink + 7;)
NOINLINE void tail_a(long x) { leaf(x); sink = sink + 3; plain_a(x); }
NOINLINE void tail_b(long x) { leaf(x); sink = sink + 3; plain_b(x); }
NOINLINE void through_a(long x) { other_a(x); sink = sink + 4; other_a(x + 1); sink = sink + 4; }
NOINLINE void through_b(long x) { other_b(x); sink = sink + 4; other_b(x + 1); sink = sink + 4; }
NOINLINE void fail_a(long x) { leaf(x); if (x > 1) throw x; sink = sink + 5; }
NOINLINE void fail_b(long x) { leaf(x); if (x > 1) throw x; sink = sink + 5; }
NOINLINE Guard::~Guard() { leaf(g); sink = sink + 6; }
NOINLINE Alike::~Alike() { leaf(g); sink = sink + 6; }
