"""Where code and data hold addresses of functions: byte by byte, and against capstone."""

from __future__ import annotations

from struct import pack

import capstone
import numpy as np
import pytest

from icf.code import addresses
from icf.code.addresses import find_mentions
from icf.code.pointers import find_pointers, is_readable
from icf.code.short_jumps import find_short_jumps
from icf.elf.image import Image
from icf.elf.types import (
    ET_DYN,
    ET_EXEC,
    PT_DYNAMIC,
    PT_LOAD,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_WRITE,
    SHT_PROGBITS,
    SHT_RELA,
    Machine,
)
from tests.support.code_oracle import static_program
from tests.support.elf import Elf, Part

TEXT, TARGET, GOT = 0x401000, 0x401800, 0x500000
CODE = SHF_ALLOC | SHF_EXECINSTR
NONE = np.empty(0, np.uint64)


def image(text: bytes, *parts: Part, machine: int = Machine.X86_64, elf_type: int = ET_DYN) -> Image:
    every = [Part(".text", SHT_PROGBITS, CODE, text, vaddr=TEXT), *parts]
    segments = [(PT_LOAD, 5, ".text")]
    segments += [(PT_DYNAMIC, 6, part.name) for part in parts if part.name == ".dynamic"]
    segments += [(PT_LOAD, 6, part.name) for part in parts if part.name == ".dynamic"]
    return Image("a.out", memoryview(Elf(every, segments, machine=machine, type=elf_type).build()))


def mentioned(
    file: Image, targets: tuple[int, ...] = (TARGET,), body: tuple[int, int] | None = None
) -> list[tuple[int, int]]:
    starts, ends = (np.array([edge], np.uint64) for edge in body) if body else (NONE, NONE)
    found = find_mentions(file, np.array(targets, np.uint64), starts, ends)
    return list(zip(found.place.tolist(), found.target.tolist(), strict=True))


def padded(code: str, at: int = 0x20) -> bytes:
    return b"\x90" * at + bytes.fromhex(code) + b"\x90" * 0x20


@pytest.mark.parametrize("register", ["05", "0d", "15", "3d"])
def test_lea(register: str) -> None:
    text = padded(f"48 8d {register}" + pack("<i", TARGET - (TEXT + 0x27)).hex())
    assert mentioned(image(text)) == [(TEXT + 0x23, TARGET)]
    assert mentioned(image(text), (TARGET + 1,)) == []
    assert mentioned(image(padded("48 8d 45" + "00000000"))) == []  # lea 0(%rbp)


def test_large_code_model() -> None:
    text = padded("48 b8" + pack("<q", TARGET - GOT).hex())  # movabs $f@GOTOFF, %rax
    got = Part(".got.plt", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, bytes(8), vaddr=GOT)
    assert mentioned(image(text, got)) == [(TEXT + 0x22, TARGET)]


@pytest.mark.parametrize("code", ["bf", "68", "48 c7 45 e8", "48 3d", "48 81 ff"])  # mov, push, mov to memory, cmp
def test_immediates_count_where_the_image_is_fixed(code: str) -> None:
    text = padded(code + pack("<I", TARGET).hex())
    assert [target for _, target in mentioned(image(text, elf_type=ET_EXEC))] == [TARGET]
    assert mentioned(image(text)) == []


def test_what_lies_across_two_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"\x90" * 30 + b"".join(b"\x48\x8d\x05" + pack("<i", TARGET - (TEXT + 37 + 7 * n)) for n in range(9))
    whole = mentioned(image(text))
    assert len(whole) == 9
    for size_bytes in range(1, 40, 3):
        monkeypatch.setattr(addresses, "_CHUNK_BYTES", size_bytes)
        assert mentioned(image(text)) == whole


def a64(*words: int) -> bytes:
    return pack(f"<{len(words)}I", *words)


NOP, ADRP_X0, ADD_X1_X0 = 0xD503201F, 0x90000000, 0x91000001
LOW = (TARGET & 0xFFF) << 10


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([ADRP_X0, NOP, NOP, ADD_X1_X0 | LOW], [(12, TARGET)]),
        ([NOP, ADD_X1_X0 | LOW, ADRP_X0], [(4, TARGET)]),  # in a loop
        ([ADRP_X0, ADD_X1_X0 | LOW + 0x400], []),
        ([ADRP_X0, ADD_X1_X0 | 1 << 5 | LOW, NOP], [(0, TARGET)]),  # add of x1: nothing shows what becomes of x0
        ([ADRP_X0, 0xF9400001 | LOW], []),  # ldr x1, [x0, ...]: of data
        ([0x10004000], [(0, TARGET)]),  # adr x0
        ([0xD2830000, 0xF2A00800], []),  # movz, movk: in images that are not position-independent
    ],
)
def test_aarch64(words: list[int], found: list[tuple[int, int]]) -> None:
    file = image(a64(*words, NOP, NOP), machine=Machine.AARCH64)
    places = [(place - TEXT, target) for place, target in mentioned(file, body=(TEXT, TEXT + 4 * len(words)))]
    assert places == found


def test_aarch64_at_fixed_addresses() -> None:
    halves = a64(0xD2800000 | (TARGET & 0xFFFF) << 5, NOP, 0xF2A00000 | TARGET >> 16 << 5)
    assert mentioned(image(halves, machine=Machine.AARCH64, elf_type=ET_EXEC)) == [(TEXT, TARGET)]
    pool = a64(NOP) + pack("<Q", TARGET)
    assert mentioned(image(pool, machine=Machine.AARCH64, elf_type=ET_EXEC)) == [(TEXT + 4, TARGET)]


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_whatever_capstone_sees_is_found(arch: str) -> None:
    with Image.open(static_program(arch)) as file:
        symbols = file.symbols
        rows = symbols.functions
        starts, first = np.unique(symbols.value[rows], return_index=True)
        ends = starts + np.maximum.reduceat(symbols.size_bytes[rows], first)
        found = set(find_mentions(file, starts, starts, ends).target.tolist())
        seen = set(_seen_by_capstone(file, starts.tolist(), ends.tolist()))
        assert len(seen) > 50
        assert seen <= found


def _seen_by_capstone(file: Image, starts: list[int], ends: list[int]) -> set[int]:
    x86 = file.machine is Machine.X86_64
    if x86:
        decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    else:
        decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    wanted, seen = set(starts), set()
    for start, end in zip(starts, ends, strict=True):
        pages: dict[str, int] = {}
        for at, size_bytes, mnemonic, operands in decoder.disasm_lite(bytes(file.read(start, end - start)), start):
            text = operands.replace("#", "").split(", ")
            if mnemonic == "lea" and "[rip" in operands:
                offset = operands.partition("[rip")[2].rstrip("]").replace(" ", "")
                seen.add(at + size_bytes + int(offset or "0", 0))
            elif mnemonic == "mov" and x86 and text[-1].startswith("0x"):
                seen.add(int(text[-1], 0))
            elif mnemonic in ("adrp", "adr"):
                pages[text[0]] = int(text[1], 0)
                seen.add(pages[text[0]] if mnemonic == "adr" else 0)
            elif mnemonic == "add" and len(text) == 3 and text[1] in pages and text[2].startswith("0x"):
                seen.add(pages[text[1]] + int(text[2], 0))
    return seen & wanted


def test_short_jumps() -> None:
    targets = np.array([TEXT + 0x20], np.uint64)
    for code in ("eb 1e", "74 1e"):
        assert list(find_short_jumps(image(bytes.fromhex(code) + b"\x90" * 0x40), targets)) == [(TEXT + 2, TEXT + 0x20)]
    assert list(find_short_jumps(image(b"\x90" * 0x40 + bytes.fromhex("eb de")), targets)) == [
        (TEXT + 0x42, TEXT + 0x20)
    ]
    assert list(find_short_jumps(image(bytes.fromhex("eb 1d") + b"\x90" * 0x40), targets)) == []
    cbz, tbnz = 0xB4000000 | 8 << 5, 0x37000000 | 8 << 5
    for word in (cbz, tbnz):
        file = image(a64(word, *[NOP] * 20), machine=Machine.AARCH64)
        assert list(find_short_jumps(file, targets)) == [(TEXT + 4, TEXT + 0x20)]


def pointed(file: Image) -> list[tuple[int, int]]:
    found = find_pointers(file, np.array([TARGET], np.uint64))
    return list(zip(found.place.tolist(), found.target.tolist(), strict=True))


def data(content: bytes, name: str = ".data", vaddr: int = GOT) -> Part:
    return Part(name, SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, content, vaddr=vaddr)


def test_words_of_fixed_images() -> None:
    for content, place in ((pack("<Q", TARGET), GOT), (b"\1\2\3" + pack("<I", TARGET) + b"\4", GOT + 3)):
        assert pointed(image(b"\x90", data(content), elf_type=ET_EXEC)) == [(place, TARGET)]
        assert pointed(image(b"\x90", data(content))) == []
        relr = Part(".relr.dyn", 19, SHF_ALLOC, bytes(8), vaddr=0x600000)
        assert pointed(image(b"\x90", data(content), relr)) == [(place, TARGET)]


def test_distances() -> None:
    content = bytes(4) + pack("<i", TARGET - (GOT + 4))
    assert pointed(image(b"\x90", data(content))) == [(GOT + 4, TARGET)]


def test_dynamic_relocations() -> None:
    rows = [(GOT, 8, 0, TARGET), (GOT + 8, 37, 0, TARGET), (GOT + 16, 8, 0, TARGET + 1)]
    content = b"".join(pack("<QIIq", *row) for row in rows)
    rela = Part(".rela.dyn", SHT_RELA, SHF_ALLOC, content, vaddr=0x600000, entsize=24)
    assert pointed(image(b"\x90", rela)) == [(GOT, TARGET), (GOT + 8, TARGET)]
    packed = Part(".rela.dyn", 0x60000002, SHF_ALLOC, content, vaddr=0x600000)
    assert is_readable(image(b"\x90", rela)) and not is_readable(image(b"\x90", packed))


def test_entry_points() -> None:
    entries = pack("<6Q", 12, TARGET, 13, 0, 0, 0)  # DT_INIT, DT_FINI, DT_NULL
    assert pointed(image(b"\x90", data(entries, ".dynamic"))) == [(0, TARGET)]


def test_personality_routines() -> None:
    cie = pack("<II", 0x1C, 0) + b"\x01zPLR\0\x01\x78\x10\x07"
    place = GOT + len(cie) + 1  # after the encoding
    frames = cie + b"\x1b" + pack("<i", TARGET - place) + bytes(40)
    assert place % 4  # of any alignment
    assert [target for _, target in pointed(image(b"\x90", data(frames, ".eh_frame")))] == [TARGET]
    fde = pack("<IIi", 0x1C, 0x20, TARGET - (GOT + 8)) + bytes(40)
    assert pointed(image(b"\x90", data(fde, ".eh_frame"))) == []
