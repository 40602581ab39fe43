"""What a Windows program does, instruction by instruction: a loader for Linux runs it and copies registers and stack.

The loader maps the image where it was linked for, calls its entry point, and traps after each instruction. Calls and
returns show in the stack pointer, so which frames there are is known at each instruction without any tables.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from tests.support.toolchain import lasting_folder, run, tool

LOADER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static uint64_t low, high, top, left;
static FILE* out;
static const int order[17] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8, REG_R9,
                              REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

static void on_trap(int number, siginfo_t* info, void* context) {
    greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
    uint64_t pc = registers[REG_RIP], sp = registers[REG_RSP], size = top - sp, values[18];
    if (pc < low || pc >= high) return;
    for (int i = 0; i < 17; i++) values[i] = registers[order[i]];
    values[17] = size;
    fwrite(values, sizeof values, 1, out);
    fwrite((void*)sp, 1, size, out);
    if (--left == 0) { fclose(out); _exit(0); }
}

int main(int count, char** words) {
    int fd = open(words[1], O_RDONLY);
    out = fopen(words[2], "wb");
    left = strtoull(words[3], 0, 0);
    static char head[4096];
    if (read(fd, head, sizeof head) < 1024) return 2;
    char* pe = head + *(uint32_t*)(head + 0x3c);
    char* optional = pe + 24;
    uint64_t base = *(uint64_t*)(optional + 24);
    low = base, high = base + *(uint32_t*)(optional + 56);
    char* image = mmap((void*)base, high - low, PROT_READ | PROT_WRITE | PROT_EXEC,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (image != (char*)base) return 3;
    char* section = optional + *(uint16_t*)(pe + 20);
    for (int i = 0; i < *(uint16_t*)(pe + 6); i++, section += 40) {
        uint32_t size = *(uint32_t*)(section + 8), stored = *(uint32_t*)(section + 16);
        char* to = image + *(uint32_t*)(section + 12);
        if (pread(fd, to, stored < size ? stored : size, *(uint32_t*)(section + 20)) < 0) return 4;
    }
    static char alternate[1 << 16];
    stack_t other = {alternate, 0, sizeof alternate};
    sigaltstack(&other, 0);
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGTRAP, &action, 0);
    int (__attribute__((ms_abi)) *entry)(void) = (void*)(base + *(uint32_t*)(optional + 16));
    top = (uint64_t)__builtin_frame_address(0);
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    int result = entry();
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
    fclose(out);
    return 0;
}
"""
_HEAD = Struct("<18Q")
RIP, RSP = 16, 7
KEPT = (3, 4, 5, 6, 12, 13, 14, 15)
"""DWARF's numbers of the registers that a function of Windows restores."""


class Frame(NamedTuple):
    """A frame that is there, and its registers, by DWARF's numbers."""

    pc: int
    registers: tuple[int, ...]  # of a caller: as they were when it called


class Step(NamedTuple):
    """The state before an instruction."""

    registers: tuple[int, ...]  # 17, by DWARF's numbers
    stack: bytes  # from the stack pointer on
    frames: tuple[Frame, ...]  # innermost first; the last is the entry point


@cache
def loader() -> Path:
    """The loader."""
    source = lasting_folder() / "loader.c"
    source.write_text(LOADER)
    run(tool("gcc"), "-O1", "-w", source, "-o", source.with_suffix(""))
    return source.with_suffix("")


def steps_of(image: Path, limit: int = 4000) -> list[Step]:
    """Run an image; return its state before each of the first instructions."""
    recorded = lasting_folder() / f"{image.stem}.steps"
    run(loader(), image, recorded, str(limit))
    content, at = recorded.read_bytes(), 0
    steps: list[Step] = []
    callers: list[tuple[int, Frame]] = []  # where the return address is, and the frame that it leads to
    before: tuple[int, ...] | None = None
    while at < len(content):
        *values, size_bytes = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        stack = content[at : at + size_bytes]
        at += size_bytes
        registers = tuple(values)
        while callers and registers[RSP] > callers[-1][0]:
            callers.pop()
        if before is not None and registers[RSP] == before[RSP] - 8:
            pushed = int.from_bytes(stack[:8], "little")
            if 2 <= pushed - before[RIP] <= 7 and registers[RIP] != pushed:
                callers.append((registers[RSP], Frame(pushed, before)))
        frames = (Frame(registers[RIP], registers), *(frame for _, frame in reversed(callers)))
        steps.append(Step(registers, stack, frames))
        before = registers
    return steps
