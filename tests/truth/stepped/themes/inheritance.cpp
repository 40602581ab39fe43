// Several bases, virtual bases, covariant returns, construction vtables, deleting destructors: twice, as A and B.
#define NOINLINE __attribute__((noinline))
volatile long sink;
NOINLINE void leaf(long x) { sink = sink + x; }

struct First { virtual ~First() {} virtual void one(long x) = 0; long f = 1; };
struct Second { virtual ~Second() {} virtual void two(long x) = 0; virtual Second *self() = 0; long s = 2; };
struct Root { virtual ~Root() {} virtual void climb(long x) = 0; long r = 3; };

template <class T> struct Left : virtual Root {
  NOINLINE Left() { leaf(1); climb(1); sink = sink + 1; }
  NOINLINE ~Left() { leaf(2); climb(2); sink = sink + 2; }
  NOINLINE void climb(long x) override { leaf(x); l += x; }
  long l = 4;
};
template <class T> struct Right : virtual Root {
  virtual void turn(long x) { leaf(x); q += x; }
  NOINLINE ~Right() { leaf(3); turn(3); sink = sink + 3; }
  long q = 5;
};
template <class T> struct Both : Left<T>, Right<T> {
  NOINLINE void climb(long x) override { leaf(x + 1); b += x; sink = sink + 1; }
  NOINLINE void turn(long x) override { leaf(x + 1); b += x; sink = sink + 1; }
  long b = 6;
};
template <class T> struct Many : First, Second {
  NOINLINE void one(long x) override { leaf(x); m += x; sink = sink + 4; }
  NOINLINE void two(long x) override { leaf(x); m += x; sink = sink + 4; }
  NOINLINE Many *self() override { leaf(5); return this; }
  NOINLINE ~Many() { leaf(6); one(6); sink = sink + 6; }
  long m = 7;
};
template <class T> struct More : Many<T> {
  NOINLINE More *self() override { leaf(5); return this; }
  NOINLINE void two(long x) override { this->one(x + 1); sink = sink + 5; }
};
template <class T> NOINLINE void use_first(First *p) { p->one(2); sink = sink + 1; }
template <class T> NOINLINE void use_second(Second *p) { p->two(3); sink = sink + 2; p->self()->two(4); sink = sink + 3; }
template <class T> NOINLINE void climb(Root *p) { p->climb(5); sink = sink + 4; }
template <class T> NOINLINE void end(Second *p) { leaf(9); delete p; sink = sink + 7; }
template <class T> NOINLINE void last(Root *p) { leaf(10); delete p; }
template <class T> NOINLINE void run() {
  Many<T> *many = new Many<T>;
  More<T> *more = new More<T>;
  use_first<T>(many); use_first<T>(more); use_second<T>(many); use_second<T>(more);
  (many->*(&First::one))(1); void (Many<T>::*two)(long) = &Many<T>::two; (more->*two)(2);
  Both<T> both; climb<T>(&both); both.turn(7); sink = sink + 1;
  last<T>(new Both<T>); last<T>(new Left<T>);
  end<T>(many); end<T>(more); sink = sink + 8;
}
struct A; struct B;
int main() { run<A>(); run<B>(); sink = sink + 1; return 0; }
