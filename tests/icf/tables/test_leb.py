"""The kernel, compiled and not: both must read and write the same, up to the last bit."""

from __future__ import annotations

import random
from types import ModuleType

import numpy as np
import pytest

from icf.errors import FormatError
from icf.reader import Reader
from icf.tables import _leb
from tests.support.builds import uncompiled

EDGES = [0, 1, 0x7F, 0x80, 0x3FFF, 0x4000, 2**32 - 1, 2**32, 2**56 + 3, 2**63 - 1, 2**63, 2**64 - 1]


PURE = uncompiled(_leb)
BUILDS = [pytest.param(PURE, id="uncompiled"), pytest.param(_leb, id="installed")]


def written(kernel: ModuleType, values: list[int]) -> bytes:
    out = np.empty(10 * len(values), np.uint8)
    return bytes(out[: kernel.uleb_write(np.array(values, np.uint64).data, out.data)])


def read(kernel: ModuleType, data: bytes, count: int) -> tuple[int, list[int]]:
    out = np.zeros(count, np.uint64)
    return kernel.uleb_run(data, 0, len(data), out.data), out.tolist()


@pytest.mark.parametrize("kernel", BUILDS)
def test_edges_are_written_and_read_back(kernel: ModuleType) -> None:
    data = written(kernel, EDGES)
    assert data[:6] == bytes.fromhex("00 01 7f 8001 ff")
    assert data.endswith(b"\xff" * 9 + b"\x01")
    assert read(kernel, data, len(EDGES)) == (len(data), EDGES)


@pytest.mark.parametrize("kernel", BUILDS)
@pytest.mark.parametrize(
    ("data", "reached"),
    [
        (b"", -1),
        (b"\x80", -1),
        (b"\x05\x80", -2),
        (b"\xff" * 9 + b"\x02", -1),  # 65 bits
        (b"\x80" * 10 + b"\x00", -1),  # 11 bytes
    ],
)
def test_a_bad_value_is_reported_by_its_position(kernel: ModuleType, data: bytes, reached: int) -> None:
    assert read(kernel, data, 2)[0] == reached


@pytest.mark.parametrize("kernel", BUILDS)
def test_padded_values_are_read(kernel: ModuleType) -> None:
    assert read(kernel, b"\x83\x80\x80\x80\x80\x80\x80\x80\x80\x00", 1) == (10, [3])


@pytest.mark.parametrize("kernel", BUILDS)
def test_refuses_what_the_reader_refuses(kernel: ModuleType) -> None:
    rng = random.Random(5)
    for _ in range(2000):
        data = bytes(rng.choice((0x80, 0xFF, 0x81, 0, 1, 2, 0x7F)) for _ in range(rng.randrange(1, 13)))
        reader = Reader(data, "f", "s")
        try:
            expected = reader.uleb()
        except FormatError:
            assert read(kernel, data, 1)[0] == -1
        else:
            assert read(kernel, data, 1) == (reader.pos, [expected])


@pytest.mark.parametrize("kernel", BUILDS)
def test_call_run_adds_the_base_and_refuses_to_wrap(kernel: ModuleType) -> None:
    data = bytes.fromhex("00000000 05  10204000 07")  # caller record of DIE 5; call site 0x402010, DIE 7
    columns = [np.zeros(2, np.uint64) for _ in range(3)]

    def run(base: int, end: int = len(data)) -> int:
        return int(kernel.call_run(data, 0, end, 4, base, *(column.data for column in columns), 0))

    assert run(0x100) == 1
    assert [int(column[0]) for column in columns] == [0x402010, 0x107, 0x105]
    assert run(2**64 - 8) == 1
    assert int(columns[1][0]) == 2**64 - 1
    assert run(2**64 - 7) == -1 - 5  # the callee would be 2**64
    assert run(2**64 - 5) == -1 - 0
    assert [run(0, end) for end in range(1, 10)] == [-1, -1, -1, -1, 0, -6, -6, -6, -6]


def test_builds_agree_on_random_bytes() -> None:
    if str(_leb.__file__).endswith(".py"):
        pytest.skip("the kernel is not compiled")
    rng = random.Random(7)
    for _ in range(1000):
        data = rng.randbytes(rng.randrange(40))
        width, base = rng.choice((4, 8)), rng.choice((0, 2**64 - 200, rng.randrange(2**32)))
        results = []
        for kernel in (PURE, _leb):
            columns = [np.zeros(8, np.uint64) for _ in range(5)]
            views = [column.data for column in columns]
            reached = [
                kernel.call_run(data, 0, len(data), width, base, *views[:3], 0),
                kernel.slot_run(data, 0, len(data), width, *views[3:], 0),
                read(kernel, data, 5),
            ]
            results.append((reached, [column.tolist() for column in columns]))
        assert results[0] == results[1]
    values = [rng.getrandbits(rng.randrange(65)) for _ in range(1000)]
    sites = np.array(values[::-1], np.uint64)
    outs = [np.zeros(18 * 1000, np.uint8) for _ in range(2)]
    sizes = [
        kernel.entry_write(sites.data, np.array(values, np.uint64).data, 8, out.data)
        for kernel, out in zip((PURE, _leb), outs, strict=True)
    ]
    assert sizes[0] == sizes[1] and bytes(outs[0]) == bytes(outs[1])
    assert written(PURE, values) == written(_leb, values)
