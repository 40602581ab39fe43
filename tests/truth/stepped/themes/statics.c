/* The other half of statics_one.c; weak functions, a resolver (IFUNC), a function with a version. */
#define NOINLINE __attribute__((noinline))
volatile long sink;
NOINLINE void leaf(long x) { sink = sink + x; }
static NOINLINE void init(long x) { leaf(x); sink = sink + 1; }
static NOINLINE void helper(long x) { leaf(x); sink = sink + 2; }
static NOINLINE void other(long x) { leaf(x); sink = sink + 2; }
static NOINLINE long twice(long x) { init(x); sink = sink + 3; init(x + 1); return x + sink; }
void use_one(long x);
void (*volatile hook_two)(long) = helper;
NOINLINE void use_two(long x) { init(x); helper(x); twice(x); hook_two(x); sink = sink + 4; }
NOINLINE void use_three(long x) { init(x); other(x); twice(x); hook_two(x); sink = sink + 4; }

__attribute__((weak, noinline)) void weak_a(long x) { leaf(x); sink = sink + 5; }
__attribute__((weak, noinline)) void weak_b(long x) { leaf(x); sink = sink + 5; }
static NOINLINE void fast_a(long x) { leaf(x); sink = sink + 6; }
static NOINLINE void fast_b(long x) { leaf(x); sink = sink + 6; }
static void *choose_a(void) { return fast_a; }
static void *choose_b(void) { return fast_b; }
void chosen_a(long) __attribute__((ifunc("choose_a")));
void chosen_b(long) __attribute__((ifunc("choose_b")));
NOINLINE void old_api(long x) { leaf(x); sink = sink + 7; }
NOINLINE void new_api(long x) { leaf(x); sink = sink + 7; }
int main(void) {
  use_one(1); use_two(2); use_three(3);
  weak_a(1); sink = sink + 1; weak_b(2); sink = sink + 1; chosen_a(3); sink = sink + 1; chosen_b(4); sink = sink + 1;
  old_api(5); sink = sink + 1; new_api(6);
  return 0;
}
