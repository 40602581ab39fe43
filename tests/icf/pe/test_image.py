"""PE images: headers, imports and exports, beside what lief reads; and what breaks their format."""

from __future__ import annotations

import shutil
from pathlib import Path
from struct import pack

import pytest

from icf.elf.types import Machine
from icf.errors import FormatError, IcfError, UnsupportedError
from icf.image import open_any_image, open_image
from icf.pe.debugfile import attach_pdb
from icf.pe.image import PeImage
from icf.pe.keys import guid_digits
from icf.pe.sidetable import SideTable, read_side_table
from tests.support.microsoft import IMAGES, microsoft
from tests.support.windows import RUNTIME, SHOP, compile_windows, library_and_user, link_windows, shop


def test_headers_imports_and_exports_are_those_of_lief() -> None:
    lief = pytest.importorskip("lief")
    for path in (*library_and_user(), shop(), *map(microsoft, IMAGES)):
        binary = lief.PE.parse(str(path))
        with PeImage.open(str(path)) as image:
            optional = binary.optional_header
            expected = Machine.AARCH64 if "arm64" in path.parts[-2] else Machine.X86_64
            assert image.machine is expected and image.base == optional.imagebase
            assert image.headers.timestamp == binary.header.time_date_stamps
            assert image.span == (image.base, image.base + optional.sizeof_image)
            assert image.headers.entry == image.base + optional.addressof_entrypoint
            found = [(each.name, each.vaddr - image.base, each.size_bytes) for each in image.sections]
            assert found == [(each.name, each.virtual_address, each.virtual_size) for each in binary.sections]
            imports = {
                image.base + (entry.iat_address if hasattr(entry, "iat_address") else entry.value): entry.name
                for library in (*binary.imports, *binary.delay_imports)
                for entry in library.entries
            }
            assert image.got_imports == imports
            exported = binary.get_export()
            entries = exported.entries if exported is not None else []
            assert [tuple(each) for each in image.exports] == [(each.name, each.address) for each in entries]


def test_a_stub_of_an_import_leads_to_its_slot() -> None:
    with PeImage.open(str(library_and_user()[1])) as image:
        assert sorted(image.got_imports.values()) == ["label", "weigh"]
        assert list(image.plt_stubs.values()) == ["label"]
        (stub,) = image.plt_stubs
        assert bytes(image.read(stub, 2)) == b"\xff\x25"


def test_a_function_that_ends_in_an_import_is_no_stub(tmp_path: Path) -> None:
    library, _ = library_and_user()
    source = """
    extern "C" __declspec(dllimport) int weigh(int);
    __attribute__((noinline)) int heavy(int value) { return weigh(value + 1); }
    extern "C" int mainCRTStartup() { return heavy(2) + 1; }
    """
    path = link_windows(tmp_path, compile_windows(RUNTIME + source, "-O2", name="tail"), library.with_suffix(".lib"))
    with PeImage.open(str(path)) as image:
        (slot,) = image.got_imports
        raw = bytes(image.code()[0][1])
        at = raw.find(b"\x48\xff\x25")  # rex.W jmp *slot(%rip)
        assert at >= 0 and image.code()[0][0] + at + 7 + int.from_bytes(raw[at + 3 : at + 7], "little") == slot
        assert image.plt_stubs == {}


def test_an_image_is_identified_by_its_pdb() -> None:
    with PeImage.open(str(shop())) as image:
        attach_pdb(image, None, ())
        assert image.pdb is not None and image.build_id == image.pdb.key and len(image.build_id) == 20


def test_the_pdb_is_found_in_a_symbol_server_tree(tmp_path: Path) -> None:
    linked = tmp_path / "build"
    linked.mkdir()
    path = link_windows(linked, compile_windows(SHOP), name="moved")
    with PeImage.open(str(path)) as image:
        digits = guid_digits(image.build_id[:16])
    trees = {"upper": f"{digits}1", "lower": f"{digits.lower()}1"}
    for tree, key in trees.items():
        place = tmp_path / tree / "moved.pdb" / key / "moved.pdb"
        place.parent.mkdir(parents=True)
        shutil.copy(path.with_suffix(".pdb"), place)
    path.with_suffix(".pdb").unlink()
    for tree, key in trees.items():
        with PeImage.open(str(path)) as image:
            attach_pdb(image, None, (str(tmp_path / tree),))
            assert image.pdb is not None and image.pdb.path == str(tmp_path / tree / "moved.pdb" / key / "moved.pdb")


def test_a_pdb_of_another_link_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = library_and_user()[1]
    with PeImage.open(str(shop())) as image:
        message = r"user\.pdb: does not belong to .*shop\.exe: GUID [0-9A-F]{32} age 1, not GUID [0-9A-F]{32} age 1"
        with pytest.raises(IcfError, match=message):
            attach_pdb(image, str(other.with_suffix(".pdb")), ())
    shutil.copy(shop(), tmp_path / "app.exe")
    shutil.copy(other.with_suffix(".pdb"), tmp_path / "shop.pdb")
    with PeImage.open(str(tmp_path / "app.exe")) as image:
        attach_pdb(image, None, ())
        assert "shop.pdb: does not belong to" in caplog.text
        assert image.looked_for[0] == str(tmp_path / "shop.pdb")


def test_a_pdb_of_before_2002_is_refused_by_its_format(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = shop().read_bytes()
    at = whole.index(b"RSDS")
    old = b"NB10" + pack("<III", 0, 0x3B7D84D4, 2) + b"old.pdb\0"  # offset, signature, age, path
    (tmp_path / "old.exe").write_bytes(whole[:at] + old.ljust(24, b"\0") + whole[at + 24 :])
    (tmp_path / "old.pdb").write_bytes(b"Microsoft C/C++ program database 2.00\r\n\x1aJG\0\0" + bytes(4096))
    with PeImage.open(str(tmp_path / "old.exe")) as image:
        assert image.build_id == pack("<II", 0x3B7D84D4, 2)
        attach_pdb(image, None, ())
        assert image.pdb is None
        assert "old.pdb: superblock+0x0: is a PDB of format 2.00, can read 7.00: not used" in caplog.text
        with pytest.raises(IcfError, match=r"shop\.pdb: .*: GUID [0-9A-F]{32} age 1, not signature 3B7D84D4 age 2"):
            attach_pdb(image, str(shop().with_suffix(".pdb")), ())
        key = image.build_id + bytes(12)
        (tmp_path / "old.icf").write_bytes(SideTable(key, b"", b"", b"").pack())
        found = read_side_table(image)
        assert found is not None and found.key == key


def test_a_verb_for_elf_alone_says_so() -> None:
    with open_any_image(str(shop())) as image:
        assert isinstance(image, PeImage)
    with pytest.raises(UnsupportedError, match=r"shop\.exe: is a PE image, this reads ELF images"):
        open_image(str(shop()))


@pytest.mark.parametrize(
    ("at", "content", "message"),
    [
        (0x3C, b"\xff\xff\xff\x7f", r"PE header\+0x0: needs 4 bytes, 0 are left"),
        (0x78, b"X", r"PE header\+0x0: is not a PE image"),
        (0x78 + 4, b"\x4c\x01", r"PE for machine 0x014c; only x86-64 and ARM64 are supported"),
        (0x78 + 24, b"\x07", r"magic of the optional header is 0x207, must be 0x20b"),
        (0x78 + 24 + 56, b"\xff" * 4, r"\d+ bytes at 0x[0-9a-f]+ are more than an image can have"),
        (0x78 + 24 + 240 + 12, b"\xff" * 4, r"end outside of the image of \d+ bytes"),
        (0x78 + 24 + 240 + 20, b"\xff" * 4, r"end outside of the file of \d+ bytes"),
    ],
)
def test_a_damaged_header_is_one_line(tmp_path: Path, at: int, content: bytes, message: str) -> None:
    raw = bytearray(shop().read_bytes())
    assert raw[0x78:0x7A] == b"PE"
    raw[at : at + len(content)] = content
    path = tmp_path / "bad.exe"
    path.write_bytes(raw)
    with pytest.raises((FormatError, UnsupportedError), match=message):
        PeImage.open(str(path))
