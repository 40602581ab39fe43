"""10,000 mutated .debug_line sections: FormatError or rows for each unit, never more; and what is given is sound."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np

from icf.dwarf.line import LineProgram, LineSections, scan_all
from icf.dwarf.line_choice import choose_sequence
from icf.errors import FormatError
from tests.fuzz.limits import many
from tests.support.line_lookup import lookup
from tests.support.line_tables import END, function, set_address, unit

MUTATION_COUNT = many(10_000)
LINE_STR = b"/src\0inc\0a.c\0"
TABLES = (
    b"\x01\x01\x1f\x02\x00\x00\x00\x00\x05\x00\x00\x00"  # directories: line_strp "/src", "inc"
    b"\x03\x01\x1f\x02\x0b\x05\x1e\x02" + (b"\x09\x00\x00\x00\x00" + bytes(16)) * 2  # files: line_strp, data1, MD5
)


def seeds(version: int, dwarf64: bool) -> list[bytes]:
    program = (
        function(0x1000, [(0, 1, 10), (4, 2, 3), (8, 1, 12)])
        + function(0x1000, [(0, 1, 20), (4, 2, 3), (8, 1, 22)])
        + function(0, [(0, 1, 30)])
        + set_address(0x2000) + b"\x0a\x05\x07\x4b\x08\x06\x8b\x0b\x0c\x01\x09\x10\x00\xd2\0\x02\x04\x03\x01" + END
    )  # fmt: skip
    tables = TABLES if version == 5 and not dwarf64 else None
    return [
        unit(program, version, dwarf64=dwarf64, tables=tables),
        unit(program + b"\0\x06\x03d.c\0\x01" + END, version, dwarf64=dwarf64, max_ops=4, min_inst_length=4),
    ]


def mutated(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(out))
        match rng.randrange(6):
            case 0:
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                out[at] = rng.choice((0, 1, 2, 3, 9, 0x7F, 0x80, 0xFF))
            case 2:
                out[at : at + 8] = b"\xff" * rng.randrange(1, 9)
            case 3:
                out[at : at + 10] = b"\x80" * 9 + b"\x01"
            case 4:
                del out[at : at + rng.randrange(1, 5)]
            case _:
                out[at:at] = rng.randbytes(rng.randrange(1, 5))
    return bytes(out if rng.random() < 0.9 else out[: rng.randrange(len(out))])


def check(program: LineProgram, data: bytes) -> None:
    sequences = program.sequences
    assert len(program.address) <= len(data)
    assert len(program.files) <= len(data)
    bounds = [0, *sequences.row_end.tolist()]
    assert bounds[:-1] == sequences.row_start.tolist() and bounds[-1] == len(program.address)
    assert bool(np.all(sequences.start <= sequences.end))
    lookup(program, 0x1004)


def test_mutations_are_refused_or_read() -> None:
    originals = [data for version in (2, 3, 4, 5) for dwarf64 in (False, True) for data in seeds(version, dwarf64)]
    rng = random.Random(23)
    read = refused = 0
    for number in range(MUTATION_COUNT):
        data = mutated(rng, originals[number % len(originals)])
        watched = number % 100 == 0
        if watched:
            tracemalloc.start()
        offset = rng.randrange(len(data) + 1) if number % 10 == 0 else 0
        (program,) = scan_all(LineSections(data, LINE_STR, b"", "fuzz"), [offset])
        if isinstance(program, FormatError):
            refused += 1
            assert offset <= program.offset <= max(len(data), offset)
        else:
            read += 1
            check(program, data)
            if number % 10 == 0:
                choose_sequence(program, 0x1000, 1, 10, [10, 20, 30])
        if watched:
            assert tracemalloc.get_traced_memory()[1] < 1_000_000
            tracemalloc.stop()
    assert min(read, refused) > MUTATION_COUNT // 10
