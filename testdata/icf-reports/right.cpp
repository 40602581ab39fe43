static __attribute__((noinline)) int step(int x) { return x * 3 + 1; }
int right(int x) { return step(x) + step(x + 1); }
