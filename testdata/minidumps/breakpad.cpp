// Writes a minidump of the parent with Breakpad's library, as its server does: breakpad FILE OPTION, with the option
// that `crash` adds.
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client/linux/handler/exception_handler.h"
#include "client/linux/minidump_writer/minidump_writer.h"

struct __attribute__((packed)) Exception {
  siginfo_t *info;
  ucontext_t *context;
  pid_t thread;
};

static void read_parent(void *from, void *to, size_t size_bytes) {
  iovec local = {to, size_bytes}, remote = {from, size_bytes};
  if (process_vm_readv(getppid(), &local, 1, &remote, 1, 0) != static_cast<ssize_t>(size_bytes)) exit(1);
}

int main(int, char **argv) {
  static google_breakpad::ExceptionHandler::CrashContext context;
  Exception exception;
  read_parent(reinterpret_cast<void *>(strtoull(strchr(argv[2], '=') + 1, nullptr, 16)), &exception, sizeof exception);
  read_parent(exception.info, &context.siginfo, sizeof context.siginfo);
  read_parent(exception.context, &context.context, sizeof context.context);
  read_parent(context.context.uc_mcontext.fpregs, &context.float_state, sizeof context.float_state);
  context.tid = exception.thread;
  return !google_breakpad::WriteMinidump(argv[1], getppid(), &context, sizeof context);
}
