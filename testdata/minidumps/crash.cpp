// A program that crashes in merged functions. Its threads: one crashed in a handler that has a stack of its own, two
// wait. What writes the dump is started by the handler of SIGSEGV, as the clients of Crashpad and Breakpad do:
//
//   crash                  the kernel writes a core file
//   crash DUMPER ARG ...   runs the dumper with --trace-parent-with-exception=ADDRESS, of an Exception
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

struct __attribute__((packed)) Exception {  // Crashpad's ExceptionInformation
  siginfo_t *info;
  ucontext_t *context;
  pid_t thread;
};
static Exception exception;
static char *dumper[16];
static volatile int sum, waiting;

static void on_crash(int, siginfo_t *info, void *context) {
  exception = {info, static_cast<ucontext_t *>(context), static_cast<pid_t>(syscall(SYS_gettid))};
  pid_t child = fork();
  if (!child) {
    execv(dumper[0], dumper);
    _exit(1);
  }
  int status;
  waitpid(child, &status, 0);
  _exit(status != 0);
}

struct Order {};
struct Payment {};
struct User {};

static void wait_here() {
  __atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
  for (;;) asm volatile("syscall" : : "a"(SYS_pause) : "rcx", "r11", "memory");  // without a frame of libc
}

template <class T> struct Ledger {
  __attribute__((noinline)) static int post(int n, int *where) {
    if (n > 40) wait_here();
    *where = n;
    return n + sum;
  }
  __attribute__((noinline)) static int book(int n, int *where) {
    int found = post(n + 1, where);
    sum = sum + found;
    return found;
  }
};

struct Shape {
  int *where, area_count = 0;
  virtual int area(int n) = 0;
};
struct Square : Shape {
  int area(int n) override {
    int found = Ledger<User>::book(n, where);
    area_count++;
    return found;
  }
};
struct Circle : Shape {
  int area(int n) override {
    int found = Ledger<User>::book(n, where);
    area_count++;
    return found;
  }
};

__attribute__((noinline)) int total(Shape **shapes, int n) {
  int found = 0;
  for (int i = 0; i < 2; i++) found += shapes[i]->area(n);
  return found;
}

void handler(int) {
  int place;
  Square square;
  Circle circle;
  square.where = &place;
  circle.where = reinterpret_cast<int *>(24);
  Shape *shapes[] = {&square, &circle};
  sum = sum + total(shapes, 3);
}

__attribute__((noinline)) int jumps(int n) {
  sum = sum + 5;
  return Ledger<Payment>::book(n, nullptr);  // a tail call
}

void *orders(void *) {
  pthread_setname_np(pthread_self(), "orders");
  sum = sum + Ledger<Order>::book(50, nullptr);
  return nullptr;
}

void *payments(void *) {
  pthread_setname_np(pthread_self(), "payments");
  sum = sum + jumps(51);
  return nullptr;
}

int main(int argc, char **argv) {
  static char option[64], stack[1 << 16];
  if (argc > 1) {
    for (int i = 1; i < argc; i++) dumper[i - 1] = argv[i];
    snprintf(option, sizeof option, "--trace-parent-with-exception=%p", static_cast<void *>(&exception));
    dumper[argc - 1] = option;
    struct sigaction action = {};
    action.sa_sigaction = on_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
  }
  pthread_t thread;
  pthread_create(&thread, nullptr, orders, nullptr);
  while (waiting < 1) usleep(1000);
  pthread_create(&thread, nullptr, payments, nullptr);
  while (waiting < 2) usleep(1000);
  usleep(20000);
  stack_t other = {stack, 0, sizeof stack};
  sigaltstack(&other, nullptr);
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  raise(SIGUSR1);
}
