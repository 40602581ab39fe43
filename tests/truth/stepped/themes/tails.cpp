// Tail calls: chains, circles, into merged bodies, through pointers and vtables; recursion among merged functions.
#define NOINLINE __attribute__((noinline))
volatile long sink;
NOINLINE void leaf(long x) { sink = sink + x; }

template <class T> struct Link {
  static NOINLINE void last(long x) { leaf(x); sink = sink + 1; }
  static NOINLINE void last_too(long x) { leaf(x); sink = sink + 1; }
  static NOINLINE void middle(long x) { sink = sink + 2; last(x + 1); }
  static NOINLINE void middle_too(long x) { sink = sink + 2; last_too(x + 1); }
  static NOINLINE void first(long x) { leaf(x); middle(x + 1); }
  static NOINLINE void first_too(long x) { leaf(x); middle_too(x + 1); }
  static NOINLINE void even(long x) { leaf(x); if (x > 0) odd(x - 1); }
  static NOINLINE void odd(long x) { leaf(x); if (x > 0) even(x - 1); }
  static NOINLINE long deep(long x) { leaf(x); long r = x > 0 ? deeper(x - 1) : 0; sink = sink + r; return r + 1; }
  static NOINLINE long deeper(long x) { leaf(x); long r = x > 0 ? deep(x - 1) : 0; sink = sink + r; return r + 1; }
  static NOINLINE long both(long x) { long r = inner(x); sink = sink + r; return inner_too(x + 1); }
  static NOINLINE long inner(long x) { leaf(x); return x * 3; }
  static NOINLINE long inner_too(long x) { leaf(x); return x * 3; }
  static NOINLINE void by(void (*f)(long), long x) { leaf(x); f(x + 1); }
  static NOINLINE void call(void (*f)(long), long x) { f(x + 1); sink = sink + 3; }
};
struct Target { virtual void hit(long x) = 0; virtual void miss(long x) = 0; long t = 1; };
template <class T> struct Mark : Target {
  NOINLINE void hit(long x) override { leaf(x); t += x; sink = sink + 4; }
  NOINLINE void miss(long x) override { leaf(x); t += x; sink = sink + 4; }
};
template <class T> struct Passer : Target {
  NOINLINE void hit(long x) override { to->miss(x); }
  NOINLINE void miss(long x) override { leaf(x); to->hit(x + 1); }
  Target *to;
};
template <class T> NOINLINE void shoot(Target *t, long x) { leaf(x); t->hit(x); }
template <class T> NOINLINE void shoot_twice(Target *t, long x) { t->hit(x); sink = sink + 5; t->miss(x); }
template <class T> NOINLINE void run() {
  using L = Link<T>;
  L::first(1); sink = sink + 1; L::first_too(2); sink = sink + 2; L::middle(3); sink = sink + 3; L::last_too(4);
  sink = sink + 4; L::even(5); sink = sink + 5; L::odd(4); sink = sink + 6; L::deep(4); L::deeper(3); L::both(2);
  void (*each[])(long) = {L::last, L::last_too, L::first, L::odd};
  for (auto *volatile f : each) { L::by(f, 1); sink = sink + 7; L::call(f, 2); sink = sink + 8; }
  Mark<T> mark; Passer<T> passer; passer.to = &mark; Passer<T> outer; outer.to = &passer;
  Target *targets[] = {&mark, &passer, &outer};
  for (auto *volatile t : targets) { shoot<T>(t, 1); sink = sink + 9; shoot_twice<T>(t, 2); sink = sink + 10; }
}
struct A; struct B;
int main() { run<A>(); sink = sink + 1; run<B>(); sink = sink + 1; return 0; }
