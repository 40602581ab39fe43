/* Callbacks through libc, tables of functions, variable arguments, static functions. */
#include <stdarg.h>
#include <stdlib.h>
#define NOINLINE __attribute__((noinline))
volatile long sink;
NOINLINE void leaf(long x) { sink = sink + x; }
static NOINLINE int less_a(const void *a, const void *b) { leaf(1); return *(const long *)a < *(const long *)b ? 1 : -1; }
static NOINLINE int less_b(const void *a, const void *b) { leaf(1); return *(const long *)a < *(const long *)b ? 1 : -1; }
static NOINLINE int same_a(const void *a, const void *b) { leaf(2); return *(const long *)a - *(const long *)b; }
static NOINLINE int same_b(const void *a, const void *b) { leaf(2); return *(const long *)a - *(const long *)b; }
NOINLINE void sort_a(long *p) { qsort(p, 4, sizeof *p, less_a); }
NOINLINE void sort_b(long *p) { qsort(p, 4, sizeof *p, less_b); leaf(3); }
NOINLINE void find_a(long *p) { long key = 2; if (bsearch(&key, p, 4, sizeof *p, same_a)) leaf(4); }
NOINLINE void find_b(long *p) { long key = 2; if (bsearch(&key, p, 4, sizeof *p, same_b)) leaf(4); }
static NOINLINE long sum_a(int count, ...) {
  va_list list; long sum = 0; va_start(list, count);
  while (count--) sum += va_arg(list, long);
  va_end(list); leaf(sum); return sum + sink;
}
static NOINLINE long sum_b(int count, ...) {
  va_list list; long sum = 0; va_start(list, count);
  while (count--) sum += va_arg(list, long);
  va_end(list); leaf(sum); return sum + sink;
}
struct operations { void (*open)(long); void (*close)(long); long (*sum)(int, ...); };
static NOINLINE void open_a(long x) { leaf(x); sink = sink + 1; }
static NOINLINE void close_a(long x) { leaf(x); sink = sink + 1; }
static NOINLINE void open_b(long x) { leaf(x); sink = sink + 1; }
static const struct operations a = {open_a, close_a, sum_a}, b = {open_b, close_a, sum_b};
static NOINLINE void drive_a(const struct operations *o) { o->open(1); sink = sink + 1; o->sum(2, 3l, 4l); o->close(2); }
static NOINLINE void drive_b(const struct operations *o) { o->open(1); sink = sink + 1; o->sum(2, 3l, 4l); o->close(2); }
static void at_end_a(void) { leaf(8); sink = sink + 4; }
static void at_end_b(void) { leaf(8); sink = sink + 4; }
__attribute__((constructor)) static void begin_a(void) { leaf(9); sink = sink + 5; }
__attribute__((constructor)) static void begin_b(void) { leaf(9); sink = sink + 5; }
__attribute__((destructor)) static void finish_a(void) { leaf(10); sink = sink + 6; }
__attribute__((destructor)) static void finish_b(void) { leaf(10); sink = sink + 6; }
int main(void) {
  long numbers[] = {3, 1, 4, 2};
  atexit(at_end_a); atexit(at_end_b);
  sort_a(numbers); find_a(numbers); sort_b(numbers); find_b(numbers);
  sum_a(2, 1l, 2l); sum_b(3, 1l, 2l, 3l);
  drive_a(&a); drive_b(&a); drive_a(&b); drive_b(&b);
  open_a(1); close_a(2); open_b(3);
  return 0;
}
