"""Mutated PE images and chunks: an identity, or one line that says what is wrong."""

from __future__ import annotations

import random
from pathlib import Path

from icf.errors import FormatError, IcfError
from icf.pe.debugdirectory import CODEVIEW, ENTRY_BYTES, DebugEntry, codeview_of, pack_chunk, parse_chunk
from icf.pe.identity import read_identity
from icf.pe.keys import pdb_key
from tests.fuzz.limits import many
from tests.support import pe

IMAGES, CHUNKS = many(1_000), many(5_000)


def test_images_survive_mutations(tmp_path: Path) -> None:
    rng, seed, path = random.Random(51_000), pe.program().read_bytes(), tmp_path / "app.exe"
    header = int.from_bytes(seed[0x3C:0x40], "little")
    places = [(0, 0x40), (header, header + 0x200), (seed.index(b"RSDS") - 2 * ENTRY_BYTES, seed.index(b"RSDS") + 40)]
    read = refused = 0
    for _ in range(IMAGES):
        content = bytearray(seed)
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(*rng.choice(places))
            content[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        path.write_bytes(content[: rng.randrange(len(content))] if rng.random() < 0.1 else content)
        try:
            identity = read_identity(str(path))
            codeview = codeview_of(identity.entries, str(path))
            if codeview is not None:
                assert pdb_key(codeview, str(path)).count("/") == 2
            read += 1
        except IcfError as error:
            assert str(error).startswith(str(path)) and "\n" not in str(error)
            refused += 1
    assert read > IMAGES // 10 and refused > IMAGES // 50


def test_chunks_survive_mutations() -> None:
    rng = random.Random(52_000)
    record = b"RSDS" + bytes(16) + b"\1\0\0\0app.pdb\0"
    entries = [DebugEntry(0, 1, 0, 0, kind, blob) for kind, blob in ((CODEVIEW, record), (13, b"GCTL"), (16, b""))]
    seed, read, refused = pack_chunk(entries), 0, 0
    for _ in range(CHUNKS):
        content = bytearray(seed)
        for _ in range(rng.choice((1, 1, 2, 5))):
            content[rng.randrange(len(content))] = rng.choice((0, 1, 0x1C, 0x54, 0x80, 0xFF, rng.randrange(256)))
        header_bytes = rng.choice((3 * ENTRY_BYTES, 3 * ENTRY_BYTES, 2 * ENTRY_BYTES, rng.randrange(200)))
        try:
            parsed = parse_chunk(bytes(content), header_bytes, "chunk")
            assert parse_chunk(pack_chunk(parsed), header_bytes, "chunk") is not None
            codeview_of(parsed, "chunk")
            read += 1
        except FormatError as error:
            assert str(error).startswith("chunk: ") and "\n" not in str(error)
            refused += 1
    assert min(read, refused) > CHUNKS // 10
