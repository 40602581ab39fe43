"""Compressed sections: all three ways, and announced sizes that are not believed."""

from __future__ import annotations

import tracemalloc
import zlib
from struct import pack

import pytest
import zstandard

from icf.elf.compression import Method, compress, inflate, parse_header
from icf.errors import FormatError, UnsupportedError

CONTENTS = b"debug info " * 1000


def gabi(kind: int, packed: bytes, size_bytes: int = len(CONTENTS)) -> memoryview:
    """ch_type, ch_reserved, ch_size, ch_addralign, then the data."""
    return memoryview(pack("<IIQQ", kind, 0, size_bytes, 1) + packed)


ZLIB = gabi(1, zlib.compress(CONTENTS))
ZSTD = gabi(2, zstandard.compress(CONTENTS))
GNU = memoryview(b"ZLIB" + len(CONTENTS).to_bytes(8, "big") + zlib.compress(CONTENTS))


@pytest.mark.parametrize(("stored", "gnu"), [(ZLIB, False), (ZSTD, False), (GNU, True)])
class TestEachMethod:
    def test_inflates(self, stored: memoryview, gnu: bool) -> None:
        assert inflate(stored, "a.out", ".debug_info", gnu=gnu) == CONTENTS

    def test_compressing_again_gives_the_same_method(self, stored: memoryview, gnu: bool) -> None:
        header = parse_header(stored, "a.out", ".debug_info", gnu=gnu)
        again = memoryview(compress(CONTENTS * 2, header))
        assert parse_header(again, "a.out", ".debug_info", gnu=gnu).method is header.method
        assert inflate(again, "a.out", ".debug_info", gnu=gnu) == CONTENTS * 2

    def test_every_truncation_is_refused(self, stored: memoryview, gnu: bool) -> None:
        for size_bytes in range(len(stored)):
            with pytest.raises(FormatError, match=r"a\.out: \.debug_info\+0x[0-9a-f]+: "):
                inflate(stored[:size_bytes], "a.out", ".debug_info", gnu=gnu)

    @pytest.mark.parametrize("delta", [-1, 1, -len(CONTENTS)])
    def test_another_size_is_refused(self, stored: memoryview, gnu: bool, delta: int) -> None:
        header = parse_header(stored, "a.out", ".debug_info", gnu=gnu)
        size_bytes = len(CONTENTS) + delta
        field = b"ZLIB" + size_bytes.to_bytes(8, "big") if gnu else pack("<IIQQ", stored[0], 0, size_bytes, 1)
        with pytest.raises(FormatError, match=rf"header says {size_bytes}|has no end"):
            inflate(memoryview(field + stored[header.header_size_bytes :]), "a.out", ".debug_info", gnu=gnu)


def test_an_announced_size_costs_no_memory() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="cannot hold the announced 1152921504606846976 bytes"):
            inflate(gabi(1, zlib.compress(CONTENTS), 1 << 60), "a.out", ".debug_info", gnu=False)
        with pytest.raises(FormatError, match="header says 900000"):
            inflate(gabi(2, zstandard.compress(CONTENTS), 900_000), "a.out", ".debug_info", gnu=False)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_several_zstd_frames() -> None:
    frames = zstandard.compress(CONTENTS[:500]) + zstandard.compress(CONTENTS[500:])
    assert inflate(gabi(2, frames), "a.out", ".debug_info", gnu=False) == CONTENTS


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(UnsupportedError, match="compression method 3 is not handled, zlib and zstd are"):
        inflate(gabi(3, b""), "a.out", ".debug_info", gnu=False)


def test_corrupt_data_is_refused() -> None:
    for stored in (ZLIB, ZSTD):
        broken = bytearray(stored)
        broken[30] ^= 0xFF
        with pytest.raises(FormatError):
            inflate(memoryview(broken), "a.out", ".debug_info", gnu=False)


def test_nothing_compressed_inflates_to_nothing() -> None:
    header = parse_header(ZLIB, "a.out", ".debug_info", gnu=False)
    assert header.method is Method.ZLIB
    assert inflate(memoryview(compress(b"", header)), "a.out", ".debug_info", gnu=False) == b""
