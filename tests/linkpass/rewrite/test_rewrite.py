"""Rewriting small assembled files: where bytes go, what is refused, and what a failure leaves behind."""

from __future__ import annotations

import errno
import os
import resource
import stat
import tempfile
from pathlib import Path
from struct import pack

import pytest

from icf.elf.image import Image
from icf.elf.types import (
    ET_REL,
    PT_LOAD,
    SHF_ALLOC,
    SHF_INFO_LINK,
    SHT_GROUP,
    SHT_RELA,
    SHT_SYMTAB_SHNDX,
)
from icf.errors import FormatError, IcfError, UnsupportedError
from linkpass.rewrite.check import check_images
from linkpass.rewrite.edits import SectionEdit, SectionGrowth
from linkpass.rewrite.sections import rewrite
from tests.support.elf import Elf, Part, Sym, symbol_parts

TABLE = SectionEdit(".debug_dcall", b"table", align=4)
PARTS = [
    Part(".text", flags=SHF_ALLOC, content=b"\xc3" * 16, vaddr=0x1000, align=16),
    Part(".debug_info", content=b"info"),
    Part(".debug_line", content=b"line", align=16),
]


def make(path: Path, parts: list[Part] = PARTS, **more: object) -> Path:
    segments = [(PT_LOAD, 5, ".text")] if any(part.name == ".text" for part in parts) else []
    path.write_bytes(Elf(parts, segments, **more).build())  # type: ignore[arg-type]
    return path


def names(path: Path) -> list[str]:
    with Image.open(path, allow_rel=True) as image:
        return [section.name for section in image.sections]


def contents(path: Path, section: str) -> bytes:
    with Image.open(path, allow_rel=True) as image:
        return bytes(image.contents(section))


def apply(
    path: Path,
    out: Path,
    edits: list[SectionEdit],
    growths: list[SectionGrowth] | None = None,
    removals: list[str] | None = None,
) -> None:
    with Image.open(path, allow_rel=True) as image:
        rewrite(image, out, edits, growths or [], removals or [])


def test_a_section_is_added_and_all_else_stays(tmp_path: Path) -> None:
    path, out = make(tmp_path / "a.out"), tmp_path / "b.out"
    apply(path, out, [TABLE])
    assert names(out) == ["", ".text", ".debug_info", ".debug_line", ".shstrtab", ".debug_dcall"]
    assert contents(out, ".debug_dcall") == b"table"
    with Image.open(path) as image, Image.open(out) as after:
        assert after.sections[1] == image.sections[1]
        for section, same in zip(after.sections[2:4], image.sections[2:4], strict=True):
            assert section._replace(offset=0) == same._replace(offset=0)
        dcall = after.section(".debug_dcall")
        assert dcall is not None and dcall.offset % 4 == 0


def test_what_a_pass_changes_comes_last(tmp_path: Path) -> None:
    path, out = make(tmp_path / "a.out", [*PARTS, *symbol_parts([Sym("f", 2, 1, 1, 0x1000)], 4)]), tmp_path / "b.out"
    apply(path, out, [TABLE, SectionEdit(".debug_icf", b"icf")], [SectionGrowth(".debug_info", b"tail")])
    with Image.open(out) as after:
        tail = sorted((s for s in after.sections[1:] if not s.is_alloc), key=lambda section: section.offset)
    order = [".debug_line", ".strtab", ".debug_info", ".symtab", ".debug_dcall", ".debug_icf", ".shstrtab"]
    assert [section.name for section in tail] == order


@pytest.mark.parametrize("content", [b"", b"t", b"table", b"a longer table" * 100])
def test_a_replacement_of_any_length(content: bytes, tmp_path: Path) -> None:
    path = make(tmp_path / "a.out")
    apply(path, path, [TABLE, SectionEdit(".debug_icf", b"icf")])
    apply(path, path, [SectionEdit(".debug_dcall", content), SectionEdit(".debug_icf", b"icf")])
    assert contents(path, ".debug_dcall") == content and contents(path, ".debug_icf") == b"icf"
    assert names(path)[-2:] == [".debug_dcall", ".debug_icf"]
    fresh = make(tmp_path / "fresh")
    apply(fresh, fresh, [SectionEdit(".debug_dcall", content), SectionEdit(".debug_icf", b"icf")])
    assert path.read_bytes() == fresh.read_bytes()  # the history does not show


def test_a_second_run_gives_the_same_bytes(tmp_path: Path) -> None:
    path = make(tmp_path / "a.out")
    edits = [TABLE, SectionEdit(".debug_line", b"other line", align=16), SectionEdit(".debug_icf", b"", align=8)]
    apply(path, tmp_path / "1", edits, [SectionGrowth(".debug_info", b"tail")])
    apply(tmp_path / "1", tmp_path / "2", edits, [SectionGrowth(".debug_info", b"tail", keep_bytes=4)])
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_growth_moves_what_follows_and_keeps_alignment(tmp_path: Path) -> None:
    path, out = make(tmp_path / "a.out"), tmp_path / "b.out"
    apply(path, out, [], [SectionGrowth(".debug_info", b"!" * 33)])
    assert contents(out, ".debug_info") == b"info" + b"!" * 33 and contents(out, ".debug_line") == b"line"
    with Image.open(path) as image, Image.open(out) as after:
        assert [s.index for s in after.sections] == [s.index for s in image.sections]
        line = after.section(".debug_line")
        assert line is not None and line.offset % 16 == 0
    assert len(out.read_bytes()) <= len(path.read_bytes()) + 33 + 16


def test_growth_can_replace_an_earlier_tail(tmp_path: Path) -> None:
    path = make(tmp_path / "a.out")
    apply(path, path, [], [SectionGrowth(".debug_info", b"-longer tail")])
    apply(path, path, [], [SectionGrowth(".debug_info", b"-tail", keep_bytes=4)])
    assert contents(path, ".debug_info") == b"info-tail"
    with pytest.raises(IcfError, match=r"10 bytes of \.debug_info are to stay, it has 9"):
        apply(path, path, [], [SectionGrowth(".debug_info", b"", keep_bytes=10)])


def test_growth_of_a_section_before_loaded_bytes_moves_it(tmp_path: Path) -> None:
    path = make(tmp_path / "a.out", [PARTS[1], PARTS[0], PARTS[2]])
    apply(path, path, [], [SectionGrowth(".debug_info", b"tail")])
    assert contents(path, ".debug_info") == b"infotail" and contents(path, ".text") == b"\xc3" * 16
    first = path.read_bytes()
    apply(path, path, [], [SectionGrowth(".debug_info", b"tail", keep_bytes=4)])
    assert path.read_bytes() == first


def relocated_parts() -> list[Part]:
    """Sections 1 .text, 2 .rela.text, 3 .debug_info, 4 .rela.debug_info, 5 .symtab, 6 .strtab, 7 .symtab_shndx."""
    symbols = [Sym("", 3, 0, 2), Sym("", 3, 0, 3), Sym("", 3, 0, 4), Sym("f", 2, 1, 1, 0x1000), Sym("g", 0, 1, 0)]
    rela = pack("<QIIq", 0x1000, 1, 4, 0)
    return [
        PARTS[0],
        Part(".rela.text", SHT_RELA, SHF_INFO_LINK, rela, link=5, info=1, align=8, entsize=24),
        PARTS[1],
        Part(".rela.debug_info", SHT_RELA, 0, rela, link=5, info=3, align=8, entsize=24),
        *symbol_parts(symbols, 5),
        Part(".symtab_shndx", SHT_SYMTAB_SHNDX, 0, bytes(24), link=5, align=4, entsize=4),
    ]


def test_removal_of_all_relocations_takes_their_section_symbols_along(tmp_path: Path) -> None:
    path = make(tmp_path / "a.out", relocated_parts())
    apply(path, path, [TABLE], removals=[".rela.text", ".rela.debug_info", ".rela.absent"])
    assert names(path) == [
        "",
        ".text",
        ".debug_info",
        ".symtab",
        ".strtab",
        ".symtab_shndx",
        ".shstrtab",
        ".debug_dcall",
    ]
    with Image.open(path) as image:
        assert image.symbols.names(range(image.symbols.count)) == ["", "", "f", "g"]
        assert image.symbols.shndx.tolist() == [0, 2, 1, 0]
        symtab = image.section(".symtab")
        assert symtab is not None and (symtab.link, symtab.info) == (4, 2)
        assert len(image.contents(".symtab_shndx")) == 16
    first = path.read_bytes()
    apply(path, path, [TABLE], removals=[".rela.text", ".rela.debug_info", ".rela.absent"])
    assert path.read_bytes() == first


def test_removal_keeps_symbol_rows_that_other_relocations_count_on(tmp_path: Path) -> None:
    path = make(tmp_path / "a.out", relocated_parts())
    apply(path, path, [], removals=[".rela.debug_info"])
    with Image.open(path) as image:
        assert image.symbols.count == 6 and not image.symbols.is_defined[3]
        relocations = image.relocations(".rela.text")
        assert relocations is not None and image.symbols.name(int(relocations.symbol[0])) == "f"
        assert image.sections[relocations.section.info].name == ".text"


def test_removal_renumbers_groups_and_drops_their_members(tmp_path: Path) -> None:
    parts = relocated_parts()
    parts += [Part(".group", SHT_GROUP, 0, pack("<4I", 1, 1, 2, 3), link=5, info=4, align=4, entsize=4)]
    path = make(tmp_path / "a.o", parts, type=ET_REL)
    apply(path, path, [], removals=[".rela.text"])
    assert contents(path, ".group") == pack("<3I", 1, 1, 2)


def test_removal_of_a_section_that_is_needed_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "a.out", relocated_parts())
    with pytest.raises(IcfError, match=r"\.strtab cannot be removed, section \.symtab refers to it"):
        apply(path, path, [], removals=[".strtab"])
    with pytest.raises(IcfError, match=r"\.debug_info cannot be removed, section \.rela\.debug_info refers to it"):
        apply(path, path, [], removals=[".debug_info"])


def test_an_edit_may_name_the_sections_it_is_linked_to(tmp_path: Path) -> None:
    path = make(tmp_path / "a.o", relocated_parts(), type=ET_REL)
    edits = [
        SectionEdit(".icf_dcall", bytes(8)),
        SectionEdit(
            ".rela.icf_dcall", pack("<QIIq", 0, 1, 4, 5), 8, SHT_RELA, SHF_INFO_LINK, 24, ".symtab", ".icf_dcall"
        ),
    ]
    apply(path, path, edits)
    with Image.open(path, allow_rel=True) as image:
        relocations = image.relocations(".rela.icf_dcall")
        assert relocations is not None and relocations.symbols.name(int(relocations.symbol[0])) == "f"
        assert image.sections[relocations.section.info].name == ".icf_dcall"
    with pytest.raises(IcfError, match=r"section \.a refers to \.absent, which does not exist"):
        apply(path, path, [SectionEdit(".a", b"", link=".absent")])


def test_counts_at_the_sixteen_bit_limit(tmp_path: Path) -> None:
    """From below the limit to it, from there to there, and back."""
    count = 0xFEFD
    path = make(tmp_path / "a.out", [Part(f".s{index}") for index in range(count)])
    with Image.open(path) as image:
        rewrite(image, tmp_path / "b.out", [TABLE])
    with Image.open(tmp_path / "b.out") as image:
        assert len(image.sections) == count + 3
        assert bytes(image.contents(".debug_dcall")) == b"table"
        assert image.sections[image.headers.shstrndx].name == ".shstrtab"
        rewrite(image, tmp_path / "c.out", [SectionEdit(".debug_dcall", b"other", align=4)])
    with Image.open(tmp_path / "c.out") as image:
        assert len(image.sections) == count + 3
        assert bytes(image.contents(".debug_dcall")) == b"other"
        rewrite(image, tmp_path / "d.out", [], removals=[".debug_dcall", ".s0", ".s1", ".s2"])
    with Image.open(tmp_path / "d.out") as image:
        assert len(image.sections) == count - 1
        assert image.sections[image.headers.shstrndx].name == ".shstrtab"


@pytest.mark.parametrize(
    ("edits", "growths", "removals", "error", "message"),
    [
        ([SectionEdit(".text", b"")], [], [], UnsupportedError, r"\.text is loaded, only sections that are not"),
        ([], [SectionGrowth(".text", b"")], [], UnsupportedError, r"\.text is loaded"),
        ([], [], [".text"], UnsupportedError, r"\.text is loaded"),
        ([SectionEdit(".shstrtab", b"")], [], [], UnsupportedError, r"\.shstrtab holds the section names"),
        ([TABLE, TABLE], [], [], IcfError, r"section '\.debug_dcall' is to be changed twice"),
        ([SectionEdit(".debug_info", b"")], [], [".debug_info"], IcfError, r"changed twice"),
        ([SectionEdit("", b"")], [], [], IcfError, r"has no name"),
        ([SectionEdit(".a", b"", align=3)], [], [], IcfError, r"alignment is 3, must be a power of two"),
        ([], [SectionGrowth(".absent", b"")], [], IcfError, r"\.absent is to grow, and does not exist"),
    ],
)
def test_requests_that_are_refused(
    edits: list[SectionEdit],
    growths: list[SectionGrowth],
    removals: list[str],
    error: type[IcfError],
    message: str,
    tmp_path: Path,
) -> None:
    path = make(tmp_path / "a.out")
    before = path.read_bytes()
    with pytest.raises(error, match=message):
        apply(path, path, edits, growths, removals)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.out"]


def test_images_that_are_refused(tmp_path: Path) -> None:
    good = make(tmp_path / "a.out").read_bytes()
    path = tmp_path / "b.out"
    path.write_bytes(good + b"payload")
    with pytest.raises(UnsupportedError, match=r"7 bytes at 0x[0-9a-f]+ follow the ELF image"):
        apply(path, path, [TABLE])
    path.write_bytes(good + bytes(100))  # padding has no reader
    apply(path, path, [TABLE])
    path.write_bytes(good[:40] + bytes(8) + good[48:60] + bytes(4) + good[64:])
    with pytest.raises(UnsupportedError, match="has no section headers"):
        apply(path, path, [TABLE])
    make(path, [PARTS[0], Part(".debug_info", content=b"info", align=3)])
    with pytest.raises(FormatError, match=r"section \.debug_info has alignment 3"):
        apply(path, path, [TABLE])
    make(path, [PARTS[0], Part(".debug_info", content=b"info", size_bytes=6), Part(".debug_line", content=b"line")])
    with pytest.raises(UnsupportedError, match=r"sections \.debug_info and \.debug_line overlap"):
        apply(path, path, [TABLE])
    make(path, [*PARTS, Part(".debug_str", size_bytes=1 << 40)])
    with pytest.raises(FormatError, match=r"section \.debug_str of 1099511627776 bytes .* ends outside of the file"):
        apply(path, path, [TABLE])


def test_mode_and_symbolic_links_are_kept(tmp_path: Path) -> None:
    path = make(tmp_path / "a.out")
    path.chmod(0o751)
    (tmp_path / "link").symlink_to("a.out")
    apply(tmp_path / "link", tmp_path / "link", [TABLE])
    assert (tmp_path / "link").is_symlink() and contents(path, ".debug_dcall") == b"table"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert sorted(os.listdir(tmp_path)) == ["a.out", "link"]


def test_the_target_is_no_regular_file(tmp_path: Path) -> None:
    path = make(tmp_path / "a.out")
    (tmp_path / "directory").mkdir()
    with pytest.raises(IcfError, match="directory: is not a regular file"):
        apply(path, tmp_path / "directory", [TABLE])


def test_a_file_that_may_not_get_so_large_leaves_the_target_as_it_was(tmp_path: Path) -> None:
    path = make(tmp_path / "a.out")
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) - 1, limits[1]))
    try:
        with pytest.raises(OSError, match=f"File too large: '{path}'"):
            apply(path, path, [TABLE])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.out"]


def test_to_a_file_system_that_the_kernel_does_not_copy_to(tmp_path: Path) -> None:
    path = make(tmp_path / "a.out")
    apply(path, tmp_path / "1", [TABLE])
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        with path.open("rb") as source, (Path(other) / "probe").open("wb") as target:
            try:
                os.copy_file_range(source.fileno(), target.fileno(), 4, 0, 0)
                pytest.skip("the kernel copies between these file systems")
            except OSError as error:
                assert error.errno == errno.EXDEV
        apply(path, Path(other) / "2", [TABLE])
        assert (Path(other) / "2").read_bytes() == (tmp_path / "1").read_bytes()
        apply(Path(other) / "2", path, [TABLE])
        assert path.read_bytes() == (tmp_path / "1").read_bytes()


def test_the_check_sees_each_kind_of_damage(tmp_path: Path) -> None:
    path, out = make(tmp_path / "a.out", relocated_parts()), tmp_path / "b.out"
    removals = [".rela.debug_info"]
    apply(path, out, [TABLE], [SectionGrowth(".debug_info", b"tail")], removals)
    good = out.read_bytes()
    with Image.open(path) as image:
        size_bytes = len(good)
        unseen = []
        for offset in range(size_bytes):
            out.write_bytes(good[:offset] + bytes([good[offset] ^ 1]) + good[offset + 1 :])
            try:
                with Image.open(out) as damaged:
                    check_images(image, damaged, [TABLE], [SectionGrowth(".debug_info", b"tail")], removals)
                unseen.append(offset)
            except IcfError:
                pass
    with Image.open(path) as image:
        rewrite(image, out, [TABLE], [SectionGrowth(".debug_info", b"tail")], removals)
    with Image.open(out) as image:
        covered = bytearray(size_bytes)
        for section in image.sections:
            ignored = section.name in (".symtab", ".symtab_shndx")  # st_other; no escaped index
            if not ignored and section.size_bytes:
                covered[section.offset : section.end] = b"\1" * section.size_bytes
        assert [offset for offset in unseen if covered[offset] and offset < image.headers.shoff] == []
