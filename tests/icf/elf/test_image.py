"""Images of four linkers against pyelftools, and what an image answers about itself."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import pack
from threading import Barrier

import pytest
from elftools.elf.elffile import ELFFile

from icf.debugfiles.links import crc_of
from icf.elf import symbols as symbol_tables
from icf.elf.image import Image
from icf.elf.types import PT_LOAD, SHF_ALLOC, SHT_NOBITS, Machine
from icf.errors import FormatError
from tests.support.elf import Elf, Part
from tests.support.toolchain import LINKERS, compile_object, link, run, tool

PROGRAM = """
static int __attribute__((noinline)) local_one(int x) { return x * 3 + 1; }
int zeros[1000];
int main(int argc, char **argv) { return local_one(argc) + zeros[argc]; }
"""
COMPRESSION = {
    "bfd": ("none", "zlib"),
    "gold": ("none", "zlib"),
    "lld": ("none", "zlib", "zstd"),
    "mold": ("none", "zlib"),
}


def build(tmp_path: Path, linker: str, *flags: str) -> Path:
    program = compile_object(PROGRAM, "-O1", "-g", "-fPIC")
    return link(tmp_path / "a.out", linker, program, *flags)


@pytest.mark.parametrize(
    ("linker", "method"), [(linker, method) for linker, methods in COMPRESSION.items() for method in methods]
)
def test_sections_and_contents_are_those_of_pyelftools(linker: str, method: str, tmp_path: Path) -> None:
    path = build(tmp_path, linker, f"-Wl,--compress-debug-sections={method}", "-Wl,--emit-relocs")
    plain = build(tmp_path / "..", linker, "-Wl,--emit-relocs") if method == "zstd" else path
    with Image.open(path) as image, Image.open(plain) as other, path.open("rb") as file:
        oracle = ELFFile(file)
        assert len(image.sections) == oracle.num_sections()
        for ours, theirs in zip(image.sections, oracle.iter_sections(), strict=True):
            assert ours.name == theirs.name
            assert (ours.vaddr, ours.offset, ours.size_bytes) == (
                theirs["sh_addr"], theirs["sh_offset"], theirs["sh_size"],
            )  # fmt: skip
            assert (ours.link, ours.info, ours.align, ours.entsize) == (
                theirs["sh_link"], theirs["sh_info"], theirs["sh_addralign"], theirs["sh_entsize"],
            )  # fmt: skip
            if ours.type == SHT_NOBITS or image.is_compressed(ours) and method == "zstd":
                continue  # pyelftools knows zlib only
            assert image.contents(ours) == theirs.data()
        assert image.contents(".debug_info") == other.contents(".debug_info")
        if method != "none":
            info = image.section(".debug_info")
            assert info is not None and image.is_compressed(info)
        for ours_segment, theirs_segment in zip(image.segments, oracle.iter_segments(), strict=True):
            assert (ours_segment.vaddr, ours_segment.offset) == (theirs_segment["p_vaddr"], theirs_segment["p_offset"])
        assert image.entry == oracle["e_entry"]


@pytest.mark.parametrize("linker", LINKERS)
def test_identity(linker: str, tmp_path: Path) -> None:
    path = build(tmp_path, linker, "-Wl,--build-id=sha1")
    with Image.open(path) as image:
        assert image.linker.name == linker
        assert image.build_id.hex() in run(tool("readelf"), "-n", path).stdout
        assert len(image.build_id) == 20
        assert image.machine is Machine.X86_64
    with Image.open(build(tmp_path, linker, "-no-pie", "-Wl,--build-id=none")) as image:
        assert image.build_id == b""


def test_what_is_loaded_is_read_by_address(tmp_path: Path) -> None:
    with Image.open(build(tmp_path, "lld")) as image:
        text, bss = image.section(".text"), image.section(".bss")
        assert text is not None and bss is not None
        assert image.read(text.vaddr, text.size_bytes) == image.contents(text)
        assert bytes(image.read(bss.vaddr + bss.size_bytes - 1, 8)) == b"" and bytes(image.contents(".bss")) == b""
        assert bytes(image.read(0, 4)) == b"\x7fELF" and bytes(image.read(1 << 63, 1)) == b""


def test_a_read_ends_with_the_bytes_of_the_segment(tmp_path: Path) -> None:
    path = tmp_path / "a.out"
    path.write_bytes(
        Elf([Part(".text", flags=SHF_ALLOC, content=b"12345678", vaddr=16)], [(PT_LOAD, 5, ".text")]).build()
    )
    with Image.open(path) as image:
        assert bytes(image.read(16, 8)) == b"12345678" and bytes(image.read(20, 100)) == b"5678"
        assert bytes(image.read(24, 1)) == b"" and bytes(image.read(15, 1)) == b"" and bytes(image.read(16, 0)) == b""


def test_a_separate_debug_file_backs_no_address(tmp_path: Path) -> None:
    path = build(tmp_path, "lld", "-Wl,--build-id=sha1")
    run(tool("objcopy"), "--only-keep-debug", path, tmp_path / "a.debug")
    run(tool("eu-strip"), "-f", tmp_path / "b.debug", "-o", tmp_path / "b.out", path)
    with Image.open(path) as image:
        main = image.entry
        for name in ("a.debug", "b.debug"):
            with Image.open(tmp_path / name) as debug:
                assert debug.is_debug_file and not image.is_debug_file
                assert bytes(debug.read(main, 4)) == b""
                assert debug.contents(".debug_info") == image.contents(".debug_info")
                assert bytes(debug.contents(".text")) == b""
                assert debug.build_id == image.build_id
                assert debug.plt_stubs == {}


def test_the_build_id_without_section_headers(tmp_path: Path) -> None:
    path = build(tmp_path, "lld", "-Wl,--build-id=sha1")
    content = bytearray(path.read_bytes())
    content[40:48] = bytes(8)  # e_shoff
    content[60:64] = bytes(4)  # e_shnum, e_shstrndx
    (tmp_path / "bare").write_bytes(content)
    with Image.open(path) as image, Image.open(tmp_path / "bare") as bare:
        assert bare.build_id == image.build_id
        assert bare.sections == () and bare.symbols.count == 0 and bare.plt_stubs == {}
        assert bytes(bare.contents(".text")) == b"" and bare.relocations(".rela.dyn") is None


@pytest.mark.parametrize("method", ["none", "zlib"])
def test_a_private_copy_can_be_written_and_the_file_stays(method: str, tmp_path: Path) -> None:
    path = build(tmp_path, "lld", f"-Wl,--compress-debug-sections={method}")
    before = path.read_bytes()
    with Image.open(path) as image:
        contents = image.contents(".debug_info")
        expected = bytes(contents)
        copy = image.private_copy(".debug_info")
        assert copy == contents and not copy.readonly and contents.readonly
        copy[:] = bytes(len(copy))
        assert contents == expected and path.read_bytes() == before
        assert bytes(image.private_copy(".absent")) == b"" and bytes(image.private_copy(".bss")) == b""
    assert copy[0] == 0  # views outlive the image


def test_the_old_compressed_sections(tmp_path: Path) -> None:
    program = compile_object(PROGRAM, "-O1", "-g", "-fPIC")
    path = link(tmp_path / "a.out", "bfd", program, "-Wl,--compress-debug-sections=zlib-gnu")
    plain = link(tmp_path / "b.out", "bfd", program)
    with Image.open(path) as image, Image.open(plain) as other:
        section = image.section(".debug_info")
        assert section is not None and section.name == ".zdebug_info"
        assert image.named(".debug_info") is None
        assert image.contents(".debug_info") == other.contents(".debug_info")
        assert image.contents(section) is image.contents(".debug_info")  # inflated once


def test_a_section_outside_of_the_file_leaves_the_others_readable(tmp_path: Path) -> None:
    path = tmp_path / "a.out"
    parts = [Part(".debug_info", content=b"info"), Part(".debug_line", content=b"line", size_bytes=1 << 63)]
    path.write_bytes(Elf(parts).build())
    with Image.open(path) as image:
        assert bytes(image.contents(".debug_info")) == b"info"
        with pytest.raises(FormatError, match=r"section \.debug_line of 9223372036854775808 bytes at 0x[0-9a-f]+ ends"):
            image.contents(".debug_line")


def test_a_broken_note_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.out"
    note = pack("<III4s", 4, 1000, 3, b"GNU\0")
    path.write_bytes(Elf([Part(".note.gnu.build-id", 7, SHF_ALLOC, note, align=4)]).build())
    with Image.open(path) as image, pytest.raises(FormatError, match="needs 1000 bytes, 0 are left"):
        _ = image.build_id


@pytest.mark.parametrize("size_bytes", [0, 1000, 50_000])
def test_a_file_that_is_cut_short_while_it_is_open(size_bytes: int, tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(Elf([Part(".debug_info", content=b"info" * 50_000)]).build())
    with Image.open(path) as image:
        first = image.data[:64]
        before = bytes(first)
        os.truncate(path, size_bytes)
        assert before == bytes(first) == bytes(image.data[:64])  # what was read stays
        for ask in (
            lambda: image.contents(".debug_info"),
            lambda: image.private_copy(".debug_info"),
            lambda: crc_of(image.data),
        ):
            with pytest.raises(FormatError, match=rf"^{path}: file\+0x[0-9a-f]+: was truncated while being read$"):
                ask()


def test_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    """A file of holes, larger than any memory, costs what is looked at."""
    path = tmp_path / "sparse"
    path.write_bytes(Elf([Part(".debug_info", content=b"info")]).build())
    os.truncate(path, 1 << 38)
    with Image.open(path) as image:
        assert bytes(image.contents(".debug_info")) == b"info" and bytes(image.data[-2:]) == b"\0\0"


def test_opening_imports_nothing_heavy() -> None:
    code = (
        "import sys; from icf.elf.image import Image; Image.open(sys.executable).build_id;"
        "print([m for m in ('numpy', 'lief', 'capstone', 'elftools', 'zstandard') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert result.stdout == "[]\n", result.stderr


def test_threads_that_read_a_symbol_table_at_the_same_time_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a relocation names a dynamic symbol is asked by comparing tables (`icf.vtables.words`)."""
    together, read = Barrier(2, timeout=30), symbol_tables.read_symbols

    def read_together(*args: object, **options: object) -> symbol_tables.Symbols:
        together.wait()
        return read(*args, **options)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(symbol_tables, "read_symbols", read_together)
    with Image.open(str(build(tmp_path, "bfd"))) as image, ThreadPoolExecutor(2) as threads:
        row = next(section.index for section in image.sections if section.name == ".dynsym")
        first, second = threads.map(image.symbols_of, [row, row])
    assert first is second
