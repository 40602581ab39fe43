"""PDBs: what identifies them, what breaks their format, and both builds of the kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from icf.errors import FormatError, UnsupportedError
from icf.pdb import _lines, _symbols
from icf.pdb import columns as col
from icf.pdb.file import NOWHERE, Pdb
from icf.pdb.types import TYPES
from tests.support.builds import uncompiled
from tests.support.windows import shop

BLOCK = 4096


def test_a_pdb_is_identified_as_its_image_says() -> None:
    image = shop().read_bytes()
    at = image.index(b"RSDS") + 4
    with Pdb.open(str(shop().with_suffix(".pdb"))) as pdb:
        assert pdb.key == image[at : at + 20]
        assert pdb.dbi.machine == 0x8664


def test_addresses_are_those_of_sections() -> None:
    with Pdb.open(str(shop().with_suffix(".pdb"))) as pdb:
        text = pdb.sections[0]
        segments, offsets = np.array([1, 1, 0, 9, 1], np.uint64), np.array([0, 5, 0, 0, text.size_bytes], np.uint64)
        assert pdb.rvas(segments, offsets).tolist() == [text.rva, text.rva + 5, *[int(NOWHERE)] * 3]


def test_parameters_and_scopes_are_those_of_the_source() -> None:
    with Pdb.open(str(shop().with_suffix(".pdb"))) as pdb:
        module = pdb.dbi.modules[0]
        rows = pdb.symbols_of(module).procedures.tolist()
        found = {
            (
                pdb.text(module.stream, row[col.P_NAME], row[col.P_NAME_BYTES]),
                *(pdb.types.parameters(row[col.P_TYPE]) or ()),
            )
            for row in rows
        }
        assert {("discount", "int"), ("discount", "unsigned int"), ("List<Order>::add", "Order *")} <= found
        assert pdb.is_described(module)
        lines = pdb.lines_of(module, pdb.symbols_of(module))
        assert "scaled" in map(pdb.types.function_name, lines.inlinees[:, col.I_FUNCTION].tolist())


def test_compiled_kernels_read_what_python_reads() -> None:
    lines, symbols = uncompiled(_lines), uncompiled(_symbols)
    with Pdb.open(str(shop().with_suffix(".pdb"))) as pdb:
        module = pdb.dbi.modules[0]
        stream, found = pdb.stream(module.stream), pdb.symbols_of(module)
        said = pdb.lines_of(module, found)
        used = np.zeros(col.USED_WIDTH, np.uint64)
        procedures, sites = np.zeros_like(found.procedures), np.zeros_like(found.sites)
        symbols.scan_procedures(stream, 4, module.symbol_bytes, procedures, sites, used)
        assert (procedures == found.procedures).all() and (sites == found.sites).all() and len(sites)
        publics = np.zeros_like(pdb.publics)
        symbols.scan_publics(pdb.stream(pdb.dbi.symbol_stream), publics, used)
        assert (publics == pdb.publics).all()
        parts = [np.zeros_like(part) for part in said[:3]]
        begin = module.symbol_bytes + module.c11_bytes
        lines.scan_lines(stream, begin, begin + module.c13_bytes, *parts, used)
        assert all((part == expected).all() and len(part) for part, expected in zip(parts, said[:3], strict=True))
        annotations = np.zeros_like(said.annotations)
        assert lines.read_annotations(stream, found.sites, annotations) == len(annotations) > 0
        assert (annotations == said.annotations).all()


def annotated(*numbers: int) -> list[list[int]]:
    """Return the code that annotations say, by both builds: low, high, file, line."""
    stream = memoryview(bytes(numbers))
    sites = np.array([[0, 0, 0, 0, len(stream)]], np.uint64)
    found: list[list[list[int]]] = []
    for kernel in (_lines, uncompiled(_lines)):
        out = np.zeros((len(stream), col.ANNOTATION_WIDTH), np.uint64)
        count = kernel.read_annotations(stream, sites, out)
        found.append(out[:count, col.A_LOW : col.A_LINE + 1].astype(np.int64).tolist())
    assert found[0] == found[1]
    return found[0]


SAME = col.SAME_FILE


@pytest.mark.parametrize(
    ("numbers", "rows"),
    [
        ((11, 0x24, 4, 3), [[4, 7, SAME, 1]]),  # code + 4, line + 1; length 3
        ((3, 4, 11, 0x32, 4, 1), [[4, 6, SAME, 0], [6, 7, SAME, -1]]),  # code + 4; code + 2, line - 1; length 1
        ((3, 4, 4, 2, 3, 4, 4, 1), [[4, 6, SAME, 0], [10, 11, SAME, 0]]),  # after a length code goes on at its end
        ((5, 24, 6, 2, 3, 0x81, 0, 4, 1), [[256, 257, 24, 1]]),  # file 24, line + 1, code + 0x100 in two bytes
        ((12, 5, 2), [[2, 7, SAME, 0]]),  # length 5 of the code at + 2
        ((3, 0xC0, 1, 0, 0, 4, 1), [[65536, 65537, SAME, 0]]),  # four bytes
        ((3, 4), [[4, 4, SAME, 0]]),  # without a length it has no code
        ((3, 0xC0, 1), []),  # cut short
        ((3, 0xFF), []),  # no number begins so
    ],
)
def test_binary_annotations(numbers: tuple[int, ...], rows: list[list[int]]) -> None:
    assert annotated(*numbers) == rows


def damaged(tmp_path: Path, at: int, content: bytes) -> str:
    raw = bytearray(shop().with_suffix(".pdb").read_bytes())
    raw[at : at + len(content)] = content
    path = tmp_path / "bad.pdb"
    path.write_bytes(raw)
    return str(path)


def read_all(path: str) -> None:
    with Pdb.open(path) as pdb:
        for module in pdb.dbi.modules:
            pdb.lines_of(module, pdb.symbols_of(module))
        assert len(pdb.publics) and pdb.stream(TYPES)


@pytest.mark.parametrize(
    ("at", "content", "message"),
    [
        (0, b"X", r"superblock\+0x0: is not a PDB of format 7\.00"),
        (32, b"\x01", r"superblock\+0x20: block size is 4097, not a power of two from 512 to 65536"),
        (40, b"\xff\xff", r"superblock\+0x28: \d+ blocks of 4096 bytes are more than the file of \d+ bytes"),
        (52, b"\xff\xff", r"superblock\+0x34: block map at 0xffff000 ends outside of the file"),
    ],
)
def test_a_damaged_superblock_is_one_line(tmp_path: Path, at: int, content: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        Pdb.open(damaged(tmp_path, at, content))


def test_a_record_that_is_longer_than_its_stream_is_one_line(tmp_path: Path) -> None:
    content = shop().with_suffix(".pdb").read_bytes()
    at = content.index(b"\x10\x11", content.index(b"program.obj")) - 2  # the first S_GPROC32
    path = damaged(tmp_path, at, b"\xff\xff")
    message = r"symbols of .*program\.obj\+0x[0-9a-f]+: record is longer than what is left of its stream"
    with pytest.raises(FormatError, match=message):
        read_all(path)
    path = damaged(tmp_path, at, b"\x06\x00")
    with pytest.raises(FormatError, match=r"program\.obj\+0x[0-9a-f]+: record is shorter than its kind needs"):
        read_all(path)


@pytest.mark.parametrize("size_bytes", [1, 31, 55, BLOCK, 5 * BLOCK])
def test_a_truncated_pdb_is_refused(tmp_path: Path, size_bytes: int) -> None:
    path = tmp_path / "short.pdb"
    path.write_bytes(shop().with_suffix(".pdb").read_bytes()[:size_bytes])
    with pytest.raises(FormatError, match=r"superblock\+0x"):
        Pdb.open(str(path))


def test_code_that_was_moved_after_the_link_is_refused(tmp_path: Path) -> None:
    path = shop().with_suffix(".pdb")
    with Pdb.open(str(path)) as pdb:
        slots = pdb.dbi.section_stream.to_bytes(2, "little")
    raw = path.read_bytes()
    nil = b"\xff\xff"
    at = raw.index(nil * 5 + slots + nil)
    with pytest.raises(UnsupportedError, match=r"code was moved after the link \(OMAP\)"):
        Pdb.open(damaged(tmp_path, at + 6, b"\x01\x00"))
