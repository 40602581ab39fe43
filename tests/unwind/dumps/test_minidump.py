"""Minidumps, made byte by byte: threads, modules, memory, the crash, and what is refused."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from icf.elf.types import Machine
from icf.errors import FormatError, UnsupportedError
from icf.filebytes import FileBytes
from tests.support.minidumps import MadeMinidump
from unwind.dumps.dump import ProcessDump
from unwind.dumps.minidump import read_minidump

REGISTERS = {number: 100 + number for number in range(17)}
OTHERS = {number: 200 + number for number in range(17)}


def read(made: MadeMinidump | bytes, folder: Path) -> ProcessDump:
    path = folder / "dump"
    path.write_bytes(made if isinstance(made, bytes) else made.build())
    return read_minidump(FileBytes.open(str(path)))


@pytest.mark.parametrize("padding", [b"", bytes(4)])
def test_threads_and_the_one_that_crashed(tmp_path: Path, padding: bytes) -> None:
    threads = [(7, REGISTERS, 0x1000, b"a" * 64), (8, REGISTERS, 0x5000, b"b" * 64)]
    made = MadeMinidump(threads=threads, exception=(8, 11, 0x18, OTHERS), pid=6, padding=padding)
    made.names = {7: "main", 8: "näher"}
    dump = read(made, tmp_path)
    assert [(each.tid, each.name, each.stopped_by) for each in dump.threads] == [
        (8, "näher", "SIGSEGV at address 0x18"),
        (7, "main", ""),
    ]
    assert dump.threads[0].registers == OTHERS and dump.threads[1].registers == REGISTERS
    assert dump.pid == 6 and dump.machine is Machine.X86_64
    assert bytes(dump.memory.view(0x5000, 0x5002)) == b"bb" and dump.memory.extent(0x5040) is None


def test_registers_of_aarch64(tmp_path: Path) -> None:
    registers = {number: 100 + number for number in range(33)}
    made = MadeMinidump(Machine.AARCH64, threads=[(7, registers, 0, b"")])
    assert read(made, tmp_path).threads[0].registers == registers


@pytest.mark.parametrize(("number", "text"), [(0xFFFFFFFF, ""), (6, "SIGABRT"), (99, "signal 99")])
def test_what_ended_the_process(number: int, text: str, tmp_path: Path) -> None:
    made = MadeMinidump(threads=[(7, REGISTERS, 0, b"")], exception=(7, number, 0, REGISTERS))
    assert read(made, tmp_path).threads[0].stopped_by == text


def test_memory_is_in_two_lists(tmp_path: Path) -> None:
    made = MadeMinidump(threads=[(7, REGISTERS, 0x1000, b"a" * 64)])
    made.memory, made.memory_64 = [(0x3000, b"c" * 16)], [(0x4000, b"d" * 16), (0x5000, b"e" * 8)]
    memory = read(made, tmp_path).memory
    found = [bytes(memory.view(start, start + 8)) for start in (0x1000, 0x3000, 0x4000, 0x5000)]
    assert found == [b"a" * 8, b"c" * 8, b"d" * 8, b"e" * 8]


def test_modules_have_build_ids_and_places(tmp_path: Path) -> None:
    made = MadeMinidump(threads=[(7, REGISTERS, 0, b"")])
    made.modules = [("/usr/bin/shop", b"\xab" * 20, 0x10000, 0x4000), ("linux-gate.so", b"\1" * 20, 0x90000, 0x1000)]
    (module,) = read(made, tmp_path).modules
    assert (module.path, module.build_id, module.load_address) == ("/usr/bin/shop", b"\xab" * 20, 0x10000)
    made.maps = b"10000-11000 r--p 0 08:01 7 /usr/bin/shop\n11000-14000 r-xp 1000 08:01 7 /usr/bin/shop\n\0"
    (module,) = read(made, tmp_path).modules
    assert (module.build_id, module.load_address) == (b"\xab" * 20, None)
    assert [each.offset for each in module.mappings] == [0, 0x1000]


@pytest.mark.parametrize(
    ("signature", "record", "build_id"),
    [
        (b"LEpB", b"\1" * 20, b"\1" * 20),
        (b"LEpB", bytes(20), b""),
        (b"RSDS", b"\2" * 16 + bytes(4) + b"shop\0", b"\2" * 16),  # the age is no part of it
        (b"RSDS", bytes(20) + b"shop\0", b""),  # Crashpad, of an image without a build id
        (b"NB10", b"\3" * 16, b""),
    ],
)
def test_records_of_build_ids(signature: bytes, record: bytes, build_id: bytes, tmp_path: Path) -> None:
    made = MadeMinidump(threads=[(7, REGISTERS, 0, b"")], signature=signature)
    made.modules = [("/usr/bin/shop", record, 0x10000, 0x4000)]
    assert read(made, tmp_path).modules[0].build_id == build_id


def test_an_image_that_is_listed_again_without_build_id_keeps_it(tmp_path: Path) -> None:
    made = MadeMinidump(threads=[(7, REGISTERS, 0, b"")])
    made.modules = [("/usr/bin/shop", b"\1" * 20, 0x10000, 0x1000), ("/usr/bin/shop", b"", 0x13000, 0x1000)]
    made.maps = b"10000-11000 r--p 0 08:01 7 /usr/bin/shop\n13000-14000 r-xp 3000 08:01 7 /usr/bin/shop\n"
    assert [each.build_id for each in read(made, tmp_path).modules] == [b"\1" * 20]


@pytest.mark.parametrize("name", ["linux-gate.so", "linux-vdso.so.1", "[vdso](0x0000000000090000)"])
def test_where_the_vdso_is(name: str, tmp_path: Path) -> None:
    made = MadeMinidump(threads=[(7, REGISTERS, 0, b"")], modules=[(name, b"\1" * 20, 0x90000, 0x1000)])
    dump = read(made, tmp_path)
    assert (dump.vdso, dump.vdso_build_id, dump.modules) == (0x90000, b"\1" * 20, [])


@pytest.mark.parametrize(
    ("status", "pid", "command"),
    [
        (b"Name:\tshop\nUmask:\t0022\nTgid:\t6\nPid:\t7\n", 6, "shop"),
        (b"Tgid:\t-6\nName\n", 0, ""),
        (b"Tgid:\t" + b"9" * 5000 + b"\n", 0, ""),
    ],
)
def test_the_status_of_the_process(status: bytes, pid: int, command: str, tmp_path: Path) -> None:
    made = MadeMinidump(threads=[(7, REGISTERS, 0, b"")], status=status)
    assert (read(made, tmp_path).pid, read(made, tmp_path).command) == (pid, command)
    made.pid = 5
    assert read(made, tmp_path).pid == 5


@pytest.mark.parametrize(
    ("number", "pc", "text"),
    [
        (11, 0x10018, "SIGSEGV"),  # code that runs can be read: lldb has the address of the instruction
        (4, 0x10018, "SIGILL at address 0x10018"),
        (11, 0x18, "SIGSEGV at address 0x18"),  # a call through a bad pointer
    ],
)
def test_the_address_of_an_instruction_is_not_that_of_the_memory(
    number: int, pc: int, text: str, tmp_path: Path
) -> None:
    registers = REGISTERS | {16: pc}
    made = MadeMinidump(threads=[(7, registers, 0, b"")], exception=(7, number, pc, registers))
    made.maps = b"10000-14000 r-xp 0 08:01 7 /usr/bin/shop\n"
    assert read(made, tmp_path).threads[0].stopped_by == text


def test_a_list_of_mappings_that_is_malformed_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = MadeMinidump(threads=[(7, REGISTERS, 0, b"")], modules=[("/usr/bin/shop", b"\1" * 20, 0x10000, 0x4000)])
    made.maps = b"10000-14000 r-xp 0 08:01 7 /usr/bin/sh\n1"
    assert read(made, tmp_path).modules[0].load_address == 0x10000
    assert "dump: maps+0x27: b'1' is not a mapping" in caplog.text


@pytest.mark.parametrize(
    ("at", "content", "message"),
    [
        (0, b"MDMQ", r"dump: minidump header\+0x0: not a minidump: starts with 4d444d51, must start with 4d444d50"),
        (4, pack("<I", 7), r"dump: minidump header\+0x4: version is 0x7, must be 0xa793"),
        (8, pack("<I", 1 << 30), r"dump: minidump header\+0x8: has 1073741824 streams, must have 4096 or fewer"),
        (
            12,
            pack("<I", 1 << 30),
            r"dump: stream directory\+0x40000000: \d+ bytes end outside of the file of \d+ bytes",
        ),
        (32 + 12 + 4, pack("<I", 1 << 30), r"dump: ThreadListStream\+0x[0-9a-f]+: 1073741824 bytes end outside"),
        (32 + 12 + 4, pack("<I", 10), r"dump: ThreadListStream\+0x0: 1 entries of 48 bytes do not fit 10 bytes"),
        (32 + 12 + 4, pack("<I", 0), r"dump: ThreadListStream\+0x0: there is no thread"),
    ],
)
def test_what_is_refused(at: int, content: bytes, message: str, tmp_path: Path) -> None:
    made = bytearray(MadeMinidump(threads=[(7, REGISTERS, 0, b"")]).build())
    made[at : at + len(content)] = content
    with pytest.raises(FormatError, match=message):
        read(bytes(made), tmp_path)


def test_other_systems_are_refused(tmp_path: Path) -> None:
    made = MadeMinidump(threads=[(7, REGISTERS, 0, b"")], platform=0x8101)  # macOS
    with pytest.raises(UnsupportedError, match="a minidump of processor 9, platform 0x8101 is not handled"):
        read(made, tmp_path)
