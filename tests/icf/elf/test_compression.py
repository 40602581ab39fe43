"""Compressed sections: all three ways, and announced sizes that are not believed."""

from __future__ import annotations

import tracemalloc
import zlib
from collections.abc import Callable
from struct import pack

import pytest
import zstandard

from icf.elf.compression import Method, compress, inflate, parse_header
from icf.errors import FormatError, IcfError, UnsupportedError

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


def zeros_by_zstd(size_bytes: int) -> bytes:
    """A frame of blocks of one byte each, repeated: 4 bytes for 128 KiB."""
    count = size_bytes >> 17
    blocks = [(idx == count - 1) | 1 << 1 | (128 << 10) << 3 for idx in range(count)]
    return pack("<IBB", 0xFD2FB528, 0, 7 << 3) + b"".join(block.to_bytes(3, "little") + b"\0" for block in blocks)


def zeros_by_zlib(size_bytes: int) -> bytes:
    packer = zlib.compressobj(9)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(size_bytes >> 20)) + packer.flush()


@pytest.mark.parametrize(("kind", "zeros"), [(1, zeros_by_zlib), (2, zeros_by_zstd)])
def test_what_is_stored_bounds_what_is_inflated(
    kind: int, zeros: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    size_bytes = 80 << 20
    stored = gabi(kind, zeros(size_bytes), size_bytes)
    tracemalloc.start()
    with pytest.raises(
        IcfError, match=rf"a\.out: \.debug_info: inflates to {size_bytes} bytes from {len(stored)}, the limit"
    ):
        inflate(stored, "a.out", ".debug_info", gnu=False)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    monkeypatch.setenv("ICF_INFLATE_RATIO", "1000000")
    tracemalloc.start()
    assert len(inflate(stored, "a.out", ".debug_info", gnu=False)) == size_bytes
    assert tracemalloc.get_traced_memory()[1] < 1.5 * size_bytes
    tracemalloc.stop()
    monkeypatch.setenv("ICF_INFLATE_RATIO", "much")
    with pytest.raises(IcfError, match="ICF_INFLATE_RATIO: 'much' is not a number"):
        inflate(stored, "a.out", ".debug_info", gnu=False)
