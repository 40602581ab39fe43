"""Core files without NT_FILE: images by their headers in memory, with the names that the dynamic linker knows."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from icf.elf.types import EHDR, PF_X, PHDR, PT_DYNAMIC, PT_LOAD
from icf.filebytes import FileBytes
from tests.support.cores import MadeCore, MadeThread
from unwind.dumps.core import read_core
from unwind.dumps.dump import DumpedModule

PROGRAM, LIBRARY, DATA = 0x400000, 0x7F0000, 0x900000
DT_STRTAB, DT_SONAME, DT_DEBUG = 5, 14, 21
AT_PHDR, AT_EXECFN = 3, 31
R, W = 4, 2
DEBUG, FIRST, SECOND, NAME, PATH = (DATA + at for at in (0x10, 0x40, 0x80, 0xC0, 0xE0))


def header(vaddr: int, dynamic: int) -> bytes:
    """The first page of an image: data that can be read, then code, at `vaddr`; a dynamic section at its end."""
    loads = [(PT_LOAD, R, 0, vaddr, 0x1000), (PT_LOAD, R | PF_X, 0x1000, vaddr + 0x1000, 0x1000)]
    segments = [*loads, (PT_DYNAMIC, R, 0x800, vaddr + 0x800, 16 * dynamic)]
    ident = b"\x7fELF\2\1\1" + bytes(9)
    fields = (3, 62, 1, 0, EHDR.size, 0, 0, EHDR.size, PHDR.size, len(segments), 0, 0, 0)
    table = b"".join(
        PHDR.pack(kind, flags, offset, at, 0, size, size, 0x1000) for kind, flags, offset, at, size in segments
    )
    return EHDR.pack(ident, *fields) + table


def page(vaddr: int, *dynamic: tuple[int, int], text: bytes = b"") -> bytes:
    entries = b"".join(pack("<2Q", *each) for each in (*dynamic, (0, 0)))
    content = header(vaddr, len(dynamic) + 1).ljust(0x800, b"\0") + entries
    return (content.ljust(0xC00, b"\0") + text).ljust(0x1000, b"\0")


def link_map(bias: int, name: int, following: int) -> bytes:
    return pack("<5Q", bias, name, 0, following, 0)


def data(second_leads_to: int = 0) -> bytes:
    """r_debug, the program without a name, a library, and strings."""
    content = bytearray(0x1000)
    for at, part in (
        (DEBUG, pack("<2Q", 1, FIRST)),
        (FIRST, link_map(0, NAME, SECOND)),  # an empty name
        (SECOND, link_map(LIBRARY, PATH, second_leads_to)),
        (PATH, b"/opt/libshop.so\0/usr/bin/shop\0"),
    ):
        content[at - DATA : at - DATA + len(part)] = part
    return bytes(content)


def modules(folder: Path, core: MadeCore) -> list[DumpedModule]:
    (folder / "core").write_bytes(core.build())
    return read_core(FileBytes.open(str(folder / "core"))).modules


def core_of(data_page: bytes, auxv: dict[int, int], library: bytes = page(0)) -> MadeCore:
    core = MadeCore(threads=[MadeThread(7, range(27))])
    core.memory = [
        (PROGRAM, page(PROGRAM, (DT_DEBUG, DEBUG)), 0x1000, R),
        (PROGRAM + 0x1000, b"", 0x1000, R | PF_X),
        (LIBRARY, library, 0x1000, R),
        (LIBRARY + 0x1000, b"", 0x1000, R | PF_X),
        (DATA, data_page, 0x1000, R | W),
    ]
    core.auxv = auxv
    return core


AUXV = {AT_PHDR: PROGRAM + EHDR.size, AT_EXECFN: PATH + len("/opt/libshop.so") + 1}


@pytest.mark.parametrize("following", [0, FIRST, SECOND, 0x1234])
def test_the_dynamic_linker_knows_the_paths(following: int, tmp_path: Path) -> None:
    """Its list may lead to itself, or to memory that was not copied."""
    found = modules(tmp_path, core_of(data(following), AUXV))
    assert [(each.path, each.load_address) for each in found] == [
        ("/usr/bin/shop", PROGRAM),
        ("/opt/libshop.so", LIBRARY),
    ]
    assert [(each.start, each.end) for each in found[1].mappings] == [(LIBRARY, LIBRARY + 0x2000)]


@pytest.mark.parametrize("is_relocated", [False, True])
def test_a_library_has_a_name_of_its_own(is_relocated: bool, tmp_path: Path) -> None:
    strings = 0xC00 + (LIBRARY if is_relocated else 0)
    library = page(0, (DT_STRTAB, strings), (DT_SONAME, 1), text=b"\0libshop.so.1\0")
    found = modules(tmp_path, core_of(data(), {}, library))
    assert [each.path for each in found] == [f"image at {PROGRAM:#x}", "libshop.so.1"]


def test_headers_that_are_of_no_image_there(tmp_path: Path) -> None:
    core = core_of(data(), AUXV)
    core.memory[3] = (LIBRARY + 0x1000, b"", 0x1000, R)  # a file that is read
    assert [each.path for each in modules(tmp_path, core)] == ["/usr/bin/shop"]
    core = core_of(data(), AUXV)
    core.memory[3] = (LIBRARY + 0x1000, page(0), 0x2000, R | PF_X)  # code with the header in its first page
    assert [each.load_address for each in modules(tmp_path, core)] == [PROGRAM, LIBRARY]
