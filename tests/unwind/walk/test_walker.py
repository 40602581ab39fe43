"""Stacks from registers and memory: made ones, frame by frame."""

from __future__ import annotations

import random
from collections.abc import Callable
from struct import pack

import numpy as np
import pytest

from icf.dwarf.cfi.frames import CallFrames, Row
from icf.elf.types import Machine
from tests.support.builds import uncompiled
from tests.support.call_frames import X86_64_START, cie, fde, frames_of, image_of
from unwind.walk import _walk, columns, walker
from unwind.walk.walker import FRAME_LIMIT, End, Steps, Walk, Walker

RBX, RBP, RSP, RIP = 3, 6, 7, 16
STACK = 0x7FFF0000
MASK = (1 << 64) - 1
PUSHED_RBP = b"\x0e\x10\x86\x02\x0d\x06"  # cfa = rbp + 16; rbp at cfa - 16


@pytest.fixture(params=["installed", "pure"])
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test with each build of the kernel."""
    if request.param == "pure":
        monkeypatch.setattr(walker, "_walk", uncompiled(_walk))


pytestmark = pytest.mark.usefixtures("build")


def walked(
    row_at: Callable[[int], Row | None],
    registers: dict[int, int],
    words: list[int],
    machine: Machine = Machine.X86_64,
    start: int = STACK,
) -> Walk:
    memory = pack(f"<{len(words)}Q", *words)
    return Walker(Steps(machine), row_at).walk(registers, memory, [(start, start + len(memory), 0)])


def value_of(expression: bytes, registers: dict[int, int] | None = None, words: list[int] | None = None) -> int | None:
    """Return the caller's rbx where its rule is this expression."""
    frames = frames_of(b"\x16\x03" + bytes([len(expression)]) + expression)
    known = {RSP: STACK, RIP: 0x4000, **(registers or {})}
    found = walked(frames.row_at, known, words or [0x9000, 0, 0])
    return found.frames[1].registers[RBX]


def test_a_chain_of_calls() -> None:
    frames = frames_of(b"\x41" + PUSHED_RBP).row_at
    words = [5, 6, STACK + 40, 0x4010, 7, 0, 0x9000]
    found = walked(frames, {RSP: STACK, RBP: STACK + 16, RIP: 0x4008, RBX: 77}, words)
    assert found.addresses() == [0x4008, 0x4010, 0x9000] and found.exact() == [0]
    assert [frame.cfa for frame in found.frames] == [STACK + 32, STACK + 56, 0]
    assert [frame.registers[RBX] for frame in found.frames] == [77, 77, 77]
    assert [frame.registers[RBP] for frame in found.frames] == [STACK + 16, STACK + 40, 0]
    assert found.end is End.NO_CALL_FRAMES


def test_only_callee_saved_registers_are_those_of_the_caller() -> None:
    registers = {number: 1000 + number for number in range(16)} | {RSP: STACK, RIP: 0x4000}
    found = walked(frames_of(b"").row_at, registers, [0x9000])
    known = [number for number, value in enumerate(found.frames[1].registers) if value is not None]
    assert known == [3, 6, 7, 12, 13, 14, 15, 16]
    assert found.frames[1].registers[RSP] == STACK + 8


def test_a_frame_whose_cfa_is_not_based_on_the_frame_pointer_loses_its_caller() -> None:
    frames = frames_of(b"\x41" + PUSHED_RBP).row_at
    words = [0x4010, 0, 0x4020, 0, 0x9000]
    found = walked(frames, {RSP: STACK, RBP: STACK + 8, RIP: 0x4000}, words)
    assert [frame.loses_caller for frame in found.frames][:2] == [True, False]


def test_a_caller_is_looked_up_inside_its_call() -> None:
    looked_up = []

    def row_at(address: int) -> Row | None:
        looked_up.append(address)
        return frames_of(b"").row_at(address)

    walked(row_at, {RSP: STACK, RIP: 0x4000}, [0x4100, 0x9000])
    assert looked_up == [0x4000, 0x40FF, 0x8FFF]


def test_what_a_signal_interrupted_is_looked_up_exactly() -> None:
    first = cie(b"\x0f\x03\x77\x10\x06" + b"\x10\x10\x02\x77\x18" + b"\x10\x03\x02\x77\x08", b"zRS")
    handler = frames_of(b"")
    trampoline = CallFrames(image_of(first + fde(first, 0x5000, 16)))

    def row_at(address: int) -> Row | None:
        return trampoline.row_at(address) or handler.row_at(address)

    # the handler returns to 0x5004; above it: rbx, rsp (below: another stack), pc
    words = [0x5004, 1, 0xB0B, STACK - 64, 0x4000, 0]
    found = walked(row_at, {RSP: STACK, RIP: 0x4010}, words)
    assert found.addresses() == [0x4010, 0x5004, 0x4000] and found.exact() == [0, 2]
    assert [frame.is_signal for frame in found.frames] == [False, True, False]
    assert found.frames[2].registers[RBX] == 0xB0B and found.frames[2].cfa == STACK - 56


@pytest.mark.parametrize(
    ("instructions", "words", "end"),
    [
        (b"\x07\x10", [0x4010], End.END_OF_STACK),  # the return address is undefined
        (b"", [0], End.END_OF_STACK),
        (b"", [], End.NO_MEMORY),
        (b"\x0c\x03\x08", [1], End.NO_MEMORY),  # rbx is not known
        (b"\x0f\x01\x06", [1], End.BAD_EXPRESSION),
        (b"", [0x4010] * (FRAME_LIMIT + 8), End.OUT_OF_FRAMES),
        (b"\x0e\x00\x90\x00", [0x4010] * 8, End.NOT_GROWING),
    ],
)
def test_why_a_walk_ends(instructions: bytes, words: list[int], end: End) -> None:
    found = walked(frames_of(instructions).row_at, {RSP: STACK, RIP: 0x4000}, words)
    assert found.end is end and 1 <= len(found.frames) <= FRAME_LIMIT


def test_the_whole_address_space_is_no_trap() -> None:
    for pc in (0, 1, MASK - 1, MASK):
        assert walked(lambda _: None, {RSP: MASK - 4, RIP: pc}, []).addresses() == [pc]
    found = walked(frames_of(b"\x0e\x00").row_at, {RSP: MASK, RIP: 0x4000}, [1, 2, 3], start=MASK - 32)
    assert found.end in (End.NO_MEMORY, End.END_OF_STACK)


def test_a_slot_below_what_was_copied_has_been_restored() -> None:
    """In an epilogue the rules still name the slot that a register was popped from."""
    found = walked(frames_of(b"\x83\x03").row_at, {RSP: STACK, RIP: 0x4000, RBX: 5}, [0x9000])
    assert found.frames[1].registers[RBX] == 5


def test_aarch64_return_addresses_are_in_a_register_and_may_be_signed() -> None:
    start = b"\x0c\x1f\x00"
    leaf, signed = frames_of(b"", start, Machine.AARCH64), b"\x2d\x0e\x10\x9d\x02\x9e\x01"
    first = cie(start, return_address=30)
    caller = CallFrames(image_of(first + fde(first, 0x5000, 16, signed), machine=Machine.AARCH64))

    def row_at(address: int) -> Row | None:
        return leaf.row_at(address) or caller.row_at(address)

    words = [0xF, 0x2B00_0000_0000_5008 | 0x40 << 48, 0xF, 0xABCD_0000_0000_9000]
    found = walked(row_at, {31: STACK, 32: 0x4000, 30: 0x5008}, words, Machine.AARCH64)
    assert found.addresses() == [0x4000, 0x5008, 0x5008, 0x9000]
    assert [frame.cfa for frame in found.frames][:3] == [STACK, STACK + 16, STACK + 32]
    lost = walked(leaf.row_at, {31: STACK, 32: 0x4000, 30: 0x4008}, [], Machine.AARCH64)
    assert lost.end in (End.END_OF_STACK, End.NOT_GROWING) and lost.addresses() == [0x4000, 0x4008]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (b"", STACK + 8),  # the CFA
        (b"\x4f", 31),
        (b"\x08\xff", 255),
        (b"\x09\xff", MASK),
        (b"\x0b\xfe\xff", MASK - 1),
        (b"\x0d\xff\xff\xff\xff", MASK),
        (b"\x0e" + b"\xff" * 8, MASK),
        (b"\x10\xff\x01", 255),
        (b"\x11\x7e", MASK - 1),
        (b"\x77\x08", STACK + 8),  # breg7
        (b"\x92\x07\x78", STACK - 8),  # bregx
        (b"\x77\x08\x06", 0x1234),  # deref
        (b"\x77\x08\x94\x01", 0x34),  # deref_size
        (b"\x35\x12\x22", 10),  # dup, plus
        (b"\x35\x36\x13", 5),  # drop
        (b"\x35\x36\x14", 5),  # over
        (b"\x35\x36\x37\x15\x02", 5),  # pick
        (b"\x35\x36\x16", 5),  # swap
        (b"\x35\x36\x37\x17", 6),  # rot
        (b"\x09\xfb\x19", 5),  # abs
        (b"\x35\x1f", MASK - 4),
        (b"\x30\x20", MASK),
        (b"\x3c\x3a\x1a", 8),  # and
        (b"\x09\xf8\x33\x1b", MASK - 1),  # div: -8 / 3
        (b"\x35\x33\x1c", 2),
        (b"\x35\x33\x1d", 2),
        (b"\x35\x33\x1e", 15),
        (b"\x3c\x33\x21", 15),
        (b"\x35\x23\x80\x01", 133),
        (b"\x35\x33\x24", 40),
        (b"\x09\xff\x08\x3c\x25", 15),
        (b"\x09\x80\x33\x26", MASK - 15),  # shra
        (b"\x35\x08\x41\x24", 0),  # shl by more than 63
        (b"\x3c\x36\x27", 10),
        (b"\x09\xff\x31\x2d", 1),  # -1 < 1
        (b"\x31\x31\x29", 1),
        (b"\x31\x32\x2a", 0),
        (b"\x32\x31\x2b", 1),
        (b"\x32\x31\x2c", 0),
        (b"\x32\x31\x2e", 1),
        (b"\x31\x28\x01\x00\x45\x96", STACK + 8),  # bra over
        (b"\x2f\x01\x00\x45\x36", 6),  # skip
        (b"\x40\x06", None),  # nothing is there
        (b"\x35\x30\x1b", None),
        (b"\x35\x30\x1d", None),
        (b"\x13", None),  # nothing is left
        (b"\x2f\xfd\xff", None),  # for ever
        (b"\x2f\x80\x00", None),
        (b"\x12" * 100, None),
        (b"\x50", None),  # a register has no value here
        (b"\x03" + bytes(8), None),
        (b"\x73\x00", None),  # breg3, not known
        (b"\x22\x22", None),
        (b"\x15\x01", None),
        (b"\x0e\x01", None),
    ],
)
def test_expressions(expression: bytes, value: int | None) -> None:
    assert value_of(expression, None, [0x9000, 0x1234]) == value


def test_random_expressions_end_alike_in_both_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    likely = [0x12, 0x22, 0x1C, 0x77, 0x06, 0x08, 0x31, 0x35, 0x16, 0x1E, 0x26, 0x1B, 0x2D, 0x28]
    found = []
    for _ in range(300):
        expression = bytes(rng.choice((rng.choice(likely), rng.randrange(256))) for _ in range(rng.randrange(1, 20)))
        found.append((expression, value_of(expression)))
    monkeypatch.setattr(walker, "_walk", uncompiled(_walk))
    assert [value_of(expression) for expression, _ in found] == [value for _, value in found]


def test_more_addresses_than_the_table_has_places() -> None:
    first = cie(X86_64_START)
    frames = CallFrames(image_of(first + fde(first, 0x10000, 0x10000)))
    made = Walker(Steps(Machine.X86_64), frames.row_at)
    for start in range(0x10000, 0x10000 + 3000, 500):
        addresses = list(range(start + 1, start + 500))
        memory = pack("<500Q", *addresses, 0)
        walk = made.walk({RSP: STACK, RIP: start}, memory, [(STACK, STACK + len(memory), 0)])
        assert walk.addresses() == [start, *addresses] and walk.end is End.END_OF_STACK


def test_many_stacks_are_walked_as_each_by_itself() -> None:
    row_at = frames_of(b"").row_at
    stacks = [[0x4010, 0x9000], [0x9000], [0x4010, 0x4020, 0x4030, 0], [], [0x4020, 0x9000]]
    buffer, copies, expected = b"\xee" * 3, [], []
    for number, words in enumerate(stacks):
        copies.append([len(buffer), len(buffer) + 24, 8 * len(words), 0, 0, 0])
        buffer += pack(f"<{3 + len(words)}Q", 0x4000 + number, 0xDEAD, STACK, *words)
        expected.append(walked(row_at, {RSP: STACK, RIP: 0x4000 + number}, words).addresses())
    table = np.array(copies, np.uint64)
    order = np.array([[0, RIP], [2, RSP]], np.uint64)
    walker_ = Walker(Steps(Machine.X86_64), row_at, frame_limit=5)  # so the room for addresses has to grow
    found = walker_.walk_copies(1 << RIP | 1 << RSP, order.data, memoryview(buffer), table.data)
    places = table[:, columns.COPY_START : columns.COPY_END + 1].tolist()
    assert [found[start:end].tolist() for start, end in places] == expected
    assert table[:, columns.COPY_EXACT].tolist() == [1] * len(stacks)
