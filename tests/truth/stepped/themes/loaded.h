/* The functions of loaded_callees.cpp, in pairs of one body each. */
#define NOINLINE __attribute__((noinline))
extern volatile long sink;
void leaf(long x);
#define PAIR(NAME) void NAME##_a(long x); void NAME##_b(long x);
PAIR(plain) PAIR(other) PAIR(tail) PAIR(through) PAIR(fail) PAIR(hooked)
struct Guard {
  long g;
  ~Guard();
};
struct Alike {
  long g;
  ~Alike();
};
