// std::function, lambdas, member pointers, visitors, callbacks with state: what reaches functions without their name.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>
#define NOINLINE __attribute__((noinline))
volatile long sink;
NOINLINE void leaf(long x) { sink = sink + x; }

template <class T> struct Thing {
  long t = 1;
  NOINLINE void plain(long x) { leaf(x); t += x; sink = sink + 1; }
  NOINLINE void other(long x) { leaf(x); t += x; sink = sink + 1; }
  virtual void virt(long x) { leaf(x); t += x; sink = sink + 1; }
  virtual void virt_too(long x) { leaf(x); t += x; sink = sink + 1; }
  virtual ~Thing() {}
};
template <class T> NOINLINE void through(Thing<T> *t, void (Thing<T>::*f)(long)) { (t->*f)(2); sink = sink + 2; }
template <class T> NOINLINE void through_last(Thing<T> *t, void (Thing<T>::*f)(long)) { leaf(1); (t->*f)(3); }
template <class T> NOINLINE void call(const std::function<void(long)> &f) { f(3); sink = sink + 3; }
template <class T> NOINLINE void call_last(const std::function<void(long)> &f) { leaf(2); f(4); }
template <class T> NOINLINE void each(std::vector<long> &numbers) {
  std::sort(numbers.begin(), numbers.end(), [](long a, long b) { leaf(a); return a < b; });
  std::for_each(numbers.begin(), numbers.end(), [](long a) { leaf(a); sink = sink + 4; });
}
template <class T> struct Small { long s; NOINLINE long size() const { leaf(s); return s; } };
template <class T> struct Large { long l; NOINLINE long size() const { leaf(l); return l; } };
template <class T> NOINLINE long visit(const std::variant<Small<T>, Large<T>> &v) {
  return std::visit([](const auto &each) { return each.size() + sink; }, v);
}
template <class T> struct Owner {
  std::unique_ptr<Thing<T>> held{new Thing<T>};
  std::map<long, std::string> names;
  NOINLINE void fill() { for (long i = 0; i < 3; i++) names[i] = std::string(20 + i, 'x'); leaf(names.size()); }
};
template <class T> NOINLINE void run() {
  Thing<T> thing;
  for (auto f : {&Thing<T>::plain, &Thing<T>::other, &Thing<T>::virt, &Thing<T>::virt_too}) {
    through<T>(&thing, f); sink = sink + 5; through_last<T>(&thing, f); sink = sink + 6;
  }
  long base = thing.t;
  call<T>([base](long x) { leaf(x); sink = sink + base; });
  call<T>([base](long x) { leaf(x); sink = sink + base + 1; });
  call_last<T>([&thing](long x) { thing.plain(x); sink = sink + 7; });
  call_last<T>(std::bind(&Thing<T>::other, &thing, std::placeholders::_1));
  std::vector<long> numbers{3, 1, 2}; each<T>(numbers);
  visit<T>(Small<T>{1}); sink = sink + 8; visit<T>(Large<T>{2}); sink = sink + 9;
  Owner<T> owner; owner.fill();
}
struct A; struct B;
int main() { run<A>(); sink = sink + 1; run<B>(); sink = sink + 1; return 0; }
