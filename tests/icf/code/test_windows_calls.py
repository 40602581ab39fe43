"""The vtable slots of calls and jumps in PE images: the object is in rcx, and functions keep rsi and rdi, too."""

from __future__ import annotations

import numpy as np

from icf.code.indirect import NO_SLOT, find_indirect
from icf.debugfiles.opening import open_any
from icf.pdb.functions import find_bodies, read_procedures
from icf.pe.classes import code_ranges
from icf.pe.image import PeImage
from tests.support.toolchain import lasting_folder
from tests.support.windows import compile_windows, link_windows

N = NO_SLOT
FUNCTIONS: dict[str, tuple[str, tuple[list[int], list[int]]]] = {
    "plain": ("mov (%rcx), %rax; call *16(%rax); ret", ([2], [])),
    "tail": ("mov (%rcx), %rax; jmp *24(%rax)", ([], [3])),
    "of_linux": ("mov (%rdi), %rax; call *16(%rax); ret", ([N], [])),
    "second_argument": ("mov (%rdx), %rax; call *8(%rax); ret", ([N], [])),
    "kept": ("mov %rcx, %rsi; call plain; mov (%rsi), %rax; mov %rsi, %rcx; call *8(%rax); ret", ([1], [])),
    "kept_in_rdi": ("mov (%rcx), %rdi; mov %rcx, %rbx; call plain; mov %rbx, %rcx; call *(%rdi); ret", ([0], [])),
    "lost": ("mov (%rcx), %rdx; mov %rcx, %rbx; call plain; mov %rbx, %rcx; call *(%rdx); ret", ([N], [])),
    "switch_of_microsoft": (
        "cmp $1, %edx; ja 3f; movslq %edx, %rax; lea __ImageBase(%rip), %r8; mov 9f@IMGREL(%r8,%rax,4), %r9d;"
        "add %r8, %r9; jmp *%r9; 1: mov (%rcx), %rax; call *8(%rax); ret; 2: mov (%rcx), %rax; call *16(%rax); 3: ret;"
        '.section .rdata, "dr"; .balign 4; 9: .long 1b@IMGREL, 2b@IMGREL; .text',
        ([1, 2], []),
    ),
    "array_of_numbers": ("mov (%r8,%rdx,4), %eax; jmp *%rax", ([], [N])),
    "ends_program": ("ret", ([], [])),
}


def test_slots_and_jumps_of_windows() -> None:
    text = ["object = 0"]
    for name, (instructions, _) in FUNCTIONS.items():
        lines = "\n".join(instructions.split(";"))
        text.append(f".def {name}; .scl 2; .type 32; .endef\n.globl {name}\n.p2align 4, 0xcc\n{name}:\n{lines}")
    compiled = compile_windows("\n".join(text) + "\n", "-Wno-unused-command-line-argument", suffix=".s")
    path = link_windows(lasting_folder(), compiled, "/entry:ends_program", *(f"/include:{name}" for name in FUNCTIONS))
    image = open_any(str(path), None, ())
    assert isinstance(image, PeImage) and image.pdb is not None
    with image:
        bodies = find_bodies(image.pdb, read_procedures(image.pdb), code_ranges(image))  # no compiler described them
        starts, ends = (
            np.array([getattr(b, side) + image.base for b in bodies], np.uint64) for side in ("start", "end")
        )
        found = find_indirect(image, starts, ends, np.empty(0, np.uint64))
    slots = {}
    for body, start, end in zip(bodies, starts, ends, strict=True):
        calls = (found.call_end > start) & (found.call_end <= end)
        jumps = (found.jump >= start) & (found.jump < end)
        slots[body.members[0].name] = found.call_slot[calls].tolist(), found.jump_slot[jumps].tolist()
    assert slots == {name: expected for name, (_, expected) in FUNCTIONS.items()}
