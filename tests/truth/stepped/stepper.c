/* Single stepper: an LD_PRELOAD library that writes the whole stack at every instruction of the program.
 *
 * The trap flag stops the program after each instruction. No unwinder is asked what the stack is: a shadow stack follows
 * the machine.
 *
 *   call                 the return address is pushed, with the place where it lies
 *   anything else        what lies below the stack pointer is gone: ret, longjmp, exceptions, all alike
 *   signals              sigaction is wrapped: the interrupted instruction is pushed, then the handler's return address
 *   fibres               each stack has a shadow of its own: those off the main stack are areas of 64 KiB, so aligned
 *
 * Code outside of the program runs at full speed: the program's code is not executable meanwhile, so that the first
 * instruction of it faults, however it is entered: by a return, a callback, an exception, a context switch. What was on
 * the shadow stack then tells a return from a callback.
 *
 * With STEPPER_EVERY=n a SIGUSR1 is sent before every n-th instruction, from a first SIGUSR2 to a second one, but not in a handler.
 *
 * STEPPER_STARTS   file of the starts of functions, link-time, u64, ascending: says which jumps are tail calls
 * STEPPER_OUT      file that is written, as mapped memory, so it is complete however the program ends:
 *
 *   header  u64 magic, u64 bias, u64 start and u64 end of the program's code, u32 node count, u32 step count, u32 object count
 *   nodes   at NODES_AT: a frame and the one that called it: u64 address (run-time), u64 address of the call or jump that
 *           entered its function or 0, u32 parent (0: none), u32 kind: 0 a return address, 1 exact
 *   steps   at STEPS_AT: u32 node for each instruction
 *   objects at OBJECTS_AT: u64 words: step << 16 | n, then for the n frames from the innermost on what the first argument
 *           of its function points to now (0: nothing readable); at entries of functions
 *
 * x86-64 Linux with glibc, dynamic executables, one thread. SIGTRAP and SIGSEGV belong to the stepper. It calls nothing
 * that the program may replace.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

enum { MAX_NODES = 1 << 20, MAX_STEPS = 1 << 22, MAX_OBJECTS = 1 << 21, HASH_SIZE = MAX_NODES * 2 };
enum { MAX_REGIONS = 32, MAX_DEPTH = 1 << 14, TRAP_FLAG = 0x100, MAIN_STACK_BYTES = 64 << 20 };
enum { KIND_RETURN, KIND_EXACT };
enum { NODES_AT = 4096, STEPS_AT = NODES_AT + MAX_NODES * 24, OBJECTS_AT = STEPS_AT + MAX_STEPS * 4 };
enum { FILE_BYTES = OBJECTS_AT + MAX_OBJECTS * 8 };
typedef enum { PLAIN, CALL, JUMP } Instruction;

struct header {
  uint64_t magic, bias, text_low, text_high;
  uint32_t node_count, step_count, object_count;
};
struct node {
  uint64_t address, entered_from;
  uint32_t parent, kind;
};
struct entry { /* a frame that waits for the one above it */
  uintptr_t slot;         /* where its return address lies: above the stack pointer as long as it waits */
  uint64_t entered_from;  /* of this frame's function */
  uint64_t argument;      /* its first one */
  uint32_t node;
  int is_interrupted; /* by a signal */
};
struct region {
  uintptr_t key;
  int depth, depth_left; /* when the program was left last */
  struct entry *entries;
};

static uintptr_t text_low, text_high, bias, main_stack;
static struct header *header;
static struct node *nodes;
static uint32_t *steps, *table;
static uint64_t *objects;
static const uint64_t *starts;
static size_t start_count;
static struct region regions[MAX_REGIONS], *region;
static uint64_t entered_from, argument; /* of the function that runs */
static uintptr_t last_pc;
static Instruction last;
static uint64_t inject_every;
static int injecting, interrupted_count;
static struct sigaction handlers[65];

static long raw(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  register long fourth __asm__("r10") = d, fifth __asm__("r8") = e, sixth __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                   : "rcx", "r11", "memory");
  return result;
}

static void give_up(const char *why, size_t size_bytes) {
  raw(SYS_write, 2, (long)why, size_bytes, 0, 0, 0);
  raw(SYS_exit_group, 99, 0, 0, 0, 0, 0);
}
#define GIVE_UP(why) give_up("stepper: " why "\n", sizeof "stepper: " why)

static void protect(int how) {
  uintptr_t low = text_low & -4096ul, high = (text_high + 4095) & -4096ul;
  if (raw(SYS_mprotect, low, high - low, how, 0, 0, 0)) GIVE_UP("mprotect");
}

static int is_inside(uintptr_t pc) { return pc >= text_low && pc < text_high; }

static uint64_t peek(uint64_t at) { /* 0 if it cannot be read */
  uint64_t word = 0;
  struct iovec into = {&word, sizeof word}, from = {(void *)at, sizeof word};
  long pid = raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
  return raw(SYS_process_vm_readv, pid, (long)&into, 1, (long)&from, 1, 0) == sizeof word ? word : 0;
}

/* ---- what is written ---- */

static uint32_t node_of(uint32_t parent, uint64_t address, uint64_t from, uint32_t kind) {
  uint64_t hash = (address ^ from << 20 ^ (uint64_t)parent << 40 ^ (uint64_t)parent >> 7 ^ kind) * 0x9e3779b97f4a7c15u;
  for (uint32_t row = hash >> 40 & (HASH_SIZE - 1);; row = (row + 1) & (HASH_SIZE - 1)) {
    struct node *node = &nodes[table[row]];
    if (!table[row]) {
      if (header->node_count == MAX_NODES) GIVE_UP("too many stacks");
      nodes[header->node_count] = (struct node){address, from, parent, kind};
      return table[row] = header->node_count++;
    }
    if (node->address == address && node->entered_from == from && node->parent == parent && node->kind == kind)
      return table[row];
  }
}

static uint32_t parent_node(void) { return region->depth ? region->entries[region->depth - 1].node : 0; }

static void put_objects(uint32_t step) {
  if (header->object_count + region->depth + 2 > MAX_OBJECTS) return;
  objects[header->object_count++] = (uint64_t)step << 16 | (region->depth + 1);
  objects[header->object_count++] = peek(argument);
  for (int i = region->depth - 1; i >= 0; i--) {
    uint64_t object = region->entries[i].argument;
    objects[header->object_count++] = object ? peek(object) : 0;
  }
}

/* ---- the shadow stack ---- */

static void choose_region(uintptr_t stack_pointer) {
  uintptr_t distance = stack_pointer > main_stack ? stack_pointer - main_stack : main_stack - stack_pointer;
  uintptr_t key = distance < MAIN_STACK_BYTES ? 0 : stack_pointer >> 16;
  for (int i = 0; i < MAX_REGIONS; i++) {
    region = &regions[i];
    if (region->key == key) return;
    if (i && !region->key) {
      region->key = key;
      return;
    }
  }
  GIVE_UP("too many stacks of fibres");
}

static void push(uintptr_t slot, uint32_t node, int is_interrupted) {
  if (region->depth == MAX_DEPTH) GIVE_UP("the stack is too deep");
  region->entries[region->depth++] = (struct entry){slot, entered_from, argument, node, is_interrupted};
  interrupted_count += is_interrupted;
}

static void pop(uintptr_t stack_pointer) {
  while (region->depth && region->entries[region->depth - 1].slot < stack_pointer) {
    struct entry *entry = &region->entries[--region->depth];
    entered_from = entry->entered_from;
    argument = entry->argument;
    interrupted_count -= entry->is_interrupted;
  }
}

static void push_return(uintptr_t stack_pointer) {
  uint64_t address = *(uint64_t *)stack_pointer;
  push(stack_pointer, node_of(parent_node(), address, entered_from, KIND_RETURN), 0);
}

/* ---- instructions ---- */

static Instruction decode(const uint8_t *code) {
  for (;; code++) {
    uint8_t byte = *code;
    if (byte != 0x66 && byte != 0x67 && byte != 0xf2 && byte != 0xf3 && byte != 0x3e && byte != 0x2e &&
        (byte & 0xf0) != 0x40)
      break;
  }
  if (code[0] == 0xe8) return CALL;
  if (code[0] == 0xff && (code[1] >> 3 & 7) == 2) return CALL;
  if (code[0] == 0xff && (code[1] >> 3 & 7) == 4) return JUMP;
  if (code[0] == 0xe9 || code[0] == 0xeb || (code[0] & 0xf0) == 0x70) return JUMP;
  return code[0] == 0x0f && (code[1] & 0xf0) == 0x80 ? JUMP : PLAIN;
}

static int is_start(uint64_t pc) {
  size_t low = 0, high = start_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (starts[middle] < pc - bias)
      low = middle + 1;
    else
      high = middle;
  }
  return low < start_count && starts[low] == pc - bias;
}

/* ---- stops ---- */

static void leave(greg_t *registers) {
  region->depth_left = region->depth;
  last = PLAIN;
  registers[REG_EFL] &= ~TRAP_FLAG;
  protect(PROT_READ);
}

/* The program is about to run the instruction at REG_RIP. */
static void arrive(greg_t *registers, int is_entry) {
  uintptr_t pc = registers[REG_RIP];
  if (header->step_count == MAX_STEPS) GIVE_UP("too many instructions");
  steps[header->step_count] = node_of(parent_node(), pc, entered_from, KIND_EXACT);
  if (is_entry) put_objects(header->step_count);
  header->step_count++;
  last_pc = pc;
  last = decode((const uint8_t *)pc);
  registers[REG_EFL] |= TRAP_FLAG;
  if (!injecting || interrupted_count || header->step_count % inject_every) return;
  raw(SYS_tgkill, raw(SYS_getpid, 0, 0, 0, 0, 0, 0), raw(SYS_gettid, 0, 0, 0, 0, 0, 0), SIGUSR1, 0, 0, 0);
  leave(registers);
}

static void on_step(int number, siginfo_t *info, void *raw_context) {
  greg_t *registers = ((ucontext_t *)raw_context)->uc_mcontext.gregs;
  uintptr_t pc = registers[REG_RIP], stack_pointer = registers[REG_RSP];
  int is_entry = last == CALL || (last == JUMP && is_start(pc));
  (void)number, (void)info;
  choose_region(stack_pointer);
  pop(stack_pointer);
  if (last == CALL) push_return(stack_pointer);
  if (is_entry) {
    entered_from = last_pc;
    argument = registers[REG_RDI];
  }
  if (is_inside(pc))
    arrive(registers, is_entry);
  else
    leave(registers);
}

/* Code outside has come to an instruction of the program. */
static void on_fault(int number, siginfo_t *info, void *raw_context) {
  greg_t *registers = ((ucontext_t *)raw_context)->uc_mcontext.gregs;
  uintptr_t pc = registers[REG_RIP], stack_pointer = registers[REG_RSP];
  (void)number;
  if ((uintptr_t)info->si_addr != pc || !is_inside(pc)) GIVE_UP("the program failed");
  protect(PROT_READ | PROT_EXEC);
  choose_region(stack_pointer);
  pop(stack_pointer);
  int is_callback = region->depth == region->depth_left;
  if (is_callback) {
    int was_jumped_to = region->depth && region->entries[region->depth - 1].slot == stack_pointer; /* it returns to ours */
    entered_from = argument = 0;
    if (header->step_count && !was_jumped_to) push_return(stack_pointer);
    argument = registers[REG_RDI];
  }
  arrive(registers, is_callback);
}

/* ---- signals ---- */

static void on_signal(int number, siginfo_t *info, void *raw_context) {
  greg_t *registers = ((ucontext_t *)raw_context)->uc_mcontext.gregs;
  uintptr_t pc = registers[REG_RIP], slot = (uintptr_t)raw_context - 8; /* of the handler's return address */
  choose_region(registers[REG_RSP]);
  pop(registers[REG_RSP]);
  if (is_inside(pc)) push(registers[REG_RSP] - 1, node_of(parent_node(), pc, entered_from, KIND_EXACT), 1);
  leave(registers);
  struct region *interrupted = region;
  choose_region(slot);
  if (region != interrupted) { /* sigaltstack */
    pop(slot);
    entered_from = argument = 0;
    push(slot + 1, interrupted->depth ? interrupted->entries[interrupted->depth - 1].node : 0, 0);
    region->depth_left = region->depth;
  }
  if (number == SIGUSR2) injecting = !injecting && inject_every;
  if (handlers[number].sa_sigaction) handlers[number].sa_sigaction(number, info, raw_context); /* a jump */
}

static int (*libc_sigaction)(int, const struct sigaction *, struct sigaction *);

int sigaction(int number, const struct sigaction *action, struct sigaction *old) {
  static int is_wrapped[65];
  int is_default = action && (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN);
  if (number == SIGTRAP || number == SIGSEGV) { /* Rust's runtime leaves alone what is ignored */
    if (old) *old = (struct sigaction){.sa_handler = SIG_IGN};
    return 0;
  }
  if (number < 1 || number > 64 || (!action && !is_wrapped[number])) return libc_sigaction(number, action, old);
  struct sigaction before = handlers[number];
  if (!action) {
    *old = before;
    return 0;
  }
  struct sigaction wrapper = *action;
  if (!is_default) {
    wrapper.sa_sigaction = on_signal;
    wrapper.sa_flags |= SA_SIGINFO;
    sigdelset(&wrapper.sa_mask, SIGTRAP);
    sigdelset(&wrapper.sa_mask, SIGSEGV);
    handlers[number] = *action;
  }
  int result = libc_sigaction(number, &wrapper, old);
  if (old && is_wrapped[number]) *old = before;
  is_wrapped[number] = !is_default;
  return result;
}

void (*signal(int number, void (*handler)(int)))(int) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
  return sigaction(number, &action, &old) ? SIG_ERR : old.sa_handler;
}

/* ---- the beginning ---- */

static int note_program(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size, (void)unused;
  bias = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X)) continue;
    text_low = bias + segment->p_vaddr;
    text_high = text_low + segment->p_memsz;
  }
  return 1; /* the first is the program */
}

static void *map(const char *path, size_t size_bytes, int is_written) {
  int file = open(path, is_written ? O_RDWR | O_CREAT | O_TRUNC : O_RDONLY, 0600);
  if (file < 0 || (is_written && ftruncate(file, size_bytes))) GIVE_UP("cannot open a file");
  void *memory = mmap(NULL, size_bytes, is_written ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) GIVE_UP("cannot map a file");
  close(file);
  return memory;
}

static void catch(int number, void (*handler)(int, siginfo_t *, void *)) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  sigfillset(&action.sa_mask);
  libc_sigaction(number, &action, NULL);
}

__attribute__((constructor)) static void begin(void) {
  const char *out = getenv("STEPPER_OUT"), *listed = getenv("STEPPER_STARTS"), *every = getenv("STEPPER_EVERY");
  if (!out || !listed) return;
  dl_iterate_phdr(note_program, NULL);
  int file = open(listed, O_RDONLY);
  start_count = lseek(file, 0, SEEK_END) / sizeof *starts;
  close(file);
  starts = map(listed, start_count * sizeof *starts, 0);
  uint8_t *written = map(out, FILE_BYTES, 1);
  header = (struct header *)written;
  nodes = (struct node *)(written + NODES_AT);
  steps = (uint32_t *)(written + STEPS_AT);
  objects = (uint64_t *)(written + OBJECTS_AT);
  *header = (struct header){
      .magic = 0x72657070657473, .bias = bias, .text_low = text_low, .text_high = text_high, .node_count = 1};
  size_t table_bytes = HASH_SIZE * sizeof *table, entries_bytes = MAX_DEPTH * sizeof(struct entry);
  uint8_t *memory = mmap(NULL, table_bytes + MAX_REGIONS * entries_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GIVE_UP("no memory");
  table = (uint32_t *)memory;
  for (int i = 0; i < MAX_REGIONS; i++) regions[i].entries = (struct entry *)(memory + table_bytes + i * entries_bytes);
  main_stack = (uintptr_t)__builtin_frame_address(0);
  inject_every = every ? strtoull(every, NULL, 0) : 0;
  libc_sigaction = (int (*)(int, const struct sigaction *, struct sigaction *))dlsym(RTLD_NEXT, "sigaction");
  unsetenv("LD_PRELOAD");
  catch(SIGTRAP, on_step);
  catch(SIGSEGV, on_fault);
  protect(PROT_READ);
}
