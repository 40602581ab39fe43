// Functions that fold: templates over types of one size, static functions of one name in two files,
// virtual functions of one body, constructors, a cold part, and code in an archive.
#include "shapes.h"
int left(int), right(int);
static __attribute__((noinline)) int step(int x) { return x * 3 + 1; }
int (*volatile pick)(int) = step;
int main(int argc, char **) {
  int pair[2] = {argc, 2};
  unsigned upair[2] = {1u, (unsigned)argc};
  long quad[2] = {argc, 2};
  unsigned long uquad[2] = {1ul, (unsigned long)argc};
  Shape shape;
  const Shape *volatile any = &shape;
  return twice(pair) + (int)twice(upair) + (int)twice(quad) + (int)twice(uquad) + any->area(argc) + any->edge(argc) +
         left(argc) + right(argc) + pick(argc);
}
