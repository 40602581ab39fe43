"""The line kernels give the same compiled and uncompiled: at the edges of 64 bits and for bad programs, too."""

from __future__ import annotations

import random

import numpy as np
import pytest

from icf.dwarf import _line, _line_header, line_scan
from icf.dwarf.line import LineProgram, LineSections, scan_all
from icf.errors import FormatError
from tests.support.builds import uncompiled
from tests.support.line_tables import END, function, set_address, sleb, uleb, unit

EDGES = [0, 1, 0x7F, 0x80, 2**31, 2**32 - 1, 2**32, 2**56 + 3, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
SIGNED_EDGES = [0, -1, 63, 64, -64, -65, 2**31, -(2**31), 2**32, 2**56 + 3, -(2**56) - 3, 2**63 - 1, -(2**63)]


PURE_HEADER, PURE_LINE = uncompiled(_line_header), uncompiled(_line)


def described(sections: LineSections, offsets: list[int]) -> list[object]:
    """All that the kernels say of each program."""
    out: list[object] = []
    for program in scan_all(sections, offsets):
        if isinstance(program, FormatError):
            out.append(str(program))
            continue
        assert isinstance(program, LineProgram)
        columns = (program.address, program.file_idx, program.line, program.column, program.flags)
        sequences = np.array([getattr(program.sequences, name) for name in program.sequences.__slots__])
        out.append(
            ([column.tolist() for column in columns], sequences.tolist(), program.files, program.unterminated_row_count)
        )
    return out


def check_both(monkeypatch: pytest.MonkeyPatch, data: bytes, offsets: list[int] | None = None) -> list[object]:
    sections = LineSections(data, b"/src\0a.c\0", b"b.h\0", "a.out")
    installed = described(sections, offsets or [0])
    with monkeypatch.context() as patch:
        patch.setattr(line_scan, "scan_headers", PURE_HEADER.scan_headers)
        patch.setattr(line_scan, "run_programs", PURE_LINE.run_programs)
        assert described(sections, offsets or [0]) == installed
    return installed


@pytest.mark.parametrize("min_inst_length", [1, 4, 255])
@pytest.mark.parametrize("max_ops", [1, 3, 255])
def test_address_edges(monkeypatch: pytest.MonkeyPatch, min_inst_length: int, max_ops: int) -> None:
    program = b"".join(
        set_address(base) + b"\x02" + uleb(advance) + b"\x01\x4b\x08\x01\x09\xff\xff\x01" + END
        for base in EDGES
        for advance in EDGES
    )
    (found,) = check_both(monkeypatch, unit(program, min_inst_length=min_inst_length, max_ops=max_ops))
    assert isinstance(found, tuple) and len(found[1][0]) == len(EDGES) ** 2


def test_line_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    program = b"".join(b"\x03" + sleb(value) + b"\x01\xff\x0d" for value in SIGNED_EDGES)
    (found,) = check_both(monkeypatch, unit(set_address(8) + program + END, line_base=-128, line_range=255))
    assert isinstance(found, tuple)
    line, lines = 1, []
    for value in SIGNED_EDGES:
        line += value
        lines += [line, line + 242 - 128, line + 242 - 256]
        line = lines[-1]
    assert found[0][2][:-1] == [value % 2**32 for value in lines]


@pytest.mark.parametrize("value", EDGES)
def test_operand_edges(monkeypatch: pytest.MonkeyPatch, value: int) -> None:
    at = set_address(8)
    units = [
        unit(at + opcode + uleb(value) + tail + b"\x01" + END)
        for opcode, tail in [(b"\x04", b""), (b"\x05", b""), (b"\x0c", b""), (b"\0", b"\x80")]
    ]
    tables = b"\x00\x00\x02\x01\x08\x02\x0f\x01a\0" + uleb(value)  # a directory index
    counts = b"\x00\x00\x01\x01\x08" + uleb(value)  # a file count
    blocks = b"\x00\x00\x01\x01\x09\x01" + uleb(value)  # a block length
    forms = b"\x00\x00\x01\x01" + uleb(value) + b"\x01"  # a form
    units += [unit(at + b"\x01" + END, tables=table) for table in (tables, counts, blocks, forms)]
    units += [value.to_bytes(8, "little") + bytes(30), b"\xff" * 4 + value.to_bytes(8, "little") + bytes(30)]
    for data in units:
        check_both(monkeypatch, data)


def test_random_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    for number in range(400):
        noise = bytes(rng.choice((0, 1, 2, 3, 5, 9, 0x80, rng.randrange(256))) for _ in range(40))
        version = number % 4 + 2
        good = unit(function(0x1000, [(0, 1, 7), (4, 2, 9)]), version, dwarf64=number % 3 == 0)
        bad = unit(set_address(rng.choice(EDGES)) + noise + END, version, line_range=rng.choice((0, 1, 14, 255)))
        odd = unit(END, version, tables=noise)
        offsets = [0, len(good), len(good) + len(bad), 3]
        found = check_both(monkeypatch, good + bad + odd, offsets)
        assert isinstance(found[0], tuple)
