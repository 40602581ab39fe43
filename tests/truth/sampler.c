/* Stack sampler for the accuracy tests: an LD_PRELOAD library that writes call stacks at reproducible events.
 *
 * Two links of the same objects, with and without folding, run the same instructions at other addresses. Sampling both
 * runs at the same points therefore gives the same stacks twice: once with addresses that folding made ambiguous, once
 * with addresses that name the function. What is needed is a clock that does not depend on addresses or time:
 *
 *   allocations   (SAMPLER_BREAKS unset) the clock ticks at every malloc, calloc, realloc, free and aligned allocation of
 *                 the main thread. A sample is taken at the tick, or with SAMPLER_STEPS=m a reproducible 1..m
 *                 instructions of the program itself later, so that any function may be the innermost one.
 *   entries       (SAMPLER_BREAKS=FILE) the clock ticks when one of the listed functions is entered. FILE has lines
 *                 "vaddr group", both decimal; the breakpoints of one group are the originals of one folded body.
 *
 * Which ticks become samples depends on the tick's number only. The hash of all ticks so far goes with each sample: where
 * it is equal in both runs, the runs did the same up to there.
 *
 * SAMPLER_OUT (required), SAMPLER_GAP (mean ticks between samples, 1000), SAMPLER_MAX (samples, 100000),
 * SAMPLER_FIRST (entries: sample the first so many of each group whatever the gap, 50), SAMPLER_LIMIT (entries: a group is
 * left alone after so many ticks, 2000).
 *
 * While stepping, code outside of the program runs at full speed: when it is entered by a call, a breakpoint waits at the
 * return address. Where an exception passes that by, the sample is given up when the next one is due.
 *
 * Output, one record a line, numbers in hex without 0x:
 *   M bias low high path                       a loaded module
 *   S tick hash what detail steps exact frame...   innermost first: pc, or pc:entry:word:word; run-time addresses; all pcs
 *                                              but an `exact` first one are return addresses
 *
 * entry and words are there (entries only) for a frame of a listed function: where that starts, and the first word, as the
 * sample is taken, of what its first and its second argument pointed to when it was entered. One of them is what a debugger
 * shows as `*(void **)this`: the second one if the first argument is where the result goes.
 *   E ticks hash                               the end, written at exit
 *
 * x86-64 Linux with glibc; on AArch64 allocations only, without steps. Signals: SIGTRAP belongs to the sampler. The unwinder is libgcc's.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

enum { TICK_ALLOCATE = 1, TICK_RESIZE, TICK_FREE, TICK_ENTRY };
enum { MAX_FRAMES = 1000, MAX_ENTERED = 1 << 16, MAX_BREAKS = 1 << 18, MAX_GROUPS = 1 << 16, TRAP_FLAG = 0x100 };

struct span {
  uintptr_t low, high;
};
struct breakpoint {
  uintptr_t at;
  uint32_t group;
  uint8_t original;
};

static _Thread_local int in_main_thread __attribute__((tls_model("initial-exec")));
static int active, busy; /* busy: do not count what the sampler itself allocates */
static FILE *out;
static uint64_t gap = 1000, sample_max = 100000, step_max, first_count = 50, limit_count = 2000;
static uint64_t tick_count, history, sample_count;
static struct span self, text; /* executable code of this library, of the program */
static uintptr_t program_bias;
static unsigned long long modules_seen;

/* The tick that is being stepped away from, if any. */
static uint64_t steps_left, steps_wanted;
static int pending_what;
static uint64_t pending_tick, pending_history, pending_detail;

static struct breakpoint way_back; /* where a call out of the program returns to, while it is under way */

static struct breakpoint *breaks;

static void put_byte(uintptr_t at, uint8_t byte) { *(volatile uint8_t *)at = byte; }

static uint64_t option(const char *name, uint64_t fallback) {
  const char *text_value = getenv(name);
  return text_value ? strtoull(text_value, NULL, 0) : fallback;
}

static uint64_t scramble(uint64_t x) { /* splitmix64 */
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* ---- modules ---- */

static int note_module(struct dl_phdr_info *info, size_t size, void *counter) {
  int *module_idx = counter;
  struct span all = {UINTPTR_MAX, 0}, code = {UINTPTR_MAX, 0};
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD) continue;
    uintptr_t low = info->dlpi_addr + segment->p_vaddr, high = low + segment->p_memsz;
    if (low < all.low) all.low = low;
    if (high > all.high) all.high = high;
    if (segment->p_flags & PF_X) {
      if (low < code.low) code.low = low;
      if (high > code.high) code.high = high;
    }
  }
  char path[4096];
  ssize_t length = *module_idx ? -1 : readlink("/proc/self/exe", path, sizeof path - 1);
  snprintf(path + (length > 0 ? length : 0), sizeof path - (length > 0 ? length : 0), "%s", length > 0 ? "" : info->dlpi_name);
  if (!*module_idx) text = code, program_bias = info->dlpi_addr;
  if (code.low <= (uintptr_t)note_module && (uintptr_t)note_module < code.high) self = code;
  fprintf(out, "M %" PRIxPTR " %" PRIxPTR " %" PRIxPTR " %s\n", (uintptr_t)info->dlpi_addr, all.low, all.high, path);
  modules_seen = info->dlpi_adds;
  (*module_idx)++;
  return 0;
}

static int get_adds(struct dl_phdr_info *info, size_t size, void *adds) {
  (void)size;
  *(unsigned long long *)adds = info->dlpi_adds;
  return 1;
}

static void note_modules(void) {
  unsigned long long adds = 0;
  int module_idx = 0;
  dl_iterate_phdr(get_adds, &adds);
  if (adds != modules_seen) dl_iterate_phdr(note_module, &module_idx);
}

/* ---- one sample ---- */

struct walk {
  int in_signal; /* frames up to and including the signal's belong to the sampler */
  int frame_count;
  uintptr_t pcs[MAX_FRAMES];
  uintptr_t stack_pointers[MAX_FRAMES]; /* of each frame, where it called or was interrupted */
};

static _Unwind_Reason_Code walk_frame(struct _Unwind_Context *context, void *state) {
  struct walk *walk = state;
  int is_interrupted = 0;
  uintptr_t pc = _Unwind_GetIPInfo(context, &is_interrupted);
  if (walk->frame_count == 0) {
    if (walk->in_signal ? !is_interrupted : pc >= self.low && pc < self.high) return _URC_NO_REASON;
  }
  if (!pc || walk->frame_count == MAX_FRAMES) return _URC_END_OF_STACK;
  walk->stack_pointers[walk->frame_count] = _Unwind_GetCFA(context);
  walk->pcs[walk->frame_count++] = pc;
  return _URC_NO_REASON;
}

static uintptr_t peek(uintptr_t at) { /* 0 if it cannot be read */
  uintptr_t word = 0;
  struct iovec into = {&word, sizeof word}, from = {(void *)at, sizeof word};
  return process_vm_readv(getpid(), &into, 1, &from, 1, 0) == sizeof word ? word : 0;
}

/* Entries of listed functions that may not have returned yet: the stack pointer falls from each to the next. */
static struct entered {
  uintptr_t stack_pointer, at, arguments[2];
  uint32_t group;
} *entered;
static int entered_count;
static uint32_t *group_ticks;

static void put_frame(const struct walk *walk, int i) {
  static int row; /* both are walked from the innermost to the outermost */
  fprintf(out, " %" PRIxPTR, walk->pcs[i]);
  if (!i) row = entered_count;
  if (i + 1 == walk->frame_count) return;
  uintptr_t at_entry = walk->stack_pointers[i + 1] - sizeof(uintptr_t); /* where the return address lies */
  while (row && entered[row - 1].stack_pointer < at_entry) row--;
  if (!row || entered[row - 1].stack_pointer != at_entry || group_ticks[entered[row - 1].group] >= limit_count) return;
  fprintf(out, ":%" PRIxPTR ":%" PRIxPTR ":%" PRIxPTR, entered[row - 1].at, peek(entered[row - 1].arguments[0]),
          peek(entered[row - 1].arguments[1]));
}

static void sample(const ucontext_t *interrupted, uint64_t steps) {
  static struct walk walk;
  busy = 1;
  walk.in_signal = interrupted != NULL;
  walk.frame_count = 0;
  note_modules();
  _Unwind_Backtrace(walk_frame, &walk);
  fprintf(out, "S %" PRIx64 " %" PRIx64 " %x %" PRIx64 " %" PRIx64 " %d", pending_tick, pending_history, pending_what,
          pending_detail, steps, interrupted != NULL);
  for (int i = 0; i < walk.frame_count; i++) put_frame(&walk, i);
  fputc('\n', out);
  sample_count++;
  busy = 0;
}

static int chosen(void) { return sample_count < sample_max && scramble(tick_count) % gap == 0; }

static void mark_tick(int what, uint64_t detail) {
  pending_what = what;
  pending_detail = detail;
  pending_tick = tick_count;
  pending_history = history;
}

/* ---- allocations ---- */

/* An allocation happened; nonzero if the caller has to start single stepping, just before it returns. */
static int allocation(int what, uint64_t size_bytes) {
  if (!active || busy || breaks || !in_main_thread) return 0;
  history = scramble(history ^ (size_bytes << 3 | (unsigned)what));
  ++tick_count;
  if (!chosen()) return 0;
  if (steps_left && !way_back.at) return 0; /* the sample under way keeps its tick */
  if (way_back.at) put_byte(way_back.at, way_back.original);
  way_back.at = 0;
  steps_left = 0;
  mark_tick(what, size_bytes);
  if (step_max) {
    steps_wanted = 1 + scramble(~tick_count) % step_max;
    return 1;
  }
  sample(NULL, 0);
  return 0;
}

/* The trap handler sees steps_wanted set and switches the trap flag on. */
#ifdef __x86_64__
#define TRAP() __asm__ volatile("int3" ::: "memory")
#else
#define TRAP() abort() /* nobody asks for steps */
#endif
#define BEGIN_STEPS_IF(wanted) \
  do { \
    if (__builtin_expect(wanted, 0)) TRAP(); \
  } while (0)

void *malloc(size_t size_bytes) {
  int wanted = allocation(TICK_ALLOCATE, size_bytes);
  void *block = __libc_malloc(size_bytes);
  BEGIN_STEPS_IF(wanted);
  return block;
}
void *calloc(size_t count, size_t size_bytes) {
  int wanted = allocation(TICK_ALLOCATE, count * size_bytes);
  void *block = __libc_calloc(count, size_bytes);
  BEGIN_STEPS_IF(wanted);
  return block;
}
void *realloc(void *old, size_t size_bytes) {
  int wanted = allocation(TICK_RESIZE, size_bytes);
  void *block = __libc_realloc(old, size_bytes);
  BEGIN_STEPS_IF(wanted);
  return block;
}
void *memalign(size_t alignment, size_t size_bytes) {
  int wanted = allocation(TICK_ALLOCATE, size_bytes);
  void *block = __libc_memalign(alignment, size_bytes);
  BEGIN_STEPS_IF(wanted);
  return block;
}
void *aligned_alloc(size_t alignment, size_t size_bytes) { return memalign(alignment, size_bytes); }
int posix_memalign(void **block, size_t alignment, size_t size_bytes) {
  *block = memalign(alignment, size_bytes);
  return *block ? 0 : 12;
}
void free(void *block) {
  int wanted = block ? allocation(TICK_FREE, 0) : 0;
  __libc_free(block);
  BEGIN_STEPS_IF(wanted);
}

/* ---- traps: entries and single steps ---- */

#ifdef __x86_64__

static struct breakpoint *stepping_over;
static int break_count, way_was_inside;

static int by_address(const void *left, const void *right) {
  uintptr_t a = ((const struct breakpoint *)left)->at, b = ((const struct breakpoint *)right)->at;
  return a < b ? -1 : a > b;
}

static void allow_patches(void) {
  uintptr_t low = text.low & -4096ul, high = (text.high + 4095) & -4096ul;
  if (mprotect((void *)low, high - low, PROT_READ | PROT_WRITE | PROT_EXEC)) {
    perror("sampler: mprotect");
    _exit(99);
  }
}

static void set_breaks(const char *path) {
  unsigned long long vaddr;
  unsigned group;
  FILE *list = fopen(path, "r");
  size_t bytes = MAX_BREAKS * sizeof *breaks + MAX_ENTERED * sizeof *entered + MAX_GROUPS * sizeof *group_ticks;
  struct breakpoint *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!list || memory == MAP_FAILED) {
    perror("sampler: breakpoints");
    _exit(99);
  }
  allow_patches();
  breaks = memory;
  entered = (struct entered *)(breaks + MAX_BREAKS);
  group_ticks = (uint32_t *)(entered + MAX_ENTERED);
  while (break_count < MAX_BREAKS && fscanf(list, "%llu %u", &vaddr, &group) == 2 && group < MAX_GROUPS)
    breaks[break_count++] = (struct breakpoint){vaddr + program_bias, group, *(uint8_t *)(vaddr + program_bias)};
  fclose(list);
  qsort(breaks, break_count, sizeof *breaks, by_address);
  for (int i = 0; i < break_count; i++) put_byte(breaks[i].at, 0xcc);
}

static void note_entry(uintptr_t stack_pointer, uintptr_t at, uint32_t group, uintptr_t first, uintptr_t second) {
  while (entered_count && entered[entered_count - 1].stack_pointer <= stack_pointer) entered_count--;
  if (entered_count < MAX_ENTERED) entered[entered_count++] = (struct entered){stack_pointer, at, {first, second}, group};
}

static void on_entry(ucontext_t *context, struct breakpoint *hit) {
  greg_t *registers = context->uc_mcontext.gregs;
  registers[REG_RIP] = hit->at;
  put_byte(hit->at, hit->original);
  if (!active || !in_main_thread || group_ticks[hit->group] >= limit_count) return; /* and leave it out */
  uint32_t count = ++group_ticks[hit->group];
  history = scramble(history ^ hit->group);
  ++tick_count;
  mark_tick(TICK_ENTRY, hit->group);
  note_entry(registers[REG_RSP], hit->at, hit->group, registers[REG_RDI], registers[REG_RSI]);
  if (sample_count < sample_max && (count <= first_count || chosen())) sample(context, 0);
  stepping_over = hit;
  context->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_trap(int signal_number, siginfo_t *info, void *raw) {
  ucontext_t *context = raw;
  uintptr_t pc = context->uc_mcontext.gregs[REG_RIP];
  (void)signal_number, (void)info;
  if (stepping_over) { /* the instruction under the breakpoint has run */
    put_byte(stepping_over->at, 0xcc);
    stepping_over = NULL;
    context->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    return;
  }
  if (breaks) {
    struct breakpoint key = {pc - 1, 0, 0};
    struct breakpoint *hit = bsearch(&key, breaks, break_count, sizeof *breaks, by_address);
    if (hit) on_entry(context, hit);
    return;
  }
  if (steps_wanted) { /* the int3 of an allocation function */
    steps_left = steps_wanted;
    steps_wanted = 0;
    context->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
    return;
  }
  if (way_back.at && pc == way_back.at + 1) {
    pc = context->uc_mcontext.gregs[REG_RIP] = way_back.at;
    put_byte(way_back.at, way_back.original);
    way_back.at = 0;
    context->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
  }
  if (!steps_left) return;
  if (pc < text.low || pc >= text.high) {
    uintptr_t return_address = *(uintptr_t *)context->uc_mcontext.gregs[REG_RSP];
    if (way_was_inside && return_address >= text.low && return_address < text.high) {
      way_back = (struct breakpoint){return_address, 0, *(uint8_t *)return_address};
      put_byte(return_address, 0xcc);
      context->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    }
    way_was_inside = 0;
    return;
  }
  way_was_inside = 1;
  if (--steps_left) return;
  way_was_inside = 0;
  context->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
  sample(context, scramble(~pending_tick) % step_max + 1);
}

static void prepare_traps(void) {
  struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER};
  const char *path = getenv("SAMPLER_BREAKS");
  sigaction(SIGTRAP, &action, NULL);
  if (path) set_breaks(path);
  else if (step_max) allow_patches();
}

#else

static void prepare_traps(void) { step_max = 0; }

#endif

/* ---- begin and end ---- */

static void in_child(void) { active = 0; }

static void finish(void) {
  if (!active) return;
  active = 0;
  fprintf(out, "E %" PRIx64 " %" PRIx64 "\n", tick_count, history);
  fclose(out);
}

__attribute__((constructor)) static void begin(int argument_count, char **arguments, char **environment) {
  const char *path = getenv("SAMPLER_OUT");
  (void)argument_count;
  if (!path) return;
#ifdef __x86_64__ /* an emulator cannot start itself again */
  int persona = personality(0xffffffff);
  if (persona != -1 && !(persona & ADDR_NO_RANDOMIZE) && personality(persona | ADDR_NO_RANDOMIZE) != -1 &&
      personality(0xffffffff) & ADDR_NO_RANDOMIZE)
    execve("/proc/self/exe", arguments, environment); /* again, at fixed addresses; goes on here if refused */
#else
  (void)arguments, (void)environment;
#endif
  out = fopen(path, "w");
  if (!out) {
    perror("sampler: SAMPLER_OUT");
    _exit(99);
  }
  static char buffer[1 << 20];
  setvbuf(out, buffer, _IOFBF, sizeof buffer);
  gap = option("SAMPLER_GAP", gap);
  sample_max = option("SAMPLER_MAX", sample_max);
  step_max = option("SAMPLER_STEPS", 0);
  first_count = option("SAMPLER_FIRST", first_count);
  limit_count = option("SAMPLER_LIMIT", limit_count);
  note_modules();
  struct walk *warm_up = __libc_calloc(1, sizeof *warm_up); /* the unwinder's own first allocations happen here */
  _Unwind_Backtrace(walk_frame, warm_up);
  __libc_free(warm_up);
  prepare_traps();
  unsetenv("LD_PRELOAD"); /* children run unsampled */
  unsetenv("SAMPLER_OUT");
  pthread_atfork(NULL, NULL, in_child);
  atexit(finish);
  in_main_thread = 1;
  active = 1;
}
