"""Ten thousand mutations and every truncation of call frame information, and of what is unwound with it."""

from __future__ import annotations

import random
from struct import pack

import numpy as np

from icf.dwarf.cfi.frames import CallFrames
from icf.dwarf.cfi.landing_pads import LandingPads
from icf.elf.image import Image
from icf.elf.types import PT_LOAD, SHF_ALLOC, SHT_PROGBITS
from icf.errors import FormatError
from tests.fuzz.limits import alarms, many, soon
from tests.support.call_frames import FRAMES_AT, cie, fde
from tests.support.elf import Elf, Part
from unwind.walk.images import ImageSteps
from unwind.walk.walker import FRAME_LIMIT, Steps, Walker

MUTATION_COUNT = many(10_000)
LONGEST_S = 5
STACK = 0x7FFF0000
HEADER_AT = 0x800
EDGES = (0, 1, 7, 8, 16, 0x3F, 0x40, 0x7F, 0x80, 0xFF)
PROGRAMS = (
    b"\x41\x0e\x10\x86\x02\x43\x0d\x06\x0a\x48\x0c\x07\x08\x0b\x02\x20\x83\x03\xc3\x2e\x10",
    b"\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22\x41\x0c\x07\x10",
    b"\x10\x03\x02\x77\x28\x16\x06\x03\x77\x08\x06\x14\x0c\x02\x15\x0d\x7e\x09\x0e\x0f\x2f\x0c\x02",
)


def sections() -> tuple[bytes, bytes]:
    """Return `.eh_frame` and `.eh_frame_hdr`."""
    data = cie(augmentation=b"zRS") + b""
    offsets = []
    for number, program in enumerate(PROGRAMS * 3):
        offsets.append(len(data))
        data += fde(data, 0x4000 + 0x40 * number, 0x40, program)
    table = b"".join(
        pack("<ii", 0x4000 + 0x40 * number - HEADER_AT, FRAMES_AT + offset - HEADER_AT)
        for number, offset in enumerate(offsets)
    )
    return data, b"\x01\x1b\x03\x3b" + pack("<iI", FRAMES_AT - HEADER_AT - 4, len(offsets)) + table


def outcome(data: bytes, header: bytes, machine: int, rng: random.Random) -> bool:
    """Read and unwind with it; return whether nothing was refused."""
    parts = [Part(".eh_frame", SHT_PROGBITS, SHF_ALLOC, data, FRAMES_AT)]
    if header:
        parts.append(Part(".eh_frame_hdr", SHT_PROGBITS, SHF_ALLOC, header, HEADER_AT))
    image = Image("made", memoryview(Elf(parts, machine=machine).build()))
    refused: list[FormatError] = []
    try:
        steps = ImageSteps(image, refused.append)
        words = [rng.choice((0x4001 + 9 * at, 0, STACK + 8 * at, 1 << 63)) for at in range(64)]
        registers = {number: STACK + 8 * number for number in range(33)} | {16: 0x4004, 32: 0x4044}
        walk = Walker(Steps(image.machine), steps.row_at).walk(
            registers, pack("<64Q", *words), [(STACK, STACK + 512, 0)]
        )
        assert 1 <= len(walk.frames) <= FRAME_LIMIT
        for _ in CallFrames(image).rows():
            pass
    except FormatError as error:
        refused.append(error)
    assert all(str(error).startswith("made: .eh_frame") and "\n" not in str(error) for error in refused)
    return not refused


def test_landing_pads() -> None:
    """Whatever the bytes are, a function has landing pads, or is one of which nothing is known."""
    rng = random.Random(3)
    frames = cie(augmentation=b"zRL", data=bytes([0, 0x03]))
    frames += fde(frames, 0x4000, 0x100, data=pack("<I", 0x2000))
    table = bytes.fromhex("ff9b20010c001030011008000018084000")
    starts, loaded = np.array([0x4000, 0x5000], np.uint64), [(PT_LOAD, 4, ".gcc_except_table")]
    kept = 0
    with alarms():
        for _ in range(MUTATION_COUNT):
            changed = bytearray(frames), bytearray(table)
            for _ in range(rng.choice((1, 1, 2, 4))):
                of = changed[rng.random() < 0.7]
                of[rng.randrange(len(of))] = rng.choice((*EDGES, rng.randrange(256)))
            parts = [
                Part(".eh_frame", SHT_PROGBITS, SHF_ALLOC, bytes(changed[0]), FRAMES_AT),
                Part(".gcc_except_table", SHT_PROGBITS, SHF_ALLOC, bytes(changed[1][: rng.randrange(5, 60)]), 0x2000),
            ]
            soon(LONGEST_S)
            pads, unread = LandingPads(Image("made", memoryview(Elf(parts, loaded).build())))(starts)
            assert (pads >= 0).all() and set(unread.tolist()) <= {0x4000, 0x5000}
            kept += not len(unread)
    assert MUTATION_COUNT // 10 < kept < MUTATION_COUNT


def test_truncations() -> None:
    data, header = sections()
    rng = random.Random(1)
    assert outcome(data, header, 62, rng) and outcome(data, b"", 62, rng)
    kept = [outcome(data[:size_bytes], b"", 62, rng) for size_bytes in range(1, len(data))]
    assert not all(kept) and any(kept)
    assert not all(outcome(data, header[:size_bytes], 62, rng) for size_bytes in range(1, len(header)))


def test_mutations() -> None:
    rng = random.Random(2)
    whole = sections()
    kept = 0
    with alarms():
        for number in range(MUTATION_COUNT):
            changed = [bytearray(each) for each in whole]
            for _ in range(rng.choice((1, 1, 2, 4))):
                of = changed[rng.random() < 0.2]
                at = rng.randrange(len(of))
                of[at] = rng.choice((*EDGES, rng.randrange(256)))
                if rng.random() < 0.05:
                    of[at : at + 8] = b"\xff" * len(of[at : at + 8])
            soon(LONGEST_S)
            kept += outcome(bytes(changed[0]), bytes(changed[1]) * (number % 2), (62, 183)[number % 3 == 0], rng)
    assert MUTATION_COUNT // 10 < kept < MUTATION_COUNT
