"""Call frame information: what each instruction means, and what is refused."""

from __future__ import annotations

import random
from struct import pack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icf.dwarf.cfi import _rows, rules
from icf.dwarf.cfi.entries import read_cie, read_entry, read_fde
from icf.dwarf.cfi.frames import CallFrames
from icf.elf.types import Machine
from icf.errors import FormatError
from tests.support.builds import uncompiled
from tests.support.call_frames import X86_64_START, cie, fde, frames_of, image_of, section_of

MASK = (1 << 64) - 1
MOVE = b"\x41"  # advance_loc 1


def rule(instructions: bytes, register: int, *, at: int = 0x4000, machine: Machine = Machine.X86_64) -> tuple[int, int]:
    row = frames_of(instructions, machine=machine).row_at(at)
    assert row is not None
    kind, value = row.columns[rules.FIRST + 2 * register : rules.FIRST + 2 * register + 2].tolist()
    return kind, value - (1 << 64) if value >> 63 else value


def cfa(instructions: bytes, at: int = 0x4000) -> tuple[int, int]:
    row = frames_of(instructions).row_at(at)
    assert row is not None
    register, offset = row.columns[[rules.CFA_REGISTER, rules.CFA_OFFSET]].tolist()
    return register, offset - (1 << 64) if offset >> 63 else offset


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        (b"\x83\x02", (rules.OFFSET, -16)),  # DW_CFA_offset
        (b"\x05\x03\x03", (rules.OFFSET, -24)),  # offset_extended
        (b"\x11\x03\x7f", (rules.OFFSET, 8)),  # offset_extended_sf
        (b"\x2f\x03\x02", (rules.OFFSET, 16)),  # GNU_negative_offset_extended
        (b"\x14\x03\x02", (rules.VAL_OFFSET, -16)),  # val_offset
        (b"\x15\x03\x7e", (rules.VAL_OFFSET, 16)),  # val_offset_sf
        (b"\x07\x03", (rules.UNDEFINED, 0)),
        (b"\x08\x03", (rules.SAME_VALUE, 0)),
        (b"\x09\x03\x0c", (rules.REGISTER, 12)),
        (b"\x83\x02\xc3", (rules.UNSPECIFIED, 0)),  # restore
        (b"\x83\x02\x06\x03", (rules.UNSPECIFIED, 0)),  # restore_extended
        (b"\x83\x02\x0a\x83\x05\x0b", (rules.OFFSET, -16)),  # remember_state, restore_state
        (b"\x2e\x20\x83\x02", (rules.OFFSET, -16)),  # GNU_args_size
        (b"\x83\x02" + MOVE + b"\x83\x03", (rules.OFFSET, -16)),  # of the first row
        (b"\x05\x43\x03", (rules.UNSPECIFIED, 0)),  # a vector register
    ],
)
def test_rules_of_registers(instructions: bytes, expected: tuple[int, int]) -> None:
    assert rule(instructions, 3) == expected


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        (b"", (7, 8)),
        (b"\x0c\x06\x10", (6, 16)),  # def_cfa
        (b"\x12\x06\x7e", (6, 16)),  # def_cfa_sf
        (b"\x0d\x06", (6, 8)),  # def_cfa_register
        (b"\x0e\x40", (7, 64)),  # def_cfa_offset
        (b"\x13\x7e", (7, 16)),  # def_cfa_offset_sf
        (b"\x0a\x0e\x40\x0b", (7, 8)),  # remember_state, restore_state
    ],
)
def test_rules_of_the_cfa(instructions: bytes, expected: tuple[int, int]) -> None:
    assert cfa(instructions) == expected


@pytest.mark.parametrize("expression", [b"\x10\x03", b"\x16\x03"])
def test_expressions(expression: bytes) -> None:
    row = frames_of(expression + b"\x02\x77\x10" + b"\x0f\x02\x76\x00").row_at(0x4000)
    assert row is not None
    assert row.columns[rules.CFA_REGISTER] == rules.CFA_EXPRESSION
    assert row.block(int(row.columns[rules.CFA_OFFSET])) == b"\x76\x00"
    assert row.block(int(row.columns[rules.FIRST + 7])) == b"\x77\x10"


@pytest.mark.parametrize(
    "move",
    [b"\x50", b"\x02\x10", b"\x03\x10\0", b"\x04\x10\0\0\0", b"\x1d" + pack("<Q", 16), b"\x01" + pack("<Q", 0x4010)],
)
def test_moves(move: bytes) -> None:
    instructions = move + b"\x0e\x40"
    assert cfa(instructions, 0x400F) == (7, 8) and cfa(instructions, 0x4010) == (7, 64)
    row = frames_of(instructions).row_at(0x4000)
    assert row is not None and row.columns[[rules.START, rules.END]].tolist() == [0x4000, 0x4010]


def test_an_address_that_no_fde_covers_has_no_row() -> None:
    frames = frames_of(b"")
    assert [frames.row_at(at) is None for at in (0, 0x3FFF, 0x4000, 0x40FF, 0x4100, MASK)] == [1, 1, 0, 0, 1, 1]


def test_aarch64_signs_return_addresses() -> None:
    start = b"\x0c\x1f\x00"
    for instructions, expected in ((b"", 0), (b"\x2d", 2), (b"\x2c", 2), (b"\x2d\x2d", 0), (b"\x0a\x2d\x0b", 0)):
        row = frames_of(instructions, start, Machine.AARCH64).row_at(0x4000)
        assert row is not None and row.columns[rules.FLAGS] == expected


def test_the_frame_of_a_signal() -> None:
    first = cie(augmentation=b"zRS")
    row = CallFrames(image_of(first + fde(first, 0x4000, 16))).row_at(0x4000)
    assert row is not None and row.columns[rules.FLAGS] == rules.IS_SIGNAL_FRAME


@pytest.mark.parametrize("version", [1, 3, 4])
def test_debug_frame(version: int) -> None:
    first = cie(augmentation=b"", version=version, is_eh=False)
    frames = CallFrames(image_of(first + fde(first, 0x4000, 16, b"\x0e\x40", is_eh=False), ".debug_frame"))
    row = frames.row_at(0x400F)
    assert row is not None and row.columns[rules.CFA_OFFSET] == 64 and frames.row_at(0x4010) is None


def test_debug_frame_of_64_bits() -> None:
    body = b"\x01\0" + bytes([1, 0x78, 16]) + X86_64_START
    first = pack("<IQQ", 0xFFFFFFFF, 8 + len(body), MASK) + body
    second = pack("<IQQQQ", 0xFFFFFFFF, 24, 0, 0x4000, 16)
    row = CallFrames(image_of(first + second, ".debug_frame")).row_at(0x4008)
    assert row is not None and row.columns[rules.CFA_OFFSET] == 8


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        (cie(augmentation=b"eh"), r"\.eh_frame\+0x9: CIE has the unknown augmentation 'eh'"),
        (cie(augmentation=b"zQ"), r"CIE has the unknown augmentation 'zQ'"),
        (cie(version=2), r"\.eh_frame\+0x8: CIE has version 2"),
        (cie(data=b"\xff"), r"CIE whose FDEs have no address"),
        (cie(data=b"\x80"), r"pointer encoding 0x80 is not of an address in this image"),
        (cie(data=b"\x05"), r"pointer encoding 0x5 has no known format"),
        (cie(return_address=77), r"return address is in register 77"),
        (cie(b"\x41"), r"call frame instruction of a CIE moves to another address"),
        (cie(b"\x3f"), r"\.eh_frame\+0x11: call frame instruction is unknown"),
    ],
)
def test_a_cie_that_is_refused(first: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        CallFrames(image_of(first + fde(first, 0x4000, 16))).row_at(0x4000)


@pytest.mark.parametrize(
    ("instructions", "problem"),
    [
        (b"\x0b", "DW_CFA_restore_state has no state to restore"),
        (b"\x0a" * 65, "DW_CFA_remember_state is nested deeper than 64"),
        (b"\x0f\x01\x30\x0e\x08", "changes a part of a CFA that is an expression"),
        (b"\x0c\x7f\x08", "needs a register that is not recovered"),
        (b"\x09\x03\x7f", "needs a register that is not recovered"),
        (b"\x01" + pack("<Q", 0x3FFF), "moves to an address below the last one"),
        (b"\x1d" + b"\xff" * 8, "moves to an address below the last one"),
        (b"\x2d", "call frame instruction is unknown"),
        (b"\x10\x03\x7f", "call frame instruction is cut short"),
        (b"\x05\x03" + b"\xff" * 10, "has a number that does not fit 64 bits"),
    ],
)
def test_a_program_that_is_refused(instructions: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=rf"^made: \.eh_frame\+0x[0-9a-f]+: .*{problem}"):
        frames_of(instructions).row_at(0x4080)


def test_every_truncation_is_refused_or_has_fewer_fdes() -> None:
    first = cie()
    data = first + fde(first, 0x4000, 16, b"\x0e\x40")
    for size_bytes in range(len(data)):
        section = section_of(data[:size_bytes])
        try:
            entry = read_entry(section, 0)
            if entry is None:
                assert size_bytes == 0
                continue
            found = read_cie(section, 0)
            entry = read_entry(section, entry.end)
            assert entry is None or read_fde(section, entry, found) is None
        except FormatError as error:
            assert str(error).startswith("made: .eh_frame+0x")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=12), max_size=12), st.sampled_from([0x4000, 0x4003, 0x40FF]))
def test_both_builds_have_the_same_rows(pieces: list[bytes], target: int) -> None:
    data = b"".join(pieces)
    pure = uncompiled(_rows)
    start = len(X86_64_START)
    program = np.zeros(rules.PROGRAM_WIDTH, np.uint64)
    program[[rules.CIE_END, rules.FDE_START, rules.FDE_END]] = start, start, start + len(data)
    program[[rules.PC_BEGIN, rules.PC_END, rules.CODE_ALIGN, rules.RA_REGISTER]] = 0x4000, 0x4100, 1, 16
    program[[rules.DATA_ALIGN, rules.POINTER_SIZE, rules.IS_AARCH64]] = MASK - 7, 8, random.Random(data).randrange(2)
    outcomes = []
    for kernel in (_rows, pure):
        row, initial = np.zeros(rules.WIDTH, np.uint64), np.zeros(rules.WIDTH, np.uint64)
        saved = np.zeros((rules.SAVED_LIMIT, rules.WIDTH), np.uint64)
        out = np.zeros((64, rules.WIDTH), np.uint64)
        count, problem, at = kernel.run(
            memoryview(X86_64_START + data), program.data, target, target != 0x4003, row.data, initial.data, saved.data,
            out.data,
        )  # fmt: skip
        outcomes.append((count, problem, at, out[:count].tolist()))
    assert outcomes[0] == outcomes[1]
