// Stacks of their own: makecontext and swapcontext among merged functions, setjmp across them.
#include <csetjmp>
#include <ucontext.h>
#define NOINLINE __attribute__((noinline))
volatile long sink;
NOINLINE void leaf(long x) { sink = sink + x; }
alignas(1 << 16) static char stacks[4][1 << 16];

template <class T> struct Fibre {
  static ucontext_t own, outside;
  static long left;
  static NOINLINE void pause(long x) { leaf(x); swapcontext(&own, &outside); sink = sink + 1; }
  static NOINLINE void pause_too(long x) { leaf(x); swapcontext(&own, &outside); sink = sink + 1; }
  static NOINLINE void dig(long x) { if (x > 0) dig(x - 1); else pause(x); sink = sink + 2; pause_too(x); sink = sink + 3; }
  static NOINLINE void body() { while (left-- > 0) { leaf(left); dig(left); sink = sink + 4; } }
  static NOINLINE void body_too() { while (left-- > 0) { leaf(left); dig(left); sink = sink + 4; } }
  static NOINLINE void resume() { leaf(5); swapcontext(&outside, &own); sink = sink + 5; }
  static NOINLINE void start(char *stack, void (*f)()) {
    getcontext(&own);
    own.uc_stack.ss_sp = stack; own.uc_stack.ss_size = sizeof stacks[0]; own.uc_link = &outside;
    makecontext(&own, f, 0);
    left = 2;
    for (int i = 0; i < 9 && left >= 0; i++) { resume(); leaf(i); }
  }
};
template <class T> ucontext_t Fibre<T>::own;
template <class T> ucontext_t Fibre<T>::outside;
template <class T> long Fibre<T>::left;
template <class T> [[noreturn]] NOINLINE void out(jmp_buf &to, long x) { leaf(x); longjmp(to, 1); }
template <class T> NOINLINE void deep(jmp_buf &to, long x) { leaf(x); if (x > 0) deep<T>(to, x - 1); else out<T>(to, x); leaf(6); }
template <class T> NOINLINE void leap() { jmp_buf to; if (setjmp(to) == 0) deep<T>(to, 2); else leaf(7); sink = sink + 6; }
struct A; struct B;
int main() {
  Fibre<A>::start(stacks[0], Fibre<A>::body); Fibre<B>::start(stacks[1], Fibre<B>::body);
  Fibre<A>::start(stacks[2], Fibre<A>::body_too); Fibre<B>::start(stacks[0], Fibre<B>::body_too);
  leap<A>(); leap<B>(); sink = sink + 1;
  return 0;
}
