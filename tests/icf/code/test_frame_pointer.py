"""Where functions have a frame pointer."""

from __future__ import annotations

import struct

import pytest

from icf.code.frame_pointer import frame_offset, may_have_ended
from icf.code.frame_states import frame_states
from icf.elf.types import Machine

PUSH, MOVE, OTHER_MOVE, ENDBR = b"\x55", b"\x48\x89\xe5", b"\x48\x8b\xec", b"\xf3\x0f\x1e\xfa"
STORE, STORE_AT, SET, SET_ABOVE, LOAD = 0xA9BE7BFD, 0xA9017BFD, 0x910003FD, 0x910043FD, 0xA8C27BFD
SUB, SIGN, RETURN = 0xD10083FF, 0xD503233F, 0xD65F03C0


@pytest.mark.parametrize(
    ("head", "offset"),
    [
        (PUSH + MOVE + b"\xc3", 4),
        (PUSH + OTHER_MOVE, 4),
        (ENDBR + PUSH + MOVE, 8),
        (PUSH + b"\x48\x8b\x07" + MOVE, 7),  # mov (%rdi),%rax between
        (PUSH + b"\x48\x83\xec\x08" + MOVE, None),  # sub $8,%rsp between
        (b"\x48\x83\xec\x08", None),
        (PUSH + b"\x53" + MOVE, None),  # push %rbx between: it may be restored in another order
        (PUSH, None),
        (b"", None),
    ],
)
def test_functions_of_x86_64(head: bytes, offset: int | None) -> None:
    assert frame_offset(Machine.X86_64, head) == offset


@pytest.mark.parametrize(
    ("words", "offset"),
    [
        ((STORE, SET), 8),
        ((SIGN, STORE, SET), 12),
        ((SUB, STORE_AT, SET_ABOVE), 12),
        ((SET,), None),
        ((STORE, RETURN), None),
        ((), None),
    ],
)
def test_functions_of_aarch64(words: tuple[int, ...], offset: int | None) -> None:
    assert frame_offset(Machine.AARCH64, struct.pack(f"<{len(words)}I", *words)) == offset


def test_the_end_of_a_frame() -> None:
    other, jump = 0xD503201F, 0x14000002  # nop; b
    for words, has_ended in (
        ((STORE, SET), False),
        ((STORE, SET, LOAD), True),
        ((STORE, SET, LOAD, other), True),  # moved between it and the end
        ((STORE, SET, LOAD, RETURN), False),  # another way leads to what follows
        ((STORE, SET, LOAD, jump, other), False),
    ):
        assert may_have_ended(struct.pack(f"<{len(words)}I", *words)) is has_ended


CALL, JE, RET, XOR = b"\xe8\0\0\0\1", b"\x74", b"\xc3", b"\x31\xc0"  # xor %eax,%eax
POP = b"\x5d"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (PUSH + MOVE + CALL + POP + RET, True),
        (JE + b"\x0b" + PUSH + MOVE + CALL + POP + RET + XOR + RET, True),  # an early return after the frame's end
        (JE + b"\x03" + XOR + RET + PUSH + MOVE + CALL + POP + RET, True),  # and before its beginning
        (JE + b"\x0b" + PUSH + MOVE + CALL + POP + RET + CALL + RET, False),  # which calls
        (CALL + PUSH + MOVE + CALL + POP + RET, False),
        (PUSH + MOVE + CALL + POP + CALL + RET, False),
        (PUSH + b"\x53" + MOVE + CALL + RET, False),  # push %rbx between: it does not lead to the caller's
        (b"\xff\xe0" + PUSH + MOVE + CALL + POP + RET, False),  # jmp *%rax before: a switch
        (PUSH + MOVE + POP + b"\xff\xe0" + CALL + RET, True),  # after: a tail call; the rest is a landing pad
        (b"\xff\xd0" + PUSH + MOVE + CALL + POP + RET, False),  # call *%rax
        (CALL + RET, False),
        (b"\x06", False),  # no instruction in 64-bit code
    ],
)
def test_functions_that_have_a_frame_wherever_they_call(code: bytes, expected: bool) -> None:
    assert frame_states(memoryview(code)).calls_have_frame is expected


def test_instructions_between_the_end_of_a_frame_and_the_return_have_none() -> None:
    code = PUSH + MOVE + CALL + POP + XOR + RET + XOR + RET
    states = frame_states(memoryview(code))
    assert [offset for offset in (0, 1, 4, 9, 10, 12) if states.at(offset)] == [4, 9]
