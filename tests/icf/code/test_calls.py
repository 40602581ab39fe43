"""The call before a return address and the jump at an address: byte by byte, and against capstone."""

from __future__ import annotations

import numpy as np
import pytest

from icf.code.calls import CallInsn, CallKind, call_ending_at, call_size, direct_targets
from icf.code.jumps import jump_at
from icf.elf.image import Image
from icf.elf.types import PT_LOAD, SHF_ALLOC, SHF_EXECINSTR, SHT_PROGBITS, Machine
from tests.support.code_oracle import instructions, static_program
from tests.support.dwarf_programs import build
from tests.support.elf import Elf, Part, Sym, symbol_parts

BASE = 0x401000
INDIRECT = CallInsn(CallKind.INDIRECT)
NONE = CallInsn(CallKind.NONE)


def code(text: bytes, machine: int = Machine.X86_64, functions: tuple[int, ...] = ()) -> Image:
    """An image with `text` at BASE, executable, and function symbols at these addresses."""
    part = Part(".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, text, vaddr=BASE)
    symbols = symbol_parts([Sym(f"f{vaddr:x}", 2, 1, 1, vaddr, 1) for vaddr in functions], 2) if functions else []
    return Image("a.out", memoryview(Elf([part, *symbols], [(PT_LOAD, 5, ".text")], machine=machine).build()))


def direct(target: int) -> CallInsn:
    return CallInsn(CallKind.DIRECT, target=target % 2**64)


X86_64_CALLS = [
    ("e8 00000000", direct(BASE + 0x20)),
    ("e8 fbffffff", direct(BASE + 0x1B)),
    ("67 e8 00010000", direct(BASE + 0x120)),  # what a linker makes of a call through the GOT
    ("ff d0", INDIRECT), ("ff d7", INDIRECT), ("41 ff d4", INDIRECT), ("3e ff d0", INDIRECT),  # registers
    ("ff 10", INDIRECT), ("ff 50 08", INDIRECT), ("ff 90 00010000", INDIRECT),  # through memory
    ("ff 14 24", INDIRECT), ("ff 54 24 08", INDIRECT), ("ff 94 24 00010000", INDIRECT), ("ff 14 c5 00004000", INDIRECT),
    ("41 ff 55 00", INDIRECT), ("41 ff 14 c4", INDIRECT), ("64 ff 10", INDIRECT),
    ("ff 15 00100000", CallInsn(CallKind.INDIRECT, slot=BASE + 0x1020)),
    ("ff 15 00f0ffff", CallInsn(CallKind.INDIRECT, slot=BASE + 0x20 - 0x1000)),
    ("ff e0", NONE), ("ff 20", NONE), ("ff 25 00100000", NONE),  # jumps
    ("ff c8", NONE), ("ff 74 24 08", NONE), ("ff 18", NONE), ("90 90 90 90 90 90 90", NONE), ("e9 00000000", NONE),
]  # fmt: skip


@pytest.mark.parametrize(("insn", "expected"), X86_64_CALLS)
def test_x86_64_calls(insn: str, expected: CallInsn) -> None:
    data = bytes.fromhex(insn)
    image = code(b"\x90" * (0x20 - len(data)) + data + b"\x90" * 8)
    assert call_ending_at(image, BASE + 0x20) == expected


@pytest.mark.parametrize(("insn", "expected"), X86_64_CALLS)
def test_the_size_of_a_call_from_its_start(insn: str, expected: CallInsn) -> None:
    data = bytes.fromhex(insn)
    assert call_size(Machine.X86_64, data + b"\x90" * 8) == (0 if expected == NONE else len(data))
    assert all(call_size(Machine.X86_64, data[:end]) == 0 for end in range(len(data)))


def test_bytes_that_read_as_two_calls() -> None:
    """cmp, je and an indirect call end in what may be a direct one; it is if that goes to a function."""
    data = bytes.fromhex("4c39e8 74ce ffd0")  # cmp rax, r13; je; call rax
    text = b"\x90" * 0x19 + data + b"\x90" * 0x60
    assert call_ending_at(code(text), BASE + 0x20) == INDIRECT
    data = bytes.fromhex("89e8 41ff5500")  # mov eax, ebp; call [r13], or a direct call 5.6 MB ahead
    text = b"\x90" * 0x1A + data + bytes(0x600000)
    ahead = BASE + 0x20 + 0x55FF41
    assert call_ending_at(code(text, functions=(BASE,)), BASE + 0x20) == INDIRECT
    assert call_ending_at(code(text, functions=(ahead,)), BASE + 0x20) == direct(ahead)
    assert call_ending_at(code(text), BASE + 0x20) == direct(ahead)  # nothing is known of functions


def test_near_the_edges_of_the_code() -> None:
    """A call may be the first or last instruction; what is not in the file is no call."""
    assert call_ending_at(code(b"\xff\xd0"), BASE + 2) == INDIRECT
    assert call_ending_at(code(b"\xe8\0\0\0\0"), BASE + 5) == direct(BASE + 5)
    assert call_ending_at(code(b"\x90\xe8\0\0\0\0\x90"), BASE + 6) == direct(BASE + 6)
    text = b"\xe8" + bytes(5)
    for vaddr in (0, 1, 4, 7, BASE, BASE + 1, BASE + 7, BASE + 8, BASE + 11, 2**63, 2**64 - 1, 2**64):
        assert call_ending_at(code(text), vaddr) == NONE
        assert jump_at(code(text), vaddr) is None


def test_targets_wrap() -> None:
    image = code(b"\x90\x90\xe8" + (-0x402000).to_bytes(4, "little", signed=True))
    assert call_ending_at(image, BASE + 7) == direct(BASE + 7 - 0x402000)
    assert direct_targets(image, np.array([BASE + 7], np.uint64)).tolist() == [(BASE + 7 - 0x402000) % 2**64]


def test_many_at_once_leave_out_what_may_be_read_in_two_ways() -> None:
    text = b"\x90" * 2 + b"\xe8\0\0\0\0" + bytes.fromhex("9089e8 41ff5500 ffd0")
    ends = np.array([0, 1, BASE, BASE + 6, BASE + 7, BASE + 14, BASE + 16, BASE + 17, 2**64 - 1], np.uint64)
    assert direct_targets(code(text), ends).tolist() == [0, 0, 0, 0, BASE + 7, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (0x94000000, direct(BASE + 4)), (0x94000001, direct(BASE + 8)), (0x97FFFFFF, direct(BASE)),
        (0x96000000, direct(BASE + 4 - 2**27)), (0x95FFFFFF, direct(BASE + 2**27)),
        (0xD63F0000, INDIRECT), (0xD63F03C0, INDIRECT),  # blr
        (0xD63F081F, INDIRECT), (0xD63F0C1F, INDIRECT), (0xD73F0820, INDIRECT), (0xD73F0FE3, INDIRECT),  # blraaz, blraa
        (0xD61F0000, NONE), (0xD65F03C0, NONE), (0x14000000, NONE), (0xD503201F, NONE),
    ],
)  # fmt: skip
def test_aarch64_calls(word: int, expected: CallInsn) -> None:
    image = code(b"\x1f\x20\x03\xd5" + word.to_bytes(4, "little"), Machine.AARCH64)
    assert call_ending_at(image, BASE + 8) == expected
    assert call_ending_at(image, BASE + 7) == NONE or expected != NONE


@pytest.mark.parametrize(
    ("insn", "target"),
    [
        ("e9 00000000", 5), ("e9 fbffffff", 0), ("0f84 00010000", 0x106), ("0f8f faffffff", 0), ("eb 00", 2),
        ("eb fe", 0), ("75 80", -0x7E), ("7f 7f", 0x81), ("ff e0", None), ("e8 00000000", None), ("0f 05", None),
        ("e9 000000", None), ("eb", None), ("0f84 000000", None), ("", None),
    ],
)  # fmt: skip
def test_x86_64_jumps(insn: str, target: int | None) -> None:
    data = bytes.fromhex(insn)
    assert jump_at(code(data or b"\x90"), BASE) == (None if target is None else BASE + target)


@pytest.mark.parametrize(
    ("word", "target"),
    [
        (0x14000000, 0), (0x17FFFFFF, -4), (0x15FFFFFF, 2**27 - 4), (0x16000000, -(2**27)),
        (0x54000000, 0), (0x54FFFFE1, -4), (0x547FFFE1, 2**20 - 4), (0x54800001, -(2**20)),
        (0x94000000, None), (0x54000010, None), (0x34000000, None), (0xD61F0000, None),
    ],
)  # fmt: skip
def test_aarch64_jumps(word: int, target: int | None) -> None:
    image = code(word.to_bytes(4, "little"), Machine.AARCH64)
    assert jump_at(image, BASE) == (None if target is None else (BASE + target) % 2**64)
    assert jump_at(image, BASE + 1) is None


def check(image: Image) -> int:
    """Each call and jump that capstone sees is read in the same way; gives the number of calls."""
    count = 0
    calls: list[tuple[int, int]] = []
    for insn in instructions(image):
        if not insn.is_call:
            if insn.is_direct:
                assert jump_at(image, insn.start) == insn.target
            continue
        expected = direct(insn.target) if insn.target is not None else CallInsn(CallKind.INDIRECT, slot=insn.slot)
        assert call_ending_at(image, insn.end) == expected
        calls.append((insn.end, insn.target or 0))
        count += 1
    ends, targets = np.array(calls, np.uint64).reshape(-1, 2).T
    found = direct_targets(image, ends)
    assert ((found == targets) | (found == 0)).all()  # together as one by one
    assert (found != 0).sum() > 0.9 * (targets != 0).sum()
    return count


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("linker", ["bfd", "lld"])
def test_small_programs(compiler: str, linker: str) -> None:
    with Image.open(build(compiler, ("-O2", "-gdwarf-5"), linker)) as image:
        assert check(image) > 50


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_static_programs(arch: str) -> None:
    with Image.open(static_program(arch)) as image:
        assert check(image) > 3000
