#include "shapes.h"
Shape::~Shape() {}
int Shape::area(int x) const { return x + 7; }
int Shape::edge(int x) const { return x + 7; }
