"""What a body may branch to, from its bytes."""

from __future__ import annotations

from icf.elf.image import Image
from icf.elf.types import PT_LOAD, SHF_ALLOC, SHF_EXECINSTR, Machine
from linkpass.evidence.body_branches import BodyBranches, find_body_branches
from tests.support.elf import Elf, Part

START = 0x10000


def image_of(code: bytes, machine: int = Machine.X86_64) -> Image:
    text = Part(".text", flags=SHF_ALLOC | SHF_EXECINSTR, vaddr=START, content=code)
    elf = Elf([text], segments=[(PT_LOAD, 5, ".text")], machine=machine)
    return Image("a.out", memoryview(elf.build()))


def read(code: bytes, machine: int = Machine.X86_64) -> BodyBranches:
    found = find_body_branches(image_of(code, machine), START, START + len(code))
    assert found is not None
    return found


def test_calls_and_jumps_that_leave_the_body() -> None:
    code = (
        bytes.fromhex("e8 fb0f0000")  # call
        + bytes.fromhex("90")
        + bytes.fromhex("e9 f51f0000")  # jmp
        + bytes.fromhex("0f84 ef2f0000")  # je
        + bytes.fromhex("eb 60")  # jmp, 8 bits
        + bytes.fromhex("75 80")  # jne, 8 bits, backwards
    )
    found = read(code)
    assert found.calls == [(START + 5, 0x11000)]
    assert found.jumps == [
        (START + 11, 0x12000),
        (START + 17, 0x13000),
        (START + 19, START + 19 + 0x60),
        (START + 21, START + 21 - 0x80),
    ]


def test_jumps_inside_are_left_out_but_not_those_to_the_start() -> None:
    found = read(bytes.fromhex("90 90 eb fd 90") + bytes.fromhex("e8 f6ffffff"))
    assert found.jumps == []
    assert found.calls == [(START + 10, START)]


def test_every_position_is_tried() -> None:
    found = read(bytes.fromhex("48b8 e8 00010000 000000"))  # movabs whose operand looks like a call
    assert found.calls == [(START + 7, START + 0x107)]


def test_calls_through_memory() -> None:
    found = read(bytes.fromhex("ff15 fa0f0000 ff25 f40f0000"))
    assert found.call_slots == {START + 0x1000}
    assert found.jump_slots == {START + 0x1000}


def test_an_operand_that_is_cut_off_is_none() -> None:
    assert read(bytes.fromhex("90 e8 010203")) == BodyBranches()


def test_aarch64() -> None:
    words = (0x94000400, 0x140007FF, 0x54004001, 0x97FFFFFD, 0xD65F03C0)  # bl, b, b.ne, bl to the start, ret
    found = read(b"".join(word.to_bytes(4, "little") for word in words), Machine.AARCH64)
    assert found.calls == [(START + 4, START + 0x1000), (START + 16, START)]
    assert found.jumps == [(START + 8, START + 4 + 0x1FFC), (START + 12, START + 8 + 0x800)]


def test_code_that_the_file_does_not_hold() -> None:
    image = image_of(b"\x90")
    assert find_body_branches(image, START, START + 2) is None
    assert find_body_branches(image, START, START) is None
