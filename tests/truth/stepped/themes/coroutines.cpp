// Coroutines: generators and tasks with symmetric transfer, by types that differ in name only.
#include <coroutine>
#include <exception>
#include <utility>
#define NOINLINE __attribute__((noinline))
volatile long sink;
NOINLINE void leaf(long x) { sink = sink + x; }

template <class T> struct Generator {
  struct promise_type {
    long value = 0;
    NOINLINE Generator get_return_object() { leaf(1); return Generator{std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    NOINLINE std::suspend_always yield_value(long x) { leaf(x); value = x; return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
  explicit Generator(std::coroutine_handle<promise_type> h) : handle(h) {}
  Generator(Generator &&other) : handle(std::exchange(other.handle, nullptr)) {}
  NOINLINE ~Generator() { leaf(2); if (handle) handle.destroy(); }
  NOINLINE bool next() { leaf(3); handle.resume(); sink = sink + 1; return !handle.done(); }
};
template <class T> struct Task {
  struct promise_type {
    std::coroutine_handle<> waiting;
    long result = 0;
    Task get_return_object() { return Task{std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      NOINLINE std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> h) noexcept {
        leaf(4);
        return h.promise().waiting ? h.promise().waiting : std::noop_coroutine();
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    NOINLINE void return_value(long x) { leaf(x); result = x; }
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
  explicit Task(std::coroutine_handle<promise_type> h) : handle(h) {}
  Task(Task &&other) : handle(std::exchange(other.handle, nullptr)) {}
  NOINLINE ~Task() { leaf(5); if (handle) handle.destroy(); }
  bool await_ready() { return false; }
  NOINLINE std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) {
    leaf(6); handle.promise().waiting = caller; return handle;
  }
  NOINLINE long await_resume() { leaf(7); return handle.promise().result; }
};
template <class T> NOINLINE Generator<T> count(long to) { for (long i = 0; i < to; i++) { leaf(i); co_yield i; } }
template <class T> NOINLINE Generator<T> count_too(long to) { for (long i = 0; i < to; i++) { leaf(i); co_yield i; } }
template <class T> NOINLINE Task<T> inner(long x) { leaf(x); co_return x + 1; }
template <class T> NOINLINE Task<T> middle(long x) { long r = co_await inner<T>(x); leaf(r); co_return r + 2; }
template <class T> NOINLINE Task<T> middle_too(long x) { long r = co_await inner<T>(x); leaf(r); co_return r + 2; }
template <class T> NOINLINE Task<T> outer(long x) {
  long one = co_await middle<T>(x); leaf(one);
  long two = co_await middle_too<T>(one); leaf(two);
  co_return one + two;
}
template <class T> NOINLINE void drain(Generator<T> g) { while (g.next()) leaf(g.handle.promise().value); }
template <class T> NOINLINE void run() {
  drain(count<T>(3)); sink = sink + 2; drain(count_too<T>(2)); sink = sink + 3;
  Task<T> task = outer<T>(1); task.handle.resume(); leaf(task.handle.promise().result);
}
struct A; struct B;
int main() { run<A>(); sink = sink + 1; run<B>(); sink = sink + 1; return 0; }
