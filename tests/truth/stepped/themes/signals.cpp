// Signals at any instruction, first ones included, also on a stack of their own; handlers that call merged functions.
#include <csignal>
#include <cstdlib>
#include <csetjmp>
#define NOINLINE __attribute__((noinline))
volatile long sink;
NOINLINE void leaf(long x) { sink = sink + x; }
template <class T> NOINLINE void note(long x) { leaf(x); sink = sink + 1; }
template <class T> NOINLINE void note_too(long x) { leaf(x); sink = sink + 1; }
void on_one(int) { note<int>(1); sink = sink + 2; }
void on_two(int) { note_too<long>(1); sink = sink + 2; }
template <class T> [[noreturn]] NOINLINE void stop(jmp_buf &to) { leaf(3); longjmp(to, 1); }
template <class T> NOINLINE void after_stop(long x) { leaf(x); sink = sink + 3; }
template <class T> NOINLINE long work(long x) { leaf(x); note<T>(x); long r = x > 0 ? work<T>(x - 1) : 0; return r + sink; }
template <class T> NOINLINE void jump(long x) {
  jmp_buf to;
  if (!setjmp(to)) { leaf(x); stop<T>(to); }
  after_stop<T>(x); sink = sink + 4;
}
template <class T> NOINLINE int less(const void *a, const void *b) { leaf(1); return *(const long *)a < *(const long *)b; }
template <class T> NOINLINE void run() {
  for (int i = 0; i < 12; i++) {
    work<T>(2); sink = sink + 5; jump<T>(1); sink = sink + 6;
    long numbers[] = {3, 1, 2}; qsort(numbers, 3, sizeof *numbers, less<T>); sink = sink + 7;
  }
}
alignas(1 << 16) static char own_stack[1 << 16];
struct A; struct B;
int main() {
  struct sigaction one = {}, two = {};
  one.sa_handler = on_one; two.sa_handler = on_two;
  sigaction(SIGUSR1, &one, nullptr); sigaction(SIGUSR2, &two, nullptr);
  raise(SIGUSR2);
  run<A>(); run<B>();
  stack_t own = {}; own.ss_sp = own_stack; own.ss_size = sizeof own_stack;
  sigaltstack(&own, nullptr); one.sa_flags = SA_ONSTACK; one.sa_handler = on_two;
  sigaction(SIGUSR1, &one, nullptr);
  run<A>(); run<B>();
  raise(SIGUSR2);
  return 0;
}
