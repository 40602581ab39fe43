"""Core files, made byte by byte: threads, signals, mapped files, memory, and what is refused."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from icf.elf.types import PF_X, Machine
from icf.errors import FormatError, IcfError
from icf.filebytes import FileBytes
from tests.support.cores import NT_FILE, NT_PRSTATUS, MadeCore, MadeThread, note
from unwind.dumps.core import read_core
from unwind.dumps.core_notes import Notes
from unwind.dumps.dump import ProcessDump

RSP, RIP, RBX = 7, 16, 3
REGISTERS = range(1000, 1027)  # r15 is 1000, rip 1016, rsp 1019
SEGV = pack("<3iiQ", 11, 0, 1, 0, 0x18) + bytes(104)  # si_signo, si_errno, si_code, padding, si_addr


def read(core: MadeCore | bytes, folder: Path) -> ProcessDump:
    path = folder / "core"
    path.write_bytes(core if isinstance(core, bytes) else core.build())
    return read_core(FileBytes.open(str(path)))


def test_threads_have_registers_by_dwarf_number_and_the_first_has_the_signal(tmp_path: Path) -> None:
    core = MadeCore(threads=[MadeThread(7, REGISTERS, 11), MadeThread(8, REGISTERS, 11)], siginfo=SEGV, vdso=0x7000)
    dump = read(core, tmp_path)
    assert [thread.tid for thread in dump.threads] == [7, 8]
    assert [thread.stopped_by for thread in dump.threads] == ["SIGSEGV at address 0x18", ""]
    registers = dump.threads[0].registers
    assert (registers[RIP], registers[RSP], registers[RBX], registers[15], registers[0]) == (
        1016,
        1019,
        1005,
        1000,
        1010,
    )
    assert (dump.pid, dump.command, dump.vdso) == (7, "shop", 0x7000)


def test_registers_of_aarch64(tmp_path: Path) -> None:
    core = MadeCore(Machine.AARCH64, [MadeThread(7, range(34), 6)])
    dump = read(core, tmp_path)
    assert dump.threads[0].registers == {number: number for number in range(33)}
    assert dump.threads[0].stopped_by == "SIGABRT"


def test_memory_is_read_in_pieces_and_as_far_as_the_file_goes(tmp_path: Path) -> None:
    core = MadeCore(threads=[MadeThread(7, REGISTERS)])
    core.memory = [(0x3000, b"c" * 64, 128, 0), (0x1000, b"a" * 4096, 4096, 0), (0x1F00, b"b" * 512, 512, 0)]
    memory = read(core, tmp_path).memory
    assert memory.extent(0x1F80) == (0x1000, 0x2000)  # the lower of two that overlap
    assert memory.extent(0x2000) == (0x2000, 0x2100) and bytes(memory.view(0x2000, 0x2002)) == b"bb"
    assert memory.extent(0x3000) == (0x3000, 0x3040) and memory.extent(0x3040) is None
    cut = read(core.build()[:-600], tmp_path).memory
    assert cut.extent(0x3000) is None or cut.extent(0x3000) == (0x3000, 0x3040)


def test_a_file_is_a_module_if_it_has_code(tmp_path: Path) -> None:
    core = MadeCore(threads=[MadeThread(7, REGISTERS)])
    core.memory = [(0x1000, b"", 4096, 0), (0x2000, b"", 4096, PF_X), (0x5000, b"", 4096, 0)]
    core.files = [
        (0x1000, 0x2000, 0, b"/usr/bin/shop (deleted)"),
        (0x2000, 0x3000, 1, b"/usr/bin/shop (deleted)"),
        (0x5000, 0x6000, 0, b"/usr/lib/locale"),
    ]
    dump = read(core, tmp_path)
    assert [(each.path, each.build_id) for each in dump.modules] == [("/usr/bin/shop", b"")]
    assert [(each.offset, each.is_executable) for each in dump.modules[0].mappings] == [(0, False), (4096, True)]
    assert dump.code == [(0x2000, 0x3000)]


def test_a_core_file_that_is_cut_short_is_read_as_far_as_it_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    core = MadeCore(threads=[MadeThread(7, REGISTERS)], memory=[(0x1000, b"a" * 4096, 4096, 0)])
    content = core.build()
    assert read(content[:-4000], tmp_path).memory.extent(0x1000) == (0x1000, 0x1060)
    assert f"is cut short: {len(content) - 4000:,} of {len(content):,} bytes are there" in caplog.text


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        (b"", r"core: PT_NOTE\+0x0: no note NT_PRSTATUS: no thread"),
        (note(NT_PRSTATUS, bytes(100)), r"core: PT_NOTE\+0x14: needs 112 bytes, 100 are left"),
        (note(NT_PRSTATUS, bytes(160)), r"core: PT_NOTE\+0x84: needs 160 bytes, 48 are left"),
        (note(NT_FILE, pack("<2Q", 3, 4096) + bytes(48)), r"core: PT_NOTE\+0x14: NT_FILE has 3 entries, .* room for 2"),
        (note(NT_FILE, pack("<2Q", 1, 0) + bytes(48)), r"core: PT_NOTE\+0x1c: NT_FILE has pages of 0 bytes"),
        (note(NT_FILE, pack("<5Q", 1, 4096, 1, 2, 0)), r"core: PT_NOTE\+0x3c: string has no terminating NUL"),
        (pack("<3I", 5, 1000, 1) + b"CORE\0\0\0\0", r"core: PT_NOTE\+0x14: needs 1000 bytes, 0 are left"),
    ],
)
def test_notes_that_are_refused(notes: bytes, message: str, tmp_path: Path) -> None:
    core = MadeCore()
    core.notes = lambda: notes  # type: ignore[method-assign]
    with pytest.raises(FormatError, match=message):
        read(core, tmp_path)


def test_an_image_is_no_core_file(tmp_path: Path) -> None:
    content = bytearray(MadeCore(threads=[MadeThread(7, REGISTERS)]).build())
    content[16] = 2
    with pytest.raises(IcfError, match=r"core: ELF header\+0x10: ELF type is 2, that of a core file is 4"):
        read(bytes(content), tmp_path)


def test_pyelftools_reads_the_same_notes() -> None:
    """The bytes that the tests make are what another reader takes them for."""
    import io

    from elftools.elf.elffile import ELFFile
    from elftools.elf.segments import NoteSegment

    core = MadeCore(threads=[MadeThread(7, REGISTERS, 11)], files=[(0x1000, 0x2000, 3, b"/usr/bin/shop")])
    (segment,) = ELFFile(io.BytesIO(core.build())).iter_segments("PT_NOTE")
    assert isinstance(segment, NoteSegment)
    read_by_other = {note["n_type"]: note["n_desc"] for note in segment.iter_notes()}
    own = Notes(Machine.X86_64)
    own.read(memoryview(core.notes()), "core")
    assert read_by_other["NT_PRPSINFO"]["pr_pid"] == own.pid == 7
    (entry,) = own.files
    mapped = read_by_other["NT_FILE"]
    assert (mapped["Elf_Nt_File_Entry"][0]["vm_start"], mapped["filename"][0]) == (entry.start, b"/usr/bin/shop")


def test_code_that_gcore_leaves_out(tmp_path: Path) -> None:
    """No segment has the code of a library that is as in its file; NT_FILE says that it was mapped."""
    head = b"\x7fELF" + bytes(0xFFC)
    core = MadeCore(
        threads=[MadeThread(7, REGISTERS)],
        memory=[(0x10000, head, 0x1000, 4), (0x30000, bytes(0x1000), 0x1000, 4)],
        files=[
            (0x10000, 0x11000, 0, b"/usr/lib/libshop.so"),
            (0x11000, 0x15000, 1, b"/usr/lib/libshop.so"),
            (0x20000, 0x21000, 1, b"/usr/share/shop/names"),
            (0x30000, 0x31000, 0, b"/usr/share/shop/prices"),
        ],
    )
    dump = read(core, tmp_path)
    assert dump.code == [(0x11000, 0x15000)]
    assert [module.path for module in dump.modules] == ["/usr/lib/libshop.so"]
