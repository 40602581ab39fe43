"""The chunk of a debug directory, byte by byte, and the directories of images of two linkers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from struct import pack

import pytest

from icf.errors import FormatError
from icf.pe.debugdirectory import (
    CODEVIEW,
    ENTRY_BYTES,
    CodeView,
    DebugEntry,
    codeview_of,
    pack_chunk,
    parse_chunk,
    parse_codeview,
)
from icf.pe.identity import read_identity
from icf.pe.keys import image_key, pdb_key, spellings
from tests.support import pe
from tests.support.toolchain import run, tool

GUID = bytes(range(16))
POGO, REPRO = 13, 16
RECORD = b"RSDS" + GUID + pack("<I", 0x1A) + b"C:\\out\\App.pdb\0"
ENTRIES = [
    DebugEntry(0, 0x62EE1B1F, 0, 0, POGO, b"GCTL\x01"),
    DebugEntry(7, 0x62EE1B1F, 1, 2, CODEVIEW, RECORD),
    DebugEntry(0, 0x62EE1B1F, 0, 0, REPRO, b""),
]
CHUNK = bytes.fromhex(
    "07000000"  # Characteristics
    "1f1bee62"  # TimeDateStamp
    "0100 0200"  # MajorVersion, MinorVersion
    "02000000"  # Type: CodeView, which is first
    "27000000"  # SizeOfData
    "00000000"  # AddressOfRawData
    "54000000"  # PointerToRawData: three entries from here
    "00000000 1f1bee62 0000 0000"
    "0d000000"  # Type: POGO
    "05000000"
    "00000000"
    "60000000"  # PointerToRawData: two entries and 0x28 bytes from here
    "00000000 1f1bee62 0000 0000"
    "10000000"  # Type: REPRO
    "00000000"
    "00000000"
    "00000000"  # without a blob
) + (RECORD + b"\0" + b"GCTL\x01")
HEADER_BYTES = 3 * ENTRY_BYTES


def test_a_chunk_has_the_entries_and_then_the_blobs() -> None:
    assert pack_chunk(ENTRIES) == CHUNK
    assert parse_chunk(CHUNK, HEADER_BYTES, "app.exe") == [ENTRIES[1], ENTRIES[0], ENTRIES[2]]
    assert pack_chunk([]) == b"" and parse_chunk(b"", 0, "app.exe") == []


def test_pointers_from_the_beginning_of_the_chunk_are_read_too() -> None:
    foreign = bytearray(CHUNK)
    foreign[ENTRY_BYTES + 24 : ENTRY_BYTES + 28] = pack("<I", HEADER_BYTES + 0x28)
    assert parse_chunk(bytes(foreign), HEADER_BYTES, "app.exe") == parse_chunk(CHUNK, HEADER_BYTES, "app.exe")


@pytest.mark.parametrize("size_bytes", range(len(CHUNK)))
def test_every_truncation_of_a_chunk_is_refused(size_bytes: int) -> None:
    with pytest.raises(FormatError, match=r"^app\.exe: debug directory\+0x[0-9a-f]+: \d+ bytes "):
        parse_chunk(CHUNK[:size_bytes], HEADER_BYTES, "app.exe")


def test_an_entry_that_is_cut_is_refused() -> None:
    with pytest.raises(FormatError, match="30 bytes of entries, must be a multiple of 28, 256 entries or fewer"):
        parse_chunk(CHUNK, 30, "app.exe")


def test_a_blob_among_the_entries_is_refused() -> None:
    inside = bytearray(CHUNK)
    inside[24:28] = pack("<I", HEADER_BYTES - 4)
    with pytest.raises(FormatError, match=r"debug directory\+0x0: 39 bytes at 0x50 are not a blob of the chunk"):
        parse_chunk(bytes(inside), HEADER_BYTES, "app.exe")


def test_a_codeview_record_names_the_pdb() -> None:
    codeview = parse_codeview(RECORD, "app.exe")
    assert codeview == CodeView(GUID, 0x1A, "C:\\out\\App.pdb")
    assert codeview_of(ENTRIES, "app.exe") == codeview
    assert pdb_key(codeview, "app.exe") == "App.pdb/030201000504070608090A0B0C0D0E0F1A/App.pdb"
    old = parse_codeview(b"NB10" + pack("<III", 0, 0x3B7D84D4, 2) + b"old.pdb\0", "app.exe")
    assert old is not None and pdb_key(old, "app.exe") == "old.pdb/3B7D84D42/old.pdb"
    assert parse_codeview(b"NB09....", "app.exe") is None


def test_an_image_without_the_name_of_a_pdb_has_its_image_key_alone() -> None:
    nameless = replace(ENTRIES[1], blob=b"RSDS" + GUID + pack("<I", 1) + b"\0")
    assert codeview_of([ENTRIES[0], nameless, ENTRIES[2]], "app.exe") is None
    assert image_key("C:\\Windows\\App.EXE", 0x2EE1B1F, 0x2F000) == "App.EXE/02EE1B1F2f000/App.EXE"


def test_both_spellings_of_a_key() -> None:
    assert spellings("App.pdb/0AB1/App.pdb") == ("App.pdb/0AB1/App.pdb", "app.pdb/0ab1/app.pdb")
    assert spellings("a/1/a") == ("a/1/a",)


@pytest.mark.parametrize("path", ["", "C:\\", "a/..", "..", ". .", "a/b\nc", "x/c:d"])
def test_a_name_that_leads_out_of_the_tree_is_refused(path: str) -> None:
    with pytest.raises(FormatError, match=r"app\.exe: CodeView\+0x0: '.*' is not a file name"):
        pdb_key(CodeView(GUID, 1, path), "app.exe")


@pytest.mark.parametrize("size_bytes", [3, 10, 22])
def test_a_codeview_record_that_is_cut_is_refused(size_bytes: int) -> None:
    if size_bytes > 3:
        with pytest.raises(FormatError, match=r"app\.exe: CodeView\+0x"):
            parse_codeview(RECORD[:size_bytes], "app.exe")
    else:
        assert parse_codeview(RECORD[:size_bytes], "app.exe") is None


@pytest.mark.parametrize(
    "find",
    [pe.program, *(partial(pe.of_pip, name) for name in ("t64.exe", "t64-arm.exe", "t32.exe"))],
    ids=["lld", "x64", "arm64", "x86"],
)
def test_the_directory_of_an_image_is_as_lief_reads_it(find: Callable[[], Path]) -> None:
    import lief

    path = find()
    identity, parsed = read_identity(str(path)), lief.PE.parse(str(path))
    assert parsed is not None and not identity.problems
    assert identity.timestamp == parsed.header.time_date_stamps
    assert identity.image_size_bytes == parsed.optional_header.sizeof_image
    listed = [
        (
            int(each.type),
            each.timestamp,
            each.sizeof_data,
            path.read_bytes()[each.pointerto_rawdata :][: each.sizeof_data],
        )
        for each in parsed.debug
    ]
    assert listed and [(each.type, each.timestamp, len(each.blob), each.blob) for each in identity.entries] == listed
    chunk = pack_chunk(identity.entries)
    assert parse_chunk(chunk, len(identity.entries) * ENTRY_BYTES, "chunk") == list(identity.entries)


def test_the_key_is_that_of_the_pdb() -> None:
    image = pe.program()
    codeview = codeview_of(read_identity(str(image)).entries, "app.exe")
    assert codeview is not None
    summary = run(tool("llvm-pdbutil"), "dump", "-summary", image.with_name("app.pdb")).stdout
    guid = re.search(r"GUID: \{(.*)\}", summary)
    assert guid is not None
    assert pdb_key(codeview, "app.exe") == f"app.pdb/{guid[1].replace('-', '')}1/app.pdb"


def test_a_file_that_is_not_a_pe_image_is_refused(tmp_path: Path) -> None:
    for content in (b"MZ", b"MZ" + bytes(100), b"\x7fELF" + bytes(100)):
        (tmp_path / "x.exe").write_bytes(content)
        with pytest.raises(FormatError, match=r"x\.exe: PE header\+0x0: is not a PE image"):
            read_identity(str(tmp_path / "x.exe"))


def test_a_directory_outside_of_the_file_is_refused(tmp_path: Path) -> None:
    content = bytearray(pe.program().read_bytes())
    optional = int.from_bytes(content[0x3C:0x40], "little") + 24
    content[optional + 160 : optional + 164] = pack("<I", 0x7000)  # the RVA of the debug directory
    (tmp_path / "x.exe").write_bytes(content)
    with pytest.raises(FormatError, match=r"debug directory\+0x0: 56 bytes at RVA 0x7000 are not in a section"):
        read_identity(str(tmp_path / "x.exe"))


def test_a_blob_that_is_not_in_the_file_is_left_out_with_a_line(tmp_path: Path) -> None:
    content = bytearray(pe.program().read_bytes())
    at = content.index(b"RSDS") - 2 * ENTRY_BYTES + 16
    content[at : at + 4] = pack("<I", 1 << 20)  # SizeOfData
    (tmp_path / "x.exe").write_bytes(content)
    identity = read_identity(str(tmp_path / "x.exe"))
    assert [each.blob for each in identity.entries] == [b"", b""]
    (problem,) = identity.problems
    assert re.search(r"x\.exe: debug directory: entry 0: 1048576 bytes at 0x[0-9a-f]+ are left out$", problem)
