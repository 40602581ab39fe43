"""Payloads say at every address what went in: the encoder and the decoder, compiled and as plain Python."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.builds import uncompiled
from unwind.symcache.builder import _encode
from unwind.symcache.builder.payload_columns import SCRATCH_HEIGHT
from unwind.symcache.reader import _decode, _look_up

START = 0x7FFF_FFFF_0000  # beyond 32 bits


def _kernel(encoder: ModuleType, decoder: ModuleType, many: ModuleType) -> SimpleNamespace:
    return SimpleNamespace(encode=encoder.encode, decode=decoder.decode, make_index=many.make_index, locate=many.locate)


INSTALLED, PLAIN = (_kernel(*map(form, (_encode, _decode, _look_up))) for form in (lambda kernel: kernel, uncompiled))
KERNELS = {"installed": INSTALLED, "plain": PLAIN}


class Node(NamedTuple):
    parent: int  # -1: none
    name: int
    file: int
    line: int
    column: int
    ranges: tuple[tuple[int, int], ...]


class Function(NamedTuple):
    size_bytes: int
    nodes: tuple[Node, ...]
    rows: tuple[tuple[int, int, int, int], ...]  # address, file, line, column; the last is the end


@st.composite
def functions(draw: st.DrawFn) -> Function:
    size_bytes = draw(st.integers(1, 60))
    place = st.integers(-3, size_bytes + 3)
    u32 = st.one_of(st.integers(0, 300), st.integers(0, 2**32 - 2))
    nodes = []
    for i in range(draw(st.integers(0, 6))):
        ends = draw(st.lists(st.tuples(place, place), max_size=3))
        ranges = tuple((low, high) for low, high in ends if low < high)
        name, file, line, column = (draw(u32) for _ in range(4))
        nodes.append(Node(draw(st.integers(-1, i - 1)), name, file, line, column, ranges))
    addresses = sorted(draw(st.lists(place, max_size=12)))
    rows = tuple((address, draw(st.integers(0, 3)), draw(u32), draw(u32)) for address in addresses)
    return Function(size_bytes, tuple(nodes), rows)


FILE_MAP = (0, 7, 5_000_000, 9)  # of the numbers that rows and nodes use


def mapped(file: int) -> int:
    return FILE_MAP[file] if file < len(FILE_MAP) else 0


def expected(function: Function, offset: int) -> list[tuple[int, int, int, int]]:
    """Name (-1: its own), file, line and column of each frame, from the plain definitions."""
    holders = [i for i, node in enumerate(function.nodes) if any(a <= offset < b for a, b in node.ranges)]
    row = bisect_right([row[0] for row in function.rows], offset) - 1
    place = (0, 0, 0)
    if 0 <= row < len(function.rows) - 1:
        _, file, line, column = function.rows[row]
        place = mapped(file), line, column
    frames = []
    node = max(holders, default=-1)
    while node >= 0:
        frames.append((function.nodes[node].name, *place))
        call = function.nodes[node]
        place = mapped(call.file), call.line, call.column
        node = call.parent
    return [*frames, (-1, *place)]


def encoded(kernel: SimpleNamespace, functions: list[Function]) -> list[bytes]:
    """The payloads of functions that lie one behind the other."""
    pieces: list[list[int]] = []
    ranges: list[tuple[int, int, int]] = []
    nodes: list[tuple[int, ...]] = []
    rows: list[tuple[int, ...]] = []
    at = START
    for function in functions:
        first_range, first_node, first_row = len(ranges), len(nodes), len(rows)
        own = [(at + low, at + high, i) for i, node in enumerate(function.nodes) for low, high in node.ranges]
        ranges += sorted(own, key=lambda entry: (entry[0], entry[2]))
        nodes += [(i - node.parent if node.parent >= 0 else 0, *node[1:5]) for i, node in enumerate(function.nodes)]
        rows += [(at + address, *rest) for address, *rest in function.rows]
        end = at + function.size_bytes
        pieces.append([at, end, first_range, len(ranges), first_node, len(nodes), first_row, len(rows), *(0, 0, 0, 0)])
        at = end + 100
    low, high, owner = (
        (np.array(list(column), np.uint64) for column in zip(*ranges, strict=True))
        if ranges
        else (np.empty(0, np.uint64),) * 3
    )
    node_columns = np.array(nodes, np.uint32).reshape(len(nodes), 5).T.copy()
    row_columns = np.array(rows, np.uint64).reshape(len(rows), 4).T.copy()
    segments = np.empty((2, 2 * len(ranges) + 4), np.uint64)
    scratch = np.empty((SCRATCH_HEIGHT, len(ranges) + len(nodes) + 2), np.uint32)
    out = np.zeros(64 * len(functions) + 40 * (2 * len(ranges) + len(nodes) + len(rows)), np.uint8)
    ends = np.zeros((len(functions), 2), np.uint64)
    kernel.encode(
        np.array(pieces, np.uint64).data, low.data, high.data, owner.astype(np.uint32).data,
        *(column.data for column in node_columns), row_columns[0].data,
        *(column.astype(np.uint32).data for column in row_columns[1:]), np.array(FILE_MAP, np.uint32).data,
        segments.data, scratch.data, out.data, ends.data,
    )  # fmt: skip
    stops = ends[:, 0].tolist()
    return [out[start:stop].tobytes() for start, stop in zip([0, *stops[:-1]], stops, strict=True)]


def decoded(
    kernel: SimpleNamespace, payload: bytes, offsets: list[int]
) -> list[list[tuple[int, int, int, int]]] | None:
    """The frames at ascending offsets; None if the payload is refused."""
    width = len(payload) + 1
    nodes = memoryview(bytearray(32 * width)).cast("I", (8, width))
    found = memoryview(bytearray(16 * len(offsets))).cast("I", (4, len(offsets)))
    asked, numbers = memoryview(array("Q", offsets)), memoryview(array("Q", [7] * (len(payload) + 8)))
    before, behind = b"\x80" * 3, b"\x80"  # what is around a payload is none of its business
    count = kernel.decode(
        memoryview(before + payload + behind),
        len(before),
        len(payload),
        0,
        asked,
        numbers,
        nodes,
        found,
    )
    if count < 0:
        assert count == -1
        return None
    answers = []
    for node, *place in zip(*found.tolist(), strict=True):
        frames = []
        while node:
            frames.append((nodes[1, node], *place))
            place = [nodes[i, node] for i in (2, 3, 4)]
            node = nodes[0, node]
        answers.append([*frames, (-1, *place)])
    return answers


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@settings(max_examples=60, deadline=None)
@given(st.lists(functions(), min_size=1, max_size=3))
def test_what_went_in_comes_out(kernel: SimpleNamespace, functions: list[Function]) -> None:
    payloads = encoded(kernel, functions)
    for function, payload in zip(functions, payloads, strict=True):
        offsets = list(range(function.size_bytes))
        found = decoded(kernel, payload, offsets)
        assert found == [expected(function, offset) for offset in offsets]
        assert decoded(kernel, payload, offsets[-1:]) == found[-1:]


@settings(max_examples=60, deadline=None)
@given(st.lists(functions(), min_size=1, max_size=3), st.data())
def test_both_builds_are_the_same(functions: list[Function], data: st.DataObject) -> None:
    payloads = encoded(INSTALLED, functions)
    assert payloads == encoded(PLAIN, functions)
    payload = bytearray(data.draw(st.sampled_from(payloads)))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    offsets = list(range(0, 60, 7))
    assert decoded(INSTALLED, bytes(payload), offsets) == decoded(PLAIN, bytes(payload), offsets)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_rows_by_hand(kernel: SimpleNamespace) -> None:
    payload = bytes.fromhex(
        "02"  # two nodes
        "01 05 07 1e"  # node 1: parent 0, name 5, called in file 7 at line 30
        "01 06 09 c801"  # node 2: parent 1, name 6, called in file 9 at line 200
        "02 07 0a"  # +0: file 7 line 10
        "13 01 09 65"  # +4: node 1, file 9 line 101
        "0b 01 09 66"  # +2: node 2, file 9 line 102
        "09 02 03"  # +2: the first ancestor, so node 1; its line less 1
        "05 02 02"  # +1: the first ancestor, so no node; its line and 1
        "00"
        "03 04"  # call columns 3, 4
        "00 08 05 00"  # +0: column 8; +5: none
    )
    own = (-1, 7, 30, 3)
    assert decoded(kernel, payload, [0, 3, 4, 6, 8, 9, 99]) == [
        [(-1, 7, 10, 8)],
        [(-1, 7, 10, 8)],
        [(5, 9, 101, 8), own],
        [(6, 9, 102, 0), (5, 9, 200, 4), own],
        [(5, 9, 100, 0), own],
        [(-1, 7, 11, 0)],
        [(-1, 7, 11, 0)],
    ]
    for size_bytes in range(len(payload)):
        whole = size_bytes in (len(payload) - 4, len(payload) - 2)  # between columns
        assert (decoded(kernel, payload[:size_bytes], [0]) is None) != whole


@pytest.mark.parametrize(
    "text",
    [
        "01 00 05 07 1e 00 00",  # its own parent
        "01 02 05 07 1e 00 00",  # a parent before the function
        "01 01 ffffffff0f 07 1e 00 00",  # name 2 ** 32 - 1
        "01 01 05 07 ffffffff10 00 00",  # line over 32 bits
        "05 01 05 07 1e 00 00",  # more nodes than bytes
        "01 01 05 07 1e 03 03 07 0a 00 00",  # node 2 of 1
        "01 01 05 07 1e 03 00 02 07 0a 00 00",  # the same in full
        "01 01 05 07 1e 03 02 07 0a 00 00",  # an ancestor of the function
        "00 02 07 0a 04 17 00",  # line 10 less 11
        "00 02 07 0a 04 ffffffffff1f 00",  # line over 32 bits
        "00 02 ffffffff0f 0a 00",  # file 2 ** 32 - 1
        "00 02 07 0a 00 00",  # half a pair of columns
        "00 80808080808080808000",  # number without end
    ],
)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_refused(kernel: SimpleNamespace, text: str) -> None:
    assert decoded(kernel, bytes.fromhex(text), [0]) is None


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_nesting_has_a_limit(kernel: SimpleNamespace) -> None:
    limit = 1024
    for depth in (limit, limit + 1):
        nodes = tuple(Node(i - 1, 1, 1, 1, 1, ((0, 4),)) for i in range(depth))
        (payload,) = encoded(kernel, [Function(4, nodes, ())])
        if depth > limit:
            assert payload == b""
            continue
        found = decoded(kernel, payload, [2])
        assert found is not None and len(found[0]) == depth + 1
        deeper = b"\x81\x08" + payload[2:6] + payload[2:]  # one more node before the others
        assert payload[:2] == b"\x80\x08" and decoded(kernel, deeper, [2]) is None


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40)), max_size=20),
    st.integers(0, 4),
    st.lists(st.integers(0, 2000), max_size=30),
)
def test_bulk_look_ups(kernel: SimpleNamespace, gaps: list[tuple[int, int]], shift: int, asked: list[int]) -> None:
    base = 0x400000
    starts: list[int] = []
    sizes: list[int] = []
    at = 0
    for gap, size_bytes in gaps:
        starts.append(at + gap if starts else 0)
        sizes.append(size_bytes)
        at = starts[-1] + size_bytes
    index = np.empty((at >> shift) + 1, np.uint32)
    columns = np.array(starts, np.uint64), np.array(sizes, np.uint64)
    kernel.make_index(columns[0].data, shift, index.data)
    vaddrs = [*(base + offset for offset in asked), 0, base - 1, 2**64 - 1]
    found = np.zeros(len(vaddrs), np.int64)
    kernel.locate(
        columns[0].data, columns[1].data, base, shift, index.data, np.array(vaddrs, np.uint64).data, found.data
    )
    plain = [
        next((i for i in range(len(starts)) if starts[i] <= vaddr - base < starts[i] + sizes[i]), -1)
        for vaddr in vaddrs
    ]
    assert found.tolist() == plain
