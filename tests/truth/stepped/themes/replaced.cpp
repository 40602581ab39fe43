// operator new and delete of the program itself, one merged with a function of another name; objects remade in place.
#include <cstdlib>
#include <new>
#define NOINLINE __attribute__((noinline))
volatile long sink;
NOINLINE void leaf(long x) { sink = sink + x; }
extern "C" NOINLINE void pool_release(void *p) { leaf(1); free(p); sink = sink + 1; }
NOINLINE void operator delete(void *p) noexcept { leaf(1); free(p); sink = sink + 1; }
extern "C" NOINLINE void *pool_take(unsigned long n) { leaf(2); void *p = malloc(n); sink = sink + 2; return p; }
NOINLINE void *operator new(unsigned long n) { leaf(2); void *p = malloc(n); sink = sink + 2; return p; }
struct Plain { long p; };
NOINLINE void drop(Plain *a, bool is_pooled) { leaf(9); if (is_pooled) pool_release(a); else delete a; }
NOINLINE Plain *make(bool is_pooled) { leaf(8); return is_pooled ? (Plain *)pool_take(sizeof(Plain)) : new Plain; }
NOINLINE void drop_many(Plain *a) { delete[] a; sink = sink + 3; }

struct State { virtual void next() = 0; virtual void act(long x) = 0; virtual ~State() {} long s = 1; };
NOINLINE void flip(State *s);
struct One : State {
  NOINLINE void next() override { flip(this); leaf(3); sink = sink + 4; }
  NOINLINE void act(long x) override { leaf(x); sink = sink + 5; }
};
struct Two : State {
  NOINLINE void next() override { flip(this); leaf(3); sink = sink + 4; }
  NOINLINE void act(long x) override { leaf(x); sink = sink + 5; }
};
static bool is_two;
NOINLINE void flip(State *s) { leaf(4); is_two = !is_two; if (is_two) new (s) Two; else new (s) One; }
struct Suicide : State {
  NOINLINE void next() override { delete this; leaf(5); sink = sink + 6; }
  NOINLINE void act(long x) override { leaf(x); sink = sink + 7; }
};
struct Other : State {
  NOINLINE void next() override { delete this; leaf(5); sink = sink + 6; }
  NOINLINE void act(long x) override { leaf(x); sink = sink + 7; }
};
NOINLINE void step(State *s) { s->next(); sink = sink + 8; }
NOINLINE void act(State *s) { s->act(6); sink = sink + 9; }
NOINLINE void drive(State *s) { for (int i = 0; i < 3; i++) { step(s); act(s); } }
int main() {
  drop(make(true), true); drop(make(false), false); drop(new Plain, true); drop(make(true), false);
  drop_many(new Plain[3]);
  State *state = new One; drive(state); delete state;
  step(new Suicide); step(new Other); State *last = new Other; act(last); step(last);
  return 0;
}
