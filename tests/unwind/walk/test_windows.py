"""Stacks of Windows programs, unwound before each instruction that they execute: all frames, all registers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from struct import pack

import pytest
from capstone import CS_ARCH_X86, CS_MODE_64, Cs

from icf.dwarf.cfi import rules
from icf.elf.types import Machine
from icf.filebytes import FileBytes
from icf.pe.image import PeImage
from icf.pe.unwindinfo import UnwindTable
from tests.support.minidumps import MadeMinidump
from tests.support.paths import ROOT
from tests.support.pe import BASE, code_image, of_pip
from tests.support.toolchain import lasting_folder
from tests.support.windows import RUNTIME, compile_windows, link_windows
from tests.support.windows_steps import KEPT, RIP, RSP, Step, steps_of
from unwind.dumps.images import DumpImages
from unwind.dumps.minidump import read_minidump
from unwind.dumps.walk import DumpWalker
from unwind.process.image_finder import ImageFinder
from unwind.walk.epilogue import read_epilogue
from unwind.walk.frame import WalkedFrame
from unwind.walk.walker import Steps, Walker
from unwind.walk.windows import WindowsSteps

# A frame pointer with alloca, a frame of 5 KB, saved vector registers, tail calls direct, through a register and
# through memory, a switch that jumps in the middle of a frame, recursion, and by hand: saves that count from a frame
# register while the prologue still runs, a chained function, two epilogues.
FRAMES = (
    (
        RUNTIME
        + r"""
#define KEEP __attribute__((noinline))
volatile int total;
KEEP int leaf(int value) { total += value; return value + 1; }
KEEP int sized(int count) {
    volatile char* room = (volatile char*)__builtin_alloca(count * 16);
    for (int i = 0; i < count; i++) room[i] = (char)leaf(i);
    return room[count - 1];
}
KEEP int large(int value) {
    volatile char room[5000];
    room[value] = (char)leaf(value);
    return room[value] + sized(value);
}
KEEP double vectors(double a, double b) {
    double c = a * b + leaf((int)a), d = a - b * leaf((int)b);
    return c * leaf((int)c) + d * leaf((int)d) + a + b + c + d;
}
typedef int (*Function)(int);
Function volatile chosen = leaf;
Function table[3] = {leaf, sized, large};
KEEP int forwards(int value) { leaf(value); return large(value + 1); }
KEEP int jumps(int value) { Function f = chosen; leaf(value); return f(value + 1); }
KEEP int jumps_through_memory(int value) { leaf(value); return table[value & 1](value); }
KEEP int switches(int value) {
    int sum = leaf(value);
    switch (value) {
    case 0: sum += leaf(1); break;
    case 1: sum += sized(3) * 3; break;
    case 2: sum -= leaf(4); break;
    case 3: sum ^= leaf(5); break;
    case 4: sum += leaf(7) * leaf(6); break;
    default: return sum;
    }
    return leaf(sum) + sum;
}
KEEP int deep(int value) { return value ? deep(value - 1) + leaf(value) * 2 : (int)vectors(2, 3); }
extern "C" int by_hand(int);
__asm__(R"(
    .text
    .globl by_hand
    .def by_hand; .scl 2; .type 32; .endef
    .seh_proc by_hand
by_hand:
    pushq %rbp
    .seh_pushreg %rbp
    pushq %rdi
    .seh_pushreg %rdi
    subq $0x40, %rsp
    .seh_stackalloc 0x40
    leaq 0x20(%rsp), %rbp
    .seh_setframe %rbp, 0x20
    movq %rbx, 0x30(%rsp)
    .seh_savereg %rbx, 0x30
    .seh_endprologue
    movl $7, %ebx
    subq $0x80, %rsp
    testl %ecx, %ecx
    jne 1f
    leaq 0x20(%rsp), %rdi
    movq 0x10(%rbp), %rbx
    leaq 0x20(%rbp), %rsp
    popq %rdi
    popq %rbp
    retq
1:  movl $9, %edi
    callq chained_part
    movq 0x10(%rbp), %rbx
    leaq 0x20(%rbp), %rsp
    popq %rdi
    popq %rbp
    retq
    .seh_endproc
    .seh_proc chained_part
chained_part:
    pushq %rsi
    .seh_pushreg %rsi
    subq $0x30, %rsp
    .seh_stackalloc 0x30
    .seh_endprologue
    movl $1, %esi
    .seh_startchained
    movq %r14, 0x20(%rsp)
    .seh_savereg %r14, 0x20
    .seh_endprologue
    movl $5, %r14d
    movl $3, %ecx
    callq *table(%rip)
    movq 0x20(%rsp), %r14
    jmp 2f
    .seh_endchained
2:  addq $0x30, %rsp
    popq %rsi
    retq
    .seh_endproc
)");
extern "C" int mainCRTStartup() {
    int sum = forwards(3) + jumps(4) + deep(3) + by_hand(0) + by_hand(1) + (int)vectors(4, 5);
    for (int i = 0; i < 6; i++) sum += switches(i);
    return sum + jumps_through_memory(2) + jumps_through_memory(3);
}
"""
    )
    .replace("Function table[3]", 'extern "C" { extern Function table[3]; Function table[3]')
    .replace("large};\n", "large}; }\n")
)


@cache
def frames_of(*flags: str) -> Path:
    name = "frames" + "".join(flags).replace("-", "_")
    return link_windows(lasting_folder(), compile_windows(FRAMES, *flags, name=name), name=name)


def check_walks(path: Path, steps: list[Step]) -> int:
    """Walk from each state; return how many frames there were."""
    count = 0
    with PeImage.open(str(path)) as image:
        problems: list[Exception] = []
        walker = Walker(Steps(Machine.X86_64), WindowsSteps(image, problems.append).row_at)
        for step in steps:
            sp, registers = step.registers[RSP], dict(enumerate(step.registers))
            walked = walker.walk(registers, step.stack, [(sp, sp + len(step.stack), 0)]).frames
            # the entry point returns to the loader, where the walk ends
            assert [hex(each.pc) for each in walked[:-1]] == [hex(each.pc) for each in step.frames], hex(
                step.registers[RIP]
            )
            for found, frame in zip(walked, step.frames, strict=False):
                assert [found.registers[each] for each in KEPT] == [frame.registers[each] for each in KEPT]
            count += len(step.frames)
        assert not problems
    return count


@pytest.mark.parametrize("flags", [("-O1",), ("-O2",), ("-O0",)])
def test_every_instruction_has_its_frames(flags: tuple[str, ...]) -> None:
    path = frames_of(*flags)
    steps = steps_of(path)
    assert max(len(step.frames) for step in steps) >= 5
    assert check_walks(path, steps) > 2000


def test_every_instruction_of_the_shop() -> None:
    path = ROOT / "testdata" / "pe" / "shop.exe"
    assert check_walks(path, steps_of(path)) > 400


@pytest.mark.parametrize("name", ["t64.exe", "w64.exe"])
def test_epilogues_of_msvc_undo_what_its_unwind_codes_do(name: str) -> None:
    """Programs that cannot be run here: at the first instruction of an epilogue both lead to the caller."""
    disassembler, count, problems = Cs(CS_ARCH_X86, CS_MODE_64), 0, list[Exception]()
    with PeImage.open(str(of_pip(name))) as image:
        table, steps = UnwindTable(image), WindowsSteps(image, problems.append)
        for function in table:
            info = table.read(function)
            code = bytes(image.read(image.base + function.begin, function.end - function.begin))
            before = function.begin  # the instruction before, if it is followed by the next one
            for at, _, mnemonic, operands in disassembler.disasm_lite(code, function.begin):
                rest = code[at - function.begin :]
                begins = mnemonic in ("add", "lea") and operands.startswith("rsp,") and before > function.begin
                if begins and read_epilogue(rest, info.frame_register, lambda _: True) is not None:
                    # the instruction before it is of the body, for which the codes count
                    ours, theirs = (steps.row_at(image.base + each) for each in (at, before))
                    assert ours is not None and theirs is not None
                    wanted = [rules.CFA_REGISTER, rules.CFA_OFFSET]
                    for register in KEPT:
                        if ours.columns[rules.FIRST + 2 * register] == rules.OFFSET:
                            wanted += [rules.FIRST + 2 * register, rules.FIRST + 2 * register + 1]
                    assert ours.columns[wanted].tolist() == theirs.columns[wanted].tolist(), hex(at)
                    count += 1
                before = function.begin if mnemonic in ("ret", "jmp") else at
    assert count > 200 and not problems


# A function at 0x1000 that an interrupt enters, and that pushes rbx; the processor has pushed the number of an error.
# At 0x1020 a function that calls, then one without unwind information, that calls nevertheless.
INTERRUPTED, CALLED, LEAF, LEAF_CALLED, STACK = BASE + 0x1024, BASE + 0x1029, BASE + 0x1030, BASE + 0x1039, 0x7F0000
CALL = b"\xe8" + bytes(4)
CODE = (b"\x90" * 0x24 + CALL).ljust(0x34, b"\x90") + CALL + b"\x90" * 7
PDATA = pack("<3I", 0x1000, 0x1010, 0x2000) + pack("<3I", 0x1020, 0x1030, 0x2010)
XDATA = bytes([1, 1, 2, 0, 1, 0x30, 0, 0x1A]).ljust(16, b"\0") + bytes([1, 4, 1, 0, 4, 0x42])


def made_image(folder: Path) -> PeImage:
    path = folder / "app.exe"
    path.write_bytes(code_image(CODE, pdata=PDATA, xdata=XDATA))
    return PeImage.open(str(path))


def walked(image: PeImage, words: list[int], **registers: int) -> list[WalkedFrame]:
    """The frames of a thread of a dump in which the image lies where it was linked for."""
    values = dict.fromkeys(range(17), 7) | {RSP: STACK, RIP: registers["pc"]}
    made = MadeMinidump(platform=2, threads=[(1, values, STACK, pack(f"<{len(words)}Q", *words))])
    made.modules, made.timestamp = [(image.path, b"", BASE, image.headers.image_size_bytes)], 7
    path = Path(image.path).with_suffix(".dmp")
    path.write_bytes(made.build())
    with ImageFinder() as finder:
        dump = read_minidump(FileBytes.open(str(path)))
        return DumpWalker(dump, DumpImages(dump, finder)).walk(dump.threads[0]).frames


def test_a_machine_frame_leads_to_what_was_interrupted(tmp_path: Path) -> None:
    # rbx, number of the error, rip, cs, eflags, rsp, ss; then the frame of the function that was interrupted
    words = [33, 14, INTERRUPTED, 0x33, 0x202, STACK + 0x38, 0x2B, *[0] * 5, LEAF_CALLED]
    inner, interrupted, leaf = walked(made_image(tmp_path), words, pc=BASE + 0x1008)
    assert (inner.pc, inner.is_call, inner.is_signal) == (BASE + 0x1008, False, True)
    assert (interrupted.pc, interrupted.is_call, interrupted.registers[RSP]) == (INTERRUPTED, False, STACK + 0x38)
    assert interrupted.registers[3] == 33
    # a function without unwind information cannot have called: what lies on its stack is no return address
    assert (leaf.pc, leaf.is_call) == (LEAF_CALLED, True)


def test_a_machine_frame_that_leads_back_ends_the_stack(tmp_path: Path) -> None:
    words = [33, 14, BASE + 0x1008, 0x33, 0x202, STACK, 0x2B]
    assert [each.pc for each in walked(made_image(tmp_path), words, pc=BASE + 0x1008)] == [BASE + 0x1008] * 2


def test_the_innermost_frame_may_be_a_leaf(tmp_path: Path) -> None:
    words = [CALLED, *[0] * 5, LEAF_CALLED]
    assert [each.pc for each in walked(made_image(tmp_path), words, pc=LEAF)] == [LEAF, CALLED, LEAF_CALLED]


def test_what_follows_no_call_is_no_return_address(tmp_path: Path) -> None:
    """Code without unwind information has pushed an address."""
    words = [INTERRUPTED, CALLED, *[0] * 5, LEAF_CALLED]
    assert [each.pc for each in walked(made_image(tmp_path), words, pc=LEAF)] == [LEAF]
