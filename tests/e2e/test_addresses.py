"""Addresses as people have them: interrupted functions, return addresses less one; real stacks.

A program steps through itself: the trap flag makes the processor raise SIGTRAP after every instruction, and the handler
writes the stack when a certain function is about to run its first one. That function follows one that ends in a call of
a function that does not return, without padding between them.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from icf.cli import main
from tests.support.link import tool

SOURCE = r"""
#define _GNU_SOURCE
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#define NOINLINE __attribute__((noinline))
volatile int sink;
static int seen;
NOINLINE __attribute__((noreturn)) void fail(int value) { printf("%d\n", value); exit(3); }
NOINLINE __attribute__((noreturn)) void before(int value) { sink += value; fail(value); }
NOINLINE void target(int value) { sink -= value; }
NOINLINE void caller(int value) { target(value); sink++; }
static void handler(int number, siginfo_t *info, void *context) {
  (void)number, (void)info;
  if (seen || ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] != (long)target) return;
  seen = 1;
  ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100L;
  void *found[32];
  int count = backtrace(found, 32);
  for (int i = 0; i < count; i++) printf("%p ", found[i]);
  printf("\n");
  FILE *maps = fopen("/proc/self/maps", "r");
  for (int c; (c = getc(maps)) != EOF;) putchar(c);
}
int main(int count, char **names) {
  (void)names;
  void *found[4];
  backtrace(found, 4);  /* loads what it needs */
  struct sigaction action = {0};
  action.sa_sigaction = handler, action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, 0);
  if (count > 5) before(count);
  __asm__ volatile("pushfq; orq $0x100, (%rsp); popfq");
  caller(count);
  __asm__ volatile("pushfq; andq $~0x100, (%rsp); popfq");
  return 0;
}
"""


class Stepped:
    """A program and the stack of its signal handler: run-time addresses, and the mappings of that moment."""

    def __init__(self, folder: Path, *options: str) -> None:
        source, self.image = folder / "a.c", folder / "a.out"
        source.write_text(SOURCE)
        command = [tool("gcc"), "-falign-functions=1", "-fno-reorder-functions", "-fno-toplevel-reorder", "-g"]
        subprocess.run([*command, *options, "-o", self.image, source], check=True)
        text = subprocess.check_output([self.image], text=True, timeout=60)
        stack, _, self.maps = text.partition("\n")
        self.addresses = stack.split()
        symbols = subprocess.check_output([tool("nm"), "-n", self.image], text=True).split()
        assert symbols[symbols.index("target") - 3] == "before"


@pytest.fixture(params=["-O0", "-O2"])
def optimization(request: pytest.FixtureRequest) -> str:
    level: str = request.param
    return level


def resolve(capsys: pytest.CaptureFixture[str], folder: Path, stack: str, *options: object) -> list[str | None]:
    (folder / "stacks").write_text(stack + "\n")
    arguments = ["--out", "json", "--cache-dir", folder / "cache", *options, folder / "stacks"]
    capsys.readouterr()
    assert main(["resolve", *map(str, arguments)]) == 0
    return [frame["name"] for frame in json.loads(capsys.readouterr().out)["frames"]]


def less_one(addresses: list[str], exact: int) -> list[str]:
    """As libdw has them: all but the first and those that a signal interrupted."""
    return [each if idx in (0, exact) else f"{int(each, 16) - 1:#x}" for idx, each in enumerate(addresses)]


def test_a_static_program_says_itself_which_frame_a_signal_interrupted(
    optimization: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = Stepped(tmp_path, optimization, "-static", "-no-pie")
    at = resolve(capsys, tmp_path, " ".join(program.addresses), "-e", program.image).index("target")
    for addresses in (program.addresses, less_one(program.addresses, at)):
        names = resolve(capsys, tmp_path, " ".join(addresses), "-e", program.image)
        assert names[0] == "handler" and names[at : at + 3] == ["target", "caller", "main"]


def test_a_marked_address_is_exact(optimization: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = Stepped(tmp_path, optimization, "-static", "-no-pie")
    at = resolve(capsys, tmp_path, " ".join(program.addresses), "-e", program.image).index("target")
    plain = ["?" if idx == at - 1 else each for idx, each in enumerate(program.addresses)]
    assert resolve(capsys, tmp_path, " ".join(plain), "-e", program.image)[at] == "before"
    plain[at] += "!"
    names = resolve(capsys, tmp_path, " ".join(plain), "-e", program.image)
    assert names[at : at + 3] == ["target", "caller", "main"]
