/* Static functions of one name in two files, merged within a file, across files, and with others. */
#define NOINLINE __attribute__((noinline))
extern volatile long sink;
void leaf(long x);
static NOINLINE void init(long x) { leaf(x); sink = sink + 1; }
static NOINLINE void helper(long x) { leaf(x); sink = sink + 2; }
static NOINLINE long twice(long x) { init(x); sink = sink + 3; init(x + 1); return x + sink; }
void (*volatile hook_one)(long) = helper;
NOINLINE void use_one(long x) { init(x); helper(x); twice(x); hook_one(x); sink = sink + 4; }
