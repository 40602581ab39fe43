// Calls through registers that hold the address of one function: with -fno-plt compilers load it once for several calls.
#include "loaded.h"

// merged callers; the register is set before a loop, and used in it and after it
#define CALLER(X) \
  NOINLINE void loop_##X(long n) { \
    for (long i = 0; i < n; i++) { plain_##X(i); sink = sink + i; tail_##X(i); sink = sink + 1; plain_##X(i + 1); } \
    plain_##X(n); sink = sink + 1; tail_##X(n); sink = sink + 8; through_##X(n); sink = sink + 1; through_##X(1); \
    sink = sink + 9; \
  }
CALLER(a) CALLER(b)
// one of two functions of one body: which one is in the register depends on the path
NOINLINE void either(long n) {
  for (long i = 0; i < n; i++) {
    void (*chosen)(long) = i & 1 ? plain_a : plain_b;
    chosen(i); sink = sink + 1; chosen(i + 1); sink = sink + 1;
  }
}
// the register changes in the loop
NOINLINE void changes(long n) {
  void (*now)(long) = plain_a, (*next)(long) = plain_b;
  for (long i = 0; i < n; i++) {
    now(i); sink = sink + 1; now(i + 1); sink = sink + 1;
    void (*last)(long) = now; now = next; next = last;
  }
}
// functions of two bodies, and more of them than registers
NOINLINE void many(long n) {
  for (long i = 0; i < n; i++) {
    plain_a(i); plain_b(i); other_a(i); other_b(i); tail_a(i); tail_b(i); through_a(i); through_b(i);
    plain_a(i); plain_b(i); other_a(i); other_b(i); tail_a(i); tail_b(i); through_a(i); through_b(i);
    sink = sink + 1;
  }
}
NOINLINE void chooses(long n) {
  for (long i = 0; i < n; i++)
    switch (i) {
      case 0: plain_a(i); sink = sink + 1; plain_a(2); break;
      case 1: plain_b(i); sink = sink + 2; plain_b(3); break;
      case 2: other_a(i); sink = sink + 3; plain_a(i); break;
      case 3: other_b(i); sink = sink + 4; plain_b(i); break;
      case 4: tail_a(i); sink = sink + 5; plain_a(i); break;
      default: tail_b(i); sink = sink + 6; plain_b(i);
    }
}
// exceptions enter in the middle, and the registers hold what they held where it was thrown
NOINLINE void catches(long n) {
  for (long i = 0; i < n; i++) {
    try { Guard guard{i}; fail_a(i); sink = sink + 1; fail_a(i + 1); sink = sink + 1; fail_a(0); }
    catch (long x) { plain_a(x); sink = sink + 1; plain_a(x); sink = sink + 1; }
    plain_b(i); sink = sink + 1;
    try { Alike guard{i}; fail_b(i); sink = sink + 2; fail_b(i + 2); sink = sink + 2; fail_b(1); }
    catch (long x) { plain_b(x); sink = sink + 1; plain_b(x); sink = sink + 1; }
    plain_a(i); sink = sink + 1;
  }
}
// pointers that the program keeps: any function whose address is taken
void (*volatile hook)(long) = hooked_a;
NOINLINE void calls_hook(long n) { hook(n); sink = sink + 1; hook(n); sink = sink + 1; hooked_b(n); sink = sink + 1; hooked_b(1); sink = sink + 3; }
int main() {
  loop_a(2); sink = sink + 1; loop_b(2); sink = sink + 1; either(2); sink = sink + 1; changes(3); sink = sink + 1;
  many(2); sink = sink + 1; chooses(6); sink = sink + 1; catches(3); sink = sink + 1; calls_hook(1); sink = sink + 1;
  return 0;
}
