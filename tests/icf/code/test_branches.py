"""Direct branches in bulk: against a decoder of one instruction at a time, in both builds, and against capstone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icf.code import _branches
from icf.code.branch_kinds import CALL, CONDITIONAL_JUMP, JUMP
from icf.code.branches import executable_sections, find_branches
from icf.elf.image import Image
from icf.elf.types import SHF_ALLOC, SHF_EXECINSTR, SHT_PROGBITS
from icf.errors import FormatError
from tests.support.builds import uncompiled
from tests.support.code_oracle import Insn, instructions, static_program
from tests.support.dwarf_programs import build
from tests.support.elf import Elf, Part
from tests.support.paths import ROOT

PURE = uncompiled(_branches)
Row = tuple[int, int, int]


def scan(name: str, text: bytes, vaddr: int, calls: set[int], jumps: set[int], room: int = 64) -> list[Row]:
    """All rows, by both builds; `room` rows of output at a time."""
    both: list[list[Row]] = []
    low = min(calls | jumps)
    size_bytes = (max(calls | jumps) - low + 8) // 8
    for module in (_branches, PURE):
        find: Any = getattr(module, name)
        bits = []
        for targets in (calls, jumps):
            bitmap = bytearray(size_bytes)
            for target in targets:
                bitmap[(target - low) >> 3] |= 1 << ((target - low) & 7)
            bits.append(memoryview(bytes(bitmap)))
        out, result = np.zeros((room, 3), np.uint64), np.zeros(2, np.uint64)
        rows: list[Row] = []
        start = 0
        while start < len(text):
            find(memoryview(text), vaddr, low, bits[0], bits[1], start, out.data, result.data)
            count, reached = result.tolist()
            rows += [(row[0], row[1], row[2]) for row in out[:count].tolist()]
            assert reached > start and (reached == len(text) or count == room)
            start = reached
        both.append(rows)
    assert both[0] == both[1]
    return both[0]


OPCODES = {b"\xe8": CALL, b"\xe9": JUMP, **{bytes([0x0F, 0x80 + n]): CONDITIONAL_JUMP for n in range(16)}}


def expected_x86_64(text: bytes, vaddr: int, calls: set[int], jumps: set[int]) -> list[Row]:
    rows = []
    for at in range(len(text)):
        for opcode, kind in OPCODES.items():
            end = at + len(opcode) + 4
            if text[at : at + len(opcode)] == opcode and end <= len(text):
                target = (vaddr + end + int.from_bytes(text[end - 4 : end], "little", signed=True)) % 2**64
                if target in (calls if kind == CALL else jumps):
                    rows.append(((vaddr + end) % 2**64, target, kind))
    return rows


def expected_aarch64(text: bytes, vaddr: int, calls: set[int], jumps: set[int]) -> list[Row]:
    rows = []
    for at in range(0, len(text) - 3, 4):
        word = int.from_bytes(text[at : at + 4], "little")
        if word >> 26 in (0b100101, 0b000101):
            kind = CALL if word >> 31 else JUMP
            offset = (word & 0x3FFFFFF) - ((word & 0x2000000) << 1)
        elif word >> 24 == 0x54 and not word & 0x10:
            kind = CONDITIONAL_JUMP
            offset = (word >> 5 & 0x7FFFF) - ((word >> 5 & 0x40000) << 1)
        else:
            continue
        target = (vaddr + at + 4 * offset) % 2**64
        if target in (calls if kind == CALL else jumps):
            rows.append(((vaddr + at + 4) % 2**64, target, kind))
    return rows


@pytest.mark.parametrize("vaddr", [0x1000, 0x7FFFFFFF, 2**63, 2**64 - 0x2000])
@pytest.mark.parametrize("displacement", [0, 1, -5, -6, -0x800, 0x7F, 0x80, 0xFF, 0x800, -(2**31), 2**31 - 1])
def test_x86_64_displacements(vaddr: int, displacement: int) -> None:
    for opcode, kind in ((b"\xe8", CALL), (b"\xe9", JUMP), (b"\x0f\x80", 3), (b"\x0f\x8f", CONDITIONAL_JUMP)):
        insn = opcode + displacement.to_bytes(4, "little", signed=True)
        for before in (0, 3):
            text = b"\x90" * before + insn
            end = vaddr + len(text)
            target = (end + displacement) % 2**64
            wanted = {target, (target + 9) % 2**64}
            if max(wanted) - min(wanted) > 2**20:
                continue
            none = {min(wanted)}
            rows = [(end, target, kind)]
            assert scan("find_x86_64", text, vaddr, wanted, none) == [r for r in rows if kind == CALL or target in none]
            assert scan("find_x86_64", text, vaddr, none, wanted) == [r for r in rows if kind > CALL or target in none]
            assert scan("find_x86_64", text[:-1], vaddr, wanted, wanted) == []
            assert scan("find_x86_64", text, vaddr, {(target + 1) % 2**64}, {(target + 1) % 2**64}) == []


def test_x86_64_conditions() -> None:
    for second in {*range(256)} - {0xE8, 0xE9}:
        text = bytes([0x0F, second, 0, 0, 0, 0])
        found = scan("find_x86_64", text, 0x1000, {0x1006}, {0x1006})
        assert found == ([(0x1006, 0x1006, CONDITIONAL_JUMP)] if 0x80 <= second < 0x90 else [])


@pytest.mark.parametrize("offset", [0, 4, -4, 2**20 - 4, -(2**20), 2**27 - 4, -(2**27)])
def test_aarch64_displacements(offset: int) -> None:
    for opcode, bits, shift, kind in ((0x94000000, 26, 0, CALL), (0x14000000, 26, 0, JUMP), (0x54000001, 19, 5, 3)):
        if not -(1 << bits + 1) <= offset < 1 << bits + 1:
            continue
        word = opcode | (offset >> 2 & (1 << bits) - 1) << shift
        for vaddr in (0x10000000, 2**64 - 8):
            text = b"\x1f\x20\x03\xd5" + word.to_bytes(4, "little")
            target = (vaddr + 4 + offset) % 2**64
            assert scan("find_aarch64", text, vaddr, {target}, {target}) == [((vaddr + 8) % 2**64, target, kind)]
            assert scan("find_aarch64", text[:-1], vaddr, {target}, {target}) == []
    # bc.cond, cbz, tbz, adr are no jumps to functions
    for word in (0x54000010, 0x34000000, 0x36000000, 0x10000000):
        assert scan("find_aarch64", word.to_bytes(4, "little"), 0x1000, {0x1000}, {0x1000}) == []


@pytest.mark.parametrize("room", [1, 2, 7, 64])
def test_output_that_is_full_goes_on(room: int) -> None:
    text = b"".join(b"\xe8" + (-5 * number - 5).to_bytes(4, "little", signed=True) for number in range(50))
    rows = scan("find_x86_64", text, 0x4000, {0x4000}, {0x4000}, room)
    assert rows == [(0x4000 + 5 * number, 0x4000, CALL) for number in range(1, 51)]
    words = b"".join((0x94000000 | (-number & 0x3FFFFFF)).to_bytes(4, "little") for number in range(50))
    rows = scan("find_aarch64", words, 0x4000, {0x4000}, {0x4000}, room)
    assert rows == [(0x4004 + 4 * number, 0x4000, CALL) for number in range(50)]


def test_random_code() -> None:
    rng = random.Random(7)
    opcodes = (0x94000000, 0x97FFFFE0, 0x14000000, 0x54000000, 0x54FFFF00)
    for _ in range(300):
        vaddr = rng.choice((0x1000, 2**31, 2**64 - 300))
        near = bytes(rng.choice((0xE8, 0xE9, 0x0F, 0x84, 0, 1, 0xFF, 0xFF, rng.randrange(256))) for _ in range(200))
        words = b"".join((rng.choice(opcodes) | rng.randrange(32)).to_bytes(4, "little") for _ in range(50))
        targets = {vaddr + rng.randrange(250) for _ in range(80)}
        targets = {target for target in targets if target < 2**64}
        calls, jumps = set(rng.sample(sorted(targets), len(targets) // 2)), targets
        room = rng.choice((1, 3, 64))
        assert scan("find_x86_64", near, vaddr, calls, jumps, room) == expected_x86_64(near, vaddr, calls, jumps)
        assert scan("find_aarch64", words, vaddr, calls, jumps, room) == expected_aarch64(words, vaddr, calls, jumps)


def code_image(*texts: tuple[int, bytes]) -> Image:
    flags = SHF_ALLOC | SHF_EXECINSTR
    parts = [Part(f".text.{n}", SHT_PROGBITS, flags, text, vaddr=vaddr) for n, (vaddr, text) in enumerate(texts)]
    return Image("a.out", memoryview(Elf(parts).build()))


def test_targets_anywhere_need_no_memory() -> None:
    """Bitmaps hold what a section can reach; sections at both ends of the address space have different ones."""
    image = code_image((0x1000, b"\xe8\0\0\0\0\xe9\0\0\0\0"), (2**64 - 0x100, b"\xe8\0\0\0\0"))
    targets = np.array([0, 0x1005, 0x100A, 2**40, 2**63, 2**64 - 0x100 + 5, 2**64 - 1], np.uint64)
    found = find_branches(image, targets, targets)
    rows = zip(found.end.tolist(), found.target.tolist(), found.kind.tolist(), strict=True)
    high = 2**64 - 0x100 + 5
    assert list(rows) == [(0x1005, 0x1005, CALL), (0x100A, 0x100A, JUMP), (high, high, CALL)]


def test_no_targets_and_no_code() -> None:
    none = np.empty(0, np.uint64)
    one = np.array([0x1005], np.uint64)
    assert len(find_branches(code_image((0x1000, b"\xe8\0\0\0\0")), none, none).end) == 0
    assert len(find_branches(code_image(), one, one).end) == 0
    assert len(find_branches(code_image((0x1000, b"\xe8\0\0\0\0")), one, none).end) == 1
    assert len(find_branches(code_image((0x1000, b"\xe8\0\0\0\0")), none, one).end) == 0


def test_sections_that_overlap_are_refused() -> None:
    """A file may name the same bytes as code a million times."""
    flags = SHF_ALLOC | SHF_EXECINSTR
    data = bytearray(Elf([Part(f".t{n}", SHT_PROGBITS, flags, b"\x90" * 400, vaddr=0x1000) for n in range(9)]).build())
    image = Image("a.out", memoryview(data))
    shoff = image.headers.shoff
    for number in range(1, 10):
        data[shoff + 64 * number + 24 : shoff + 64 * number + 40] = bytes(8) + len(data).to_bytes(8, "little")
    with pytest.raises(FormatError, match=r"a\.out: \.t0\+0x0: sections with code overlap in the file"):
        find_branches(Image("a.out", memoryview(data)), np.array([0x1000], np.uint64), np.empty(0, np.uint64))


def check_all_found(image: Image) -> int:
    """Every direct call and jump to the start of a function that capstone sees is found; gives how many."""
    symbols = image.symbols
    starts = np.unique(symbols.value[symbols.functions])
    found = find_branches(image, starts, starts)
    rows = set(zip(found.end.tolist(), found.target.tolist(), (found.kind == CALL).tolist(), strict=True))
    wanted = set(starts.tolist())
    seen: set[tuple[int, int, bool]] = set()
    for insn in instructions(image):
        if insn.is_direct and insn.target in wanted and not short(insn):
            assert insn.target is not None
            seen.add((insn.end, insn.target, insn.is_call))
    assert seen <= rows
    assert len(rows - seen) <= 10  # bytes outside of functions
    return len(seen)


def short(insn: Insn) -> bool:
    """A jump with an 8-bit displacement, which only connects functions of one input section."""
    return not insn.is_call and insn.end - insn.start == 2


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_small_programs(compiler: str, linker: str) -> None:
    with Image.open(build(compiler, ("-O2", "-gdwarf-5"), linker)) as image:
        assert check_all_found(image) > 40


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_static_programs(arch: str) -> None:
    """With the C library: thousands of calls, assembler among them."""
    path: Path = static_program(arch)
    with Image.open(path) as image:
        assert check_all_found(image) > 3000


def test_long_code_is_read_for_each_scan_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large program has no memory for it beside its debug information."""
    with Image.open(ROOT / "testdata" / "shop" / "shop.lld") as image:
        kept = [each.code for each in executable_sections(image)]
        monkeypatch.setattr("icf.code.branches._KEPT_CODE_BYTES", 0)
        read = [each.code for each in executable_sections(image)]
    assert read == kept and len(read) > 1
    assert len({id(each.obj) for each in kept}) == 1  # the memory of the file
    assert all(type(each.obj) is bytes for each in read)
