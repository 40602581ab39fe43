"""Truncations and mutations of core files and minidumps: read as far as they go, or refused in one line; no loop."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from struct import pack, pack_into

import pytest

from icf.elf.types import EHDR, PF_X, PHDR, Machine
from icf.errors import IcfError
from icf.filebytes import FileBytes
from icf.pe.image import PeImage
from tests.fuzz.limits import alarms, many, peak_memory, reset_peak_memory
from tests.support.cores import MadeCore, MadeThread
from tests.support.elf import Elf, Part
from tests.support.minidumps import MadeMinidump
from tests.support.paths import ROOT
from unwind.dumps.core import read_core
from unwind.dumps.dump import ProcessDump
from unwind.dumps.images import DumpImages
from unwind.dumps.minidump import read_minidump
from unwind.dumps.walk import FRAME_LIMIT, DumpWalker
from unwind.process.image_finder import ImageFinder

SHOP = ROOT / "testdata" / "shop" / "shop.gold"
MUTATION_COUNT = many(3_000)
LONGEST_S, MEMORY_BYTES = 5, 1 << 28
VALUES = (0, 1, 0x7F, 0x80, 0xFF)
LOAD, STACK = 0x555500000000, 0x7FFF00000000
CALLER = LOAD + 0x8FF  # in Ledger::post
WORDS = [0, LOAD + 0x74A, 0, 0, 0, LOAD + 0x781, 0, 0] * 8  # post returns to main, main to _start


def registers(pc: int) -> list[int]:
    """Those of struct user_regs_struct, x86-64."""
    values = [0] * 27
    values[16], values[19] = pc, STACK  # rip, rsp
    return values


def made_core(*, lists_files: bool = True) -> bytes:
    core = MadeCore(threads=[MadeThread(7, registers(CALLER), 11), MadeThread(8, registers(0))])
    first_page = SHOP.read_bytes()[:4096]
    core.memory = [(LOAD, first_page, 4096, PF_X), (STACK, pack(f"<{len(WORDS)}Q", *WORDS), 4096, 6)]
    core.siginfo = bytes(128)
    if lists_files:
        core.files = [(LOAD, LOAD + 4096, 0, bytes(SHOP))]
    else:
        core.auxv = {3: LOAD + 64, 31: STACK + 8 * len(WORDS)}  # AT_PHDR, AT_EXECFN
        core.memory[1] = (STACK, core.memory[1][1] + bytes(SHOP) + b"\0", 4096, 6)
    return core.build()


def made_minidump() -> bytes:
    by_number = dict.fromkeys(range(17), 0) | {16: CALLER, 7: STACK}
    stack = pack(f"<{len(WORDS)}Q", *WORDS)
    made = MadeMinidump(threads=[(7, by_number, STACK, stack), (8, by_number, STACK, stack)], pid=7)
    build_id = bytes.fromhex("c9d4cd3e925775808f7aa5758c884babf3b40c1f")
    made.modules = [(str(SHOP), build_id, LOAD, 0x3000)]
    made.memory, made.memory_64 = [(STACK + 0x1000, stack)], [(STACK + 0x2000, stack)]
    made.exception, made.names = (7, 11, 0, by_number), {7: "main"}
    made.maps = f"{LOAD:x}-{LOAD + 0x3000:x} r-xp 00000000 08:01 7 {SHOP}\n".encode()
    return made.build()


def made_windows_minidump() -> bytes:
    """One whose thread is in `count`, called by `discount`, `orders` and the entry point of the program."""
    folder = ROOT / "testdata" / "pe"
    with PeImage.open(str(folder / "shop.exe")) as image:
        codeview, headers, base = image.codeview, image.headers, image.base
    assert codeview is not None
    words = [base + 0x102C, *[0] * 5, base + 0x10BA, *[0] * 7, base + 0x1188, *[0] * 20]
    by_number = dict.fromkeys(range(17), 0) | {16: base + 0x1010, 7: STACK}
    stack = pack(f"<{len(words)}Q", *words)
    made = MadeMinidump(platform=2, threads=[(7, by_number, STACK, stack)], pid=7, signature=b"RSDS")
    record = codeview.signature + pack("<I", codeview.age) + b"shop.pdb\0"
    made.modules, made.timestamp = (
        [(str(folder / "shop.exe"), record, base, headers.image_size_bytes)],
        headers.timestamp,
    )
    made.exception, made.parameters = (7, 0xC0000005, base, by_number), (0, 8)
    return made.build()


KINDS: dict[str, tuple[Callable[[FileBytes], ProcessDump], Callable[[], bytes]]] = {
    "core": (read_core, made_core),
    "core without files": (read_core, partial(made_core, lists_files=False)),
    "minidump": (read_minidump, made_minidump),
    "minidump of Windows": (read_minidump, made_windows_minidump),
}


FINDER = ImageFinder()


def outcome(content: bytes, path: Path, read: Callable[[FileBytes], ProcessDump]) -> int:
    """Return how many frames the threads of a dump have, which are bounded; 0 for one that was refused."""
    path.write_bytes(content)
    try:
        dump = read(FileBytes.open(str(path)))
    except IcfError as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error)
        return 0
    count = 0
    images = DumpImages(dump, FINDER)
    walker = DumpWalker(dump, images)
    for thread in dump.threads:
        walked = walker.walk(thread)
        assert 1 <= len(walked.frames) <= FRAME_LIMIT
        count += len(walked.frames)
        for frame in walked.frames[:4]:
            images.read(frame.cfa, 8)
    return count


def mutations(content: bytes, rng: random.Random, count: int) -> Iterator[bytes]:
    for _ in range(count):
        changed = bytearray(content)
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(rng.choice((64, 400, 1600, len(changed))))
            changed[at] = rng.choice((*VALUES, rng.randrange(256)))
            if rng.random() < 0.1:
                changed[at : at + 8] = b"\xff" * len(changed[at : at + 8])
        yield bytes(changed)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_mutated_has_a_stack(kind: str, tmp_path: Path) -> None:
    read, make = KINDS[kind]
    assert outcome(make(), tmp_path / "dump", read) >= 4


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    read, make = KINDS[kind]
    content = make()
    caplog.set_level("CRITICAL", "icf")
    counts = []
    with alarms():
        for size_bytes in range(1, len(content), 11):
            signal.alarm(LONGEST_S)
            counts.append(outcome(content[:size_bytes], tmp_path / "dump", read))
    is_core = kind.startswith("core")  # the streams of a minidump are its last bytes
    assert counts[0] == 0 and (counts[-1] > 0) == is_core


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_mutations(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    read, make = KINDS[kind]
    caplog.set_level("CRITICAL", "icf")
    counts = []
    before = reset_peak_memory()
    with alarms():
        for content in mutations(make(), random.Random(kind), MUTATION_COUNT):
            signal.alarm(LONGEST_S)
            counts.append(outcome(content, tmp_path / "dump", read))
    refused = counts.count(0)
    assert MUTATION_COUNT // 50 < refused < len(counts) - MUTATION_COUNT // 50
    assert peak_memory() - before < MEMORY_BYTES


def test_a_sparse_core_file_of_a_terabyte_costs_what_is_asked_for(tmp_path: Path) -> None:
    """Its one segment is as large as the file; the stack is somewhere in it."""
    content = bytearray(made_core())
    size_bytes = 1 << 40
    at = EHDR.size + 2 * PHDR.size  # the second PT_LOAD
    pack_into("<QQQQQ", content, at + 8, 1 << 20, STACK - (1 << 39), 0, size_bytes - (1 << 20), size_bytes)
    path = tmp_path / "core"
    with open(path, "wb") as file:
        file.write(content)
        file.truncate(size_bytes)
    before = reset_peak_memory()
    dump = read_core(FileBytes.open(str(path)))
    with alarms():
        signal.alarm(LONGEST_S)
        walker = DumpWalker(dump, DumpImages(dump, FINDER))
        assert [len(walker.walk(thread).frames) for thread in dump.threads] != []
    assert peak_memory() - before < MEMORY_BYTES + (1 << 27)
    os.unlink(path)


def test_a_stack_that_leads_to_itself_ends(tmp_path: Path) -> None:
    """Each return address leads to the same code, as far as memory goes."""
    core = MadeCore(threads=[MadeThread(7, registers(CALLER), 11)])
    words = [CALLER] * (1 << 16)
    core.memory = [(LOAD, SHOP.read_bytes()[:4096], 4096, PF_X), (STACK, pack(f"<{len(words)}Q", *words), 1 << 19, 6)]
    core.files = [(LOAD, LOAD + 4096, 0, bytes(SHOP))]
    with alarms():
        signal.alarm(4 * LONGEST_S)
        assert 1000 < outcome(core.build(), tmp_path / "core", read_core) <= FRAME_LIMIT


def test_the_vdso_of_a_dump_may_be_anything(tmp_path: Path) -> None:
    rng = random.Random(3)
    image = Elf([Part(".text", content=b"\xc3" * 64, vaddr=0x1000, flags=6)]).build()
    for _ in range(many(300)):
        core = MadeCore(Machine.X86_64, [MadeThread(7, registers(STACK + 0x100), 11)], vdso=STACK)
        vdso = bytearray(image.ljust(4096, b"\0"))
        for _ in range(rng.randrange(4)):
            vdso[rng.randrange(256)] = rng.choice(VALUES)
        core.memory = [(STACK, bytes(vdso), 4096, PF_X)]
        assert outcome(core.build(), tmp_path / "core", read_core) >= 1
