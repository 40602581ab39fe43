"""Which slots are proven, and which jumps leave: small functions in assembly, each with what must be found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from icf.code import _aarch64, _flow, _x86_64, flow
from icf.code.indirect import NO_OBJECT, NO_SLOT, find_indirect
from icf.code.operations import ANY_ELEMENT
from icf.elf.image import Image
from icf.folds.functions import find_bodies
from icf.model import STORED_POINTER
from tests.support.builds import uncompiled
from tests.support.toolchain import run, tool

N = NO_SLOT
Expected = tuple[list[int], list[int]]  # slots of the calls, of the jumps that leave

X86_64: dict[str, tuple[str, Expected]] = {
    "plain": ("mov (%rdi), %rax; call *16(%rax); ret", ([2], [])),
    "by_register": ("mov (%rdi), %rax; mov 24(%rax), %rcx; call *%rcx; ret", ([3], [])),
    "slot_0": ("mov (%rdi), %rax; jmp *(%rax)", ([], [0])),
    "elements": (
        "mov 8(%rdi), %rbx; 1: mov (%rbx), %rdi; add $8, %rbx; mov (%rdi), %rax; call *16(%rax);"
        "cmp %rbx, %rbp; jne 1b; ret",
        ([2], []),
    ),
    "elements_of_two": (
        "mov 8(%rdi), %rbx; test %esi, %esi; je 1f; mov 8(%rsi), %rbx; 1: mov (%rbx), %rdi; add $8, %rbx;"
        "mov (%rdi), %rax; call *16(%rax); cmp %rbx, %rbp; jne 1b; ret",
        ([2], []),
    ),
    "elements_of_another": (
        "mov 8(%rdi), %rbx; 1: mov (%rbx), %rdi; add $8, %rbx; mov (%rdi), %rax; call *16(%rax); mov %rbp, %rbx;"
        "cmp %rbx, %rbp; jne 1b; ret",
        ([2], []),
    ),
    "any_pointer_of_argument": ("jmp *(%rdi,%rsi,8)", ([], [N])),
    "element": ("mov (%rdi), %rbx; mov 16(%rbx,%rsi,8), %rdi; mov (%rdi), %rax; call *8(%rax); ret", ([1], [])),
    "result_pointer": ("mov (%rsi), %rax; call *8(%rax); ret", ([1], [])),
    "second_base": ("lea 24(%rbx), %rdi; mov 24(%rbx), %rax; call *(%rax); ret", ([0], [])),
    "other_base": ("lea 16(%rbx), %rdi; mov 24(%rbx), %rax; call *(%rax); ret", ([N], [])),
    "virtual_base": (
        "mov (%rbx), %rax; mov -24(%rax), %rax; lea (%rbx,%rax), %rdi; mov (%rbx,%rax), %rax; call *8(%rax); ret",
        ([1], []),
    ),
    "virtual_base_twice": (
        "mov (%rdi), %rax; add -24(%rax), %rdi; mov (%rdi), %rax; call *8(%rax); ret",
        ([1], []),
    ),
    "global_object": ("lea object(%rip), %rdi; mov object(%rip), %rax; call *32(%rax); ret", ([4], [])),
    "tail": ("sub $8, %rsp; call other; mov (%rbx), %rax; mov %rbx, %rdi; add $8, %rsp; jmp *40(%rax)", ([], [5])),
    "other_object": ("mov (%rdi), %rax; mov %rbx, %rdi; call *16(%rax); ret", ([N], [])),
    "third_argument": ("mov (%rdx), %rax; call *16(%rax); ret", ([N], [])),
    "switch_in_handler": (
        "ret; mov %eax, %edx; cmp $1, %edx; ja 3f; lea 9f(%rip), %rcx; movslq (%rcx,%rdx,4), %rax; add %rcx, %rax;"
        "jmp *%rax; 1: ret; 2: nop; 3: ret;"
        ".pushsection .rodata; .balign 4; 9: .long 1b-9b, 2b-9b; .balign 8; .popsection",
        ([], []),
    ),
    "joined": (
        "push %rbx; mov %rdi, %rbx; call other; mov (%rbx), %rcx; mov %rbx, %rdi; test %eax, %eax; je 1f;"
        "mov 16(%rcx), %rax; jmp 2f; 1: mov 24(%rcx), %rax; 2: pop %rbx; jmp *%rax",
        ([], [2, 3]),
    ),
    "joined_with_pointer": (
        "mov (%rdi), %rcx; test %esi, %esi; je 1f; mov 16(%rcx), %rax; jmp 2f; 1: mov %rdx, %rax; 2: jmp *%rax",
        ([], [N]),
    ),
    "joined_by_three": (
        "mov (%rdi), %rcx; test %esi, %esi; je 1f; cmp $3, %esi; je 3f; mov 16(%rcx), %rax; jmp 2f;"
        "1: mov 24(%rcx), %rax; 2: nop; jmp *%rax; 3: mov 40(%rcx), %rax; jmp 2b",
        ([], [2, 3, 5]),
    ),
    # the jump that leaves the stack moved may be one through a table: code that it leads to is not read
    "joined_beside_table": (
        "mov (%rdi), %rcx; test %esi, %esi; je 1f; js 3f; mov 16(%rcx), %rax; jmp 2f; 1: mov 24(%rcx), %rax;"
        "2: jmp *%rax; 3: push %rcx; jmp *%rdx",
        ([], [N]),
    ),
    "joined_slot_number": (
        "test %esi, %esi; je 1f; mov $16, %ecx; jmp 2f; 1: mov $24, %ecx; 2: mov %rdx, object(%rip); mov 8(%rdi), %rdi;"
        "mov (%rdi), %rax; mov (%rax,%rcx), %rax; mov %rdx, %rsi; jmp *%rax",
        ([], [2, 3]),
    ),
    "joined_object": (
        "test %esi, %esi; je 1f; mov %rdx, %rdi; jmp 2f; 1: mov 8(%rdi), %rdi; 2: mov (%rdi), %rax; jmp *16(%rax)",
        ([], [2]),
    ),
    "joined_unknown_number": (
        "test %esi, %esi; je 1f; mov $16, %ecx; jmp 2f; 1: mov (%rdx), %rcx; 2: mov (%rdi), %rax;"
        "mov (%rax,%rcx), %rax; jmp *%rax",
        ([], [N]),
    ),
    "joined_two_objects": (
        "test %esi, %esi; je 1f; mov %rdx, %rcx; jmp 2f; 1: mov %rdi, %rcx; 2: mov (%rcx), %rax; jmp *16(%rax)",
        ([], [N]),
    ),
    "joined_with_stack": (
        "mov (%rdi), %rcx; test %esi, %esi; je 1f; mov 16(%rcx), %rax; jmp 2f; 1: mov 24(%rcx), %rax; push %rbx;"
        "2: jmp *%rax",
        ([], [N]),
    ),
    "stored_pointer": ("mov 8(%rdi), %rax; jmp *%rax", ([], [STORED_POINTER])),
    "stored_second": ("mov %rdi, %rax; mov %rsi, %rdi; jmp *(%rax)", ([], [STORED_POINTER])),
    "stored_further": ("mov (%rdi), %rax; mov 8(%rax), %rax; mov 8(%rax), %rax; jmp *%rax", ([], [N])),
    "stored_in_frame": ("mov 8(%rsp), %rax; jmp *%rax", ([], [N])),
    "stored_other_register": ("mov (%rax), %rcx; jmp *%rcx", ([], [N])),
    "stored_or_not": ("mov 8(%rdi), %rax; test %esi, %esi; je 1f; mov %rdx, %rax; 1: jmp *%rax", ([], [N])),
    "one_load": ("call *16(%rdi); ret", ([N], [])),
    "three_loads": ("mov (%rdi), %rax; mov (%rax), %rax; call *16(%rax); ret", ([N], [])),
    "not_first_word": ("mov 8(%rdi), %rax; call *16(%rax); ret", ([N], [])),
    "negative": ("mov (%rdi), %rax; call *-8(%rax); ret", ([N], [])),
    "odd": ("mov (%rdi), %rax; call *4(%rax); ret", ([N], [])),
    "half": ("mov (%rdi), %eax; call *16(%rax); ret", ([N], [])),
    "over_call": (
        "mov (%rdi), %rax; mov %rdi, %rbx; mov 16(%rax), %r12; call other; mov %rbx, %rdi; call *%r12; ret",
        ([2], []),
    ),
    "lost_by_call": ("mov (%rdi), %rax; mov %rdi, %rbx; call other; mov %rbx, %rdi; call *16(%rax); ret", ([N], [])),
    "stack": (
        "push %rbp; mov %rsp, %rbp; sub $16, %rsp; mov %rdi, -8(%rbp); mov -8(%rbp), %rax; mov (%rax), %rax;"
        "add $16, %rax; mov (%rax), %rdx; mov -8(%rbp), %rax; movl $1, -12(%rbp);"
        "mov %rax, %rdi; call *%rdx; leave; ret",
        ([2], []),
    ),
    "loaded_twice": ("mov 8(%rbx), %rax; mov (%rax), %rax; mov 8(%rbx), %rdi; call *16(%rax); ret", ([2], [])),
    "stored_between": (
        "mov 8(%rbx), %rax; mov (%rax), %rax; mov %rcx, (%rdx); mov 8(%rbx), %rdi; call *16(%rax); ret",
        ([N], []),
    ),
    "overlaps": (
        "mov 8(%rbx), %rax; mov (%rax), %rax; movb $1, 15(%rbx); mov 8(%rbx), %rdi; call *16(%rax); ret",
        ([N], []),
    ),
    "beside": (
        "mov 8(%rbx), %rax; mov (%rax), %rax; movb $1, 16(%rbx); mov 8(%rbx), %rdi; call *16(%rax); ret",
        ([2], []),
    ),
    "join_same": (
        "mov (%rdi), %rax; test %esi, %esi; je 1f; mov 16(%rax), %rax; jmp 2f; 1: mov 16(%rax), %rax; 2: ret",
        ([], []),
    ),
    "join_before": ("mov (%rdi), %rax; test %esi, %esi; je 1f; inc %rcx; 1: call *16(%rax); ret", ([2], [])),
    "join_differs": (
        "mov (%rdi), %rax; test %esi, %esi; je 1f; mov (%rdx), %rax; 1: call *16(%rax); ret",
        ([N], []),
    ),
    "loop_keeps": (
        "mov (%rdi), %rax; mov %rdi, %rbx; mov 8(%rax), %r12; 1: mov %rbx, %rdi; call *%r12; jmp 1b",
        ([1], []),
    ),
    "loop_changes": (
        "mov (%rdi), %r13; mov %rdi, %rbx; 1: mov %rbx, %rdi; call *16(%r13); mov %rax, %rbx; test %eax, %eax;"
        "jne 1b; ret",
        ([N], []),
    ),
    "part_of_register": ("mov (%rdi), %rax; mov $1, %ah; call *16(%rax); ret", ([N], [])),
    "conditional_move": ("mov (%rdi), %rax; cmovne %rcx, %rdi; call *16(%rax); ret", ([N], [])),
    "exchange": ("mov (%rdi), %rax; xchg %rdi, %rcx; call *16(%rax); ret", ([N], [])),
    "cpuid": ("mov (%rdi), %rsi; cpuid; call *16(%rsi); ret", ([N], [])),
    "vectors": (
        "mov (%rdi), %rax; vpaddd %ymm0, %ymm1, %ymm2; vmovups %zmm7, -64(%rsp); call *16(%rax); ret",
        ([2], []),
    ),
    "bmi": ("mov (%rdi), %rax; mulx %rcx, %rdi, %rdx; call *16(%rax); ret", ([N], [])),
    "prefixes": ("endbr64; mov (%rdi), %rax; notrack jmp *16(%rax)", ([], [2])),
    "bound": ("mov (%rdi), %rax; bnd call *16(%rax); bnd ret", ([2], [])),
    "by_pointer": ("mov (%rdi), %rax; jmp *%rax", ([], [STORED_POINTER])),
    "fixed": ("mov pointer(%rip), %rax; jmp *%rax", ([], [N])),
    "switch": (
        "cmp $2, %edi; ja 3f; push %rbx; mov %edi, %edi; lea 9f(%rip), %rdx; movslq (%rdx,%rdi,4), %rax;"
        "add %rdx, %rax; notrack jmp *%rax; 1: inc %eax; 2: mov %rsi, %rdi; mov (%rdi), %rax; pop %rbx;"
        "jmp *8(%rax); 3: ret;"
        ".pushsection .rodata; .balign 4; 9: .long 1b-9b, 2b-9b, 2b-9b; .popsection",
        ([], [1]),
    ),
    "switch_into_the_middle": (
        "mov %edi, %edi; mov (%rsi), %rax; lea 9f(%rip), %rdx; movslq (%rdx,%rdi,4), %rcx; add %rdx, %rcx; jmp *%rcx;"
        "1: mov (%rsi), %rax; mov %rsi, %rdi; 2: call *8(%rax); ret;"
        ".pushsection .rodata; .balign 4; 9: .long 1b-9b, 2b-9b; .popsection",
        ([N], []),  # the same on both ways, loaded twice
    ),
    "switch_loses": (
        "mov %edi, %edi; lea 9f(%rip), %rdx; movslq (%rdx,%rdi,4), %rcx; add %rdx, %rcx; jmp *%rcx;"
        "1: mov (%rsi), %rax; mov %rsi, %rdi; 2: call *8(%rax); ret;"
        ".pushsection .rodata; .balign 4; 9: .long 1b-9b, 2b-9b; .popsection",
        ([N], []),
    ),
    "switch_in_loop": (
        "push %rbx; push %r12; push %r13; lea 9f(%rip), %r12; mov %rdi, %rbx; 1: movslq (%r12,%rax,4), %rcx;"
        "add %r12, %rcx; jmp *%rcx; 2: call other; jmp 1b; 3: mov (%rbx), %rax; mov %rbx, %rdi; pop %r13; pop %r12;"
        "pop %rbx; jmp *24(%rax); .pushsection .rodata; .balign 4; 9: .long 2b-9b, 3b-9b; .popsection",
        ([], [3]),
    ),
    "switch_of_addresses": (
        "jmp *9f(,%rdi,8); 1: ret; 2: mov (%rsi), %rax; mov %rsi, %rdi; call *(%rax); ret;"
        ".pushsection .rodata; .balign 8; 9: .quad 1b, 2b; .popsection",
        ([0], []),
    ),
    "unknown_inside": ("push %rbx; mov (%rdi), %rax; call *16(%rax); jmp *%rax", ([N], [])),
    "table_of_functions": (
        "jmp *9f(,%rsi,8); .pushsection .rodata; .balign 8; 9: .quad other, plain; .popsection",
        ([], [N]),
    ),
    "retpoline": ("call 2f; 1: pause; lfence; jmp 1b; 2: mov %rax, (%rsp); ret", ([], [])),
    "devirtualized": (
        "mov (%rdi), %rax; mov 16(%rax), %rax; lea other(%rip), %rdx; cmp %rdx, %rax; jne 1f; ret; 1: jmp *%rax",
        ([], [2]),
    ),
    "lock_is_skipped": ("mov (%rdi), %rax; je 1f+1; 1: lock cmpxchg %rcx, (%rdx); call *16(%rax); ret", ([N], [])),
    "no_instruction": ("mov (%rdi), %rax; call *16(%rax); .byte 6; jmp *%rax; ret", ([N], [N])),
    "endless": ("mov (%rdi), %rax; jmp 2f; 1: call other; 2: call *16(%rax); ret", ([N], [])),
    "landing_pad": ("mov (%rdi), %rax; call *16(%rax); ret; call *16(%rax); ret", ([2, N], [])),
    "back": ("mov (%rdi), %rax; test %esi, %esi; jne back_part; jmp 1f; back_in: 1: call *16(%rax); ret", ([N], [])),
    "back_part": ("mov (%rcx), %rax; jmp back_in", ([], [])),
    "stored_part": ("mov (%rdi), %rax; jmp *%rax", ([], [N])),
    "other": ("ret", ([], [])),
}  # fmt: skip

AARCH64: dict[str, tuple[str, Expected]] = {
    "elements": (
        "ldr x19, [x0, #8]; 1: ldr x0, [x19], #8; ldr x8, [x0]; ldr x8, [x8, #16]; blr x8; cmp x19, x20; b.ne 1b; ret",
        ([2], []),
    ),
    "element": ("ldr x9, [x0]; ldr x0, [x9, x1, lsl #3]; ldr x8, [x0]; ldr x8, [x8, #8]; blr x8; ret", ([1], [])),
    "plain": ("ldr x8, [x0]; ldr x8, [x8, #16]; blr x8; ret", ([2], [])),
    "tail": ("ldr x1, [x0]; ldr x1, [x1]; br x1", ([], [0])),
    "authenticated": ("ldr x8, [x0]; ldr x8, [x8, #16]; blraa x8, x9; ldr x9, [x19]; ldr x9, [x9, #8]; mov x0, x19; "
                      "braaz x9", ([2], [1])),
    "bti": ("bti c; stp x29, x30, [sp, #-32]!; mov x29, sp; str x19, [sp, #16]; mov x19, x0; ldr x8, [x0]; "
            "ldr x8, [x8, #8]; blr x8; ldr x1, [x19]; mov x0, x19; ldr x1, [x1, #40]; ldr x19, [sp, #16]; "
            "ldp x29, x30, [sp], #32; br x1", ([1], [5])),
    "signed_return": ("paciasp; stp x29, x30, [sp, #-16]!; ldr x8, [x0]; ldr x8, [x8, #8]; blr x8; "
                      "ldp x29, x30, [sp], #16; autiasp; ret", ([1], [])),
    "other_object": ("ldr x8, [x0]; mov x0, x1; ldr x8, [x8]; blr x8; ret", ([N], [])),
    "second_base": ("add x0, x19, #24; ldr x8, [x19, #24]; ldr x8, [x8]; blr x8; ret", ([0], [])),
    "before": ("ldr x8, [x0, #8]!; ldr x8, [x8, #8]; blr x8; ret", ([1], [])),
    "after": ("ldr x8, [x0], #8; ldr x8, [x8, #8]; blr x8; ret", ([N], [])),
    "virtual_base": ("ldr x1, [x0]; ldur x1, [x1, #-24]; add x0, x0, x1; ldr x1, [x0]; ldr x1, [x1, #16]; blr x1; ret",
                     ([2], [])),
    "pair": ("ldp x8, x9, [x0]; ldr x8, [x8, #8]; blr x8; ret", ([1], [])),
    "pair_of_slots": ("ldr x8, [x0]; ldp x9, x10, [x8, #16]; blr x10; ret", ([3], [])),
    "half": ("ldr x8, [x0]; ldr w8, [x8, #16]; blr x8; ret", ([N], [])),
    "cleared": ("ldr x8, [x0]; mov x0, xzr; ldr x8, [x8, #16]; blr x8; ret", ([N], [])),
    "selected": ("ldr x8, [x0]; csel x0, x1, x2, eq; ldr x8, [x8, #16]; blr x8; ret", ([N], [])),
    "atomic": ("ldr x8, [x0]; ldaxr x0, [x1]; ldr x8, [x8, #16]; blr x8; ret", ([N], [])),
    "spilled": ("sub sp, sp, #32; str x0, [sp, #8]; ldr x8, [sp, #8]; ldr x8, [x8]; ldr x8, [x8, #8]; "
                "str w1, [sp, #4]; ldr x0, [sp, #8]; blr x8; add sp, sp, #32; ret", ([1], [])),
    "by_pointer": ("ldr x8, [x0]; br x8", ([], [STORED_POINTER])),
    "fixed": ("adrp x8, pointer; ldr x8, [x8, :lo12:pointer]; br x8", ([], [N])),
    "switch_bytes": (
        "adrp x2, 9f; add x2, x2, :lo12:9f; ldrb w1, [x2, w0, uxtw]; adr x3, 1f; add x1, x3, w1, sxtb #2; br x1;"
        "1: ldr x8, [x4]; mov x0, x4; 2: ldr x8, [x8]; br x8; 3: ret;"
        ".pushsection .rodata; 9: .byte 0, (3b-1b)/4; .balign 8; .popsection",
        ([], [0]),
    ),
    "switch_words": (
        "adrp x8, 9f; add x8, x8, :lo12:9f; ldrsw x10, [x8, x0, lsl #2]; add x8, x8, x10; br x8;"
        "1: ldr x8, [x4]; mov x0, x4; 2: ldr x8, [x8]; br x8;"
        ".pushsection .rodata; .balign 4; 9: .word 1b-9b, 2b-9b; .popsection",
        ([], [N]),
    ),
    "switch_halves": (
        "adrp x9, 9f; add x9, x9, :lo12:9f; adr x10, 1f; ldrh w11, [x9, x8, lsl #1]; add x10, x10, x11, lsl #2; br x10;"
        "1: ret; 2: ldr x8, [x4]; mov x0, x4; ldr x8, [x8]; blr x8; ret;"
        ".pushsection .rodata; .balign 2; 9: .hword 0, (2b-1b)/4; .balign 8; .popsection",
        ([0], []),
    ),
}  # fmt: skip


@pytest.fixture(params=["compiled", "plain"])
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each build of the kernels in turn."""
    if request.param == "plain":
        monkeypatch.setattr(flow, "follow", uncompiled(_flow).follow)
        monkeypatch.setattr(_x86_64, "decode", uncompiled(_x86_64).decode)
        monkeypatch.setattr(_aarch64, "decode", uncompiled(_aarch64).decode)
    return str(request.param)


def program(arch: str, functions: Mapping[str, tuple[str, object]], directory: Path) -> Path:
    text = [".text"]
    for name, (body, _) in functions.items():
        lines = "\n".join(body.split(";"))
        text.append(f".globl {name}\n.type {name}, @function\n.balign 16\n{name}:\n{lines}\n.size {name}, . - {name}")
    text.append('.data\n.balign 8\nobject: .quad 0\npointer: .quad plain\n.section .note.GNU-stack, "", @progbits\n')
    source = directory / "program.s"
    source.write_text("\n".join(text))
    compiler, march = {"x86_64": ("gcc", "-m64"), "aarch64": ("aarch64-linux-gnu-gcc", "-march=armv8.5-a")}[arch]
    out = directory / "program"
    run(tool(compiler), march, "-nostdlib", "-static", "-no-pie", "-Wl,-e,plain", source, "-o", out)
    return out


# objects of calls: how many loads lead to each from the first argument, and the offsets
OBJECTS = {
    "plain": (0, 0, 0, 0, 0),
    "elements": (2, 8, ANY_ELEMENT, 0, 0),
    "elements_of_two": None,
    "elements_of_another": None,
    "element": (2, 0, ANY_ELEMENT, 0, 0),
}


@pytest.mark.parametrize(("arch", "functions"), [("x86_64", X86_64), ("aarch64", AARCH64)])
def test_slots_and_jumps(arch: str, functions: dict[str, tuple[str, Expected]], build: str, tmp_path: Path) -> None:
    with Image.open(program(arch, functions, tmp_path)) as image:
        bodies = find_bodies(image, None)
        start_of = {image.symbols.name(row): int(image.symbols.value[row]) for row in bodies.symbol_rows.tolist()}
        parts = np.array([value for name, value in start_of.items() if name.endswith("_part")], np.uint64)
        found = find_indirect(image, bodies.start, bodies.end, parts)
        calls, jumps = bodies.start[bodies.at(found.call_end - np.uint64(1))], bodies.start[bodies.at(found.jump)]
        slots = {
            name: (found.call_slot[calls == start].tolist(), found.jump_slot[jumps == start].tolist())
            for name, start in start_of.items()
            if name in functions
        }
        first_argument = {"x86_64": 7, "aarch64": 0}[arch]
        for name, path in OBJECTS.items():
            expected = NO_OBJECT if path is None else (first_argument, *path)
            assert name not in functions or (found.call_object[calls == start_of[name]] == expected).all(), name
        fixed = found.jump_place[jumps == start_of["fixed"]].tolist()
        variables = [row for row in range(image.symbols.count) if image.symbols.name(row) == "pointer"]
        assert fixed == [int(image.symbols.value[row]) for row in variables]
    assert slots == {name: expected for name, (_, expected) in functions.items()}


# each call with a known target: the function or the place in memory, and how many bytes before the call's end its
# address is formed or loaded
KNOWN_X86_64: dict[str, tuple[str, list[tuple[str, int]]]] = {
    "plain": ("nop; ret", []),
    "other": ("nop; ret", []),
    "formed": ("lea plain(%rip), %rax; call *%rax; ret", [("plain", 9)]),
    "number": ("mov $other, %rax; call *%rax; ret", [("other", 9)]),
    "short_number": ("mov $other, %ebx; call *%rbx; ret", [("other", 7)]),
    "loaded": ("mov pointer(%rip), %rax; call *%rax; ret", [("pointer", 9)]),
    "from_memory": ("call *pointer(%rip); ret", [("pointer", 6)]),
    "copied": ("lea plain(%rip), %rbx; mov %rbx, %rcx; call *%rcx; ret", [("plain", 12)]),
    "over_calls": ("lea plain(%rip), %rbx; call *%rbx; call *%rbx; ret", [("plain", 9), ("plain", 11)]),
    "lost_in_call": ("lea plain(%rip), %rsi; call *%rsi; call *%rsi; ret", [("plain", 9)]),
    "in_loop": ("lea plain(%rip), %rbx; 1: call *%rbx; dec %ebp; jne 1b; ret", [("plain", 9)]),
    "in_switch": (
        "lea plain(%rip), %rbx; cmp $1, %edi; ja 3f; jmp *8f(,%rdi,8); 1: call *%rbx; 2: call *%rbx; 3: ret;"
        ".pushsection .rodata; .balign 8; 8: .quad 1b, 2b; .popsection",
        [("plain", 21), ("plain", 23)],
    ),
    "changes_in_loop": ("lea plain(%rip), %rbx; 1: call *%rbx; lea other(%rip), %rbx; dec %ebp; jne 1b; ret", []),
    "changes_on_one_path": (
        "lea plain(%rip), %rbx; test %edi, %edi; je 1f; mov %rsi, %rbx; 1: call *%rbx; ret",
        [],
    ),
    "of_two": ("lea plain(%rip), %rbx; lea other(%rip), %rax; cmove %rax, %rbx; call *%rbx; ret", []),
    "formed_twice": (  # two functions may have that address
        "test %edi, %edi; je 1f; lea plain(%rip), %rbx; jmp 2f; 1: lea plain(%rip), %rbx; 2: call *%rbx; ret",
        [],
    ),
    "spilled": ("lea plain(%rip), %rbx; mov %rbx, 8(%rsp); call other; mov 8(%rsp), %rax; call *%rax; ret", []),
    "half": ("mov $plain, %rbx; mov $16, %bl; call *%rbx; ret", []),
    "inside": ("lea plain+1(%rip), %rax; call *%rax; ret", []),
    "argument": ("call *%rdi; ret", []),
    "in_part": ("lea plain(%rip), %rax; call *%rax; ret", []),
    "into_part": ("lea plain(%rip), %rax; nop; call *%rax; jmp in_part", [("plain", 10)]),
    "entered": ("lea plain(%rip), %rbx; call other; landing: call *%rbx; ret", []),
    "left_anywhere": ("lea plain(%rip), %rbx; call *%rbx; push %rax; jmp *%rdx", []),
}
KNOWN_AARCH64: dict[str, tuple[str, list[tuple[str, int]]]] = {
    "plain": ("nop; ret", []),
    "other": ("nop; ret", []),
    "formed": ("adrp x8, other; add x8, x8, :lo12:other; blr x8; ret", [("other", 8)]),
    "near": ("adr x8, plain; blr x8; ret", [("plain", 8)]),
    "loaded": ("adrp x8, pointer; ldr x8, [x8, :lo12:pointer]; blr x8; ret", [("pointer", 8)]),
    "over_calls": ("adr x20, plain; blr x20; blr x20; ret", [("plain", 8), ("plain", 12)]),
    "lost_in_call": ("adr x8, plain; blr x8; blr x8; ret", [("plain", 8)]),
    "changes_in_loop": ("adr x20, plain; 1: blr x20; adr x20, other; cbnz x21, 1b; ret", []),
    "of_two": ("adr x8, plain; adr x9, other; csel x8, x8, x9, eq; blr x8; ret", []),
    "entered": ("adr x20, plain; bl other; landing: blr x20; ret", []),
    "in_part": ("adr x8, plain; blr x8; ret", []),
}


@pytest.mark.parametrize(("arch", "functions"), [("x86_64", KNOWN_X86_64), ("aarch64", KNOWN_AARCH64)])
def test_known_targets(
    arch: str, functions: dict[str, tuple[str, list[tuple[str, int]]]], build: str, tmp_path: Path
) -> None:
    with Image.open(program(arch, functions, tmp_path)) as image:
        bodies, symbols = find_bodies(image, None), image.symbols
        value_of = {symbols.name(row): int(symbols.value[row]) for row in range(symbols.count)}
        name_of = {value: name for name, value in value_of.items() if name in (*functions, "pointer")}
        pads = np.array([value_of["landing"]], np.int64)
        parts = np.array([value_of["in_part"]], np.uint64)
        none = np.empty(0, np.uint64)
        found = find_indirect(image, bodies.start, bodies.end, parts, lambda starts: (pads, none))
        owner = [name_of[start] for start in bodies.starts_at(found.known_end - np.uint64(1)).tolist()]
        called = (found.known_target + found.known_place).tolist()  # one of them is 0
        distances = (found.known_end - found.known_source).tolist()
        known: dict[str, list[tuple[str, int]]] = {name: [] for name in functions}
        for name, vaddr, distance in zip(owner, called, distances, strict=True):
            known[name].append((name_of[vaddr], distance))
        assert known == {name: expected for name, (_, expected) in functions.items()}
        # nothing is known of a function into which exceptions may lead anywhere, nor without their landing pads
        unread = np.array([value_of["formed"]], np.uint64)
        some = find_indirect(image, bodies.start, bodies.end, parts, lambda starts: (pads, unread))
        assert len(some.known_end) == len(found.known_end) - 1
        some = find_indirect(image, bodies.start, bodies.end, parts, lambda starts: (pads, parts))
        assert not len(some.known_end)
        assert not len(find_indirect(image, bodies.start, bodies.end, parts).known_end)
