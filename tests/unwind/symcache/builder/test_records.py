"""Entries and records of a symcache, by the kernel that an install compiles and by the same file as plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icf._bytes import uleb
from tests.support.builds import uncompiled
from unwind.symcache.builder import _records

KERNELS = {"installed": _records, "plain": uncompiled(_records)}
NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, 2**31 - 1))
LAST = 2**64 - 1


@pytest.mark.parametrize("kernel", KERNELS)
@given(
    bodies=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12).map(sorted),
    base=st.sampled_from([0, 0x7FFF_0000_0000]),
)
def test_the_innermost_body_has_an_address(kernel: str, bodies: list[tuple[int, int]], base: int) -> None:
    count = len(bodies)
    start, size_bytes = np.array(bodies, np.uint64).reshape(-1, 2).T.copy()
    start, end = start + np.uint64(base), start + np.uint64(base) + size_bytes
    found = np.zeros((3, 2 * count), np.uint64)
    entries = KERNELS[kernel].cut_bodies(start, end, np.zeros(count, np.uint64), found)
    owners: dict[int, int] = {}
    for low, high, body in found[:, :entries].T.tolist():
        assert low < high and not owners.keys() & set(range(low, high))
        owners |= dict.fromkeys(range(low, high), body)
    around = {
        address: [body for body in range(count) if start[body] <= address < end[body]]
        for address in range(base, base + 60)
    }
    assert owners == {address: bodies[-1] for address, bodies in around.items() if bodies}
    assert (np.diff(found[0, :entries].astype(np.int64)) > 0).all()


Member = tuple[int, int, list[int], bytes]  # name, flags, aliases, payload
MEMBERS = st.lists(st.tuples(NUMBERS, NUMBERS, st.lists(NUMBERS, max_size=3), st.binary(max_size=40)), max_size=4)


@pytest.mark.parametrize("kernel", KERNELS)
@given(records=st.lists(st.tuples(NUMBERS, st.integers(0, LAST), MEMBERS), max_size=6))
def test_records_are_read_as_they_were_written(kernel: str, records: list[tuple[int, int, list[Member]]]) -> None:
    members = [member for *_, own in records for member in own]
    edges = np.cumsum([0, *(len(own) for *_, own in records)]).astype(np.uint64)
    first_alias = np.cumsum([0, *(len(aliases) for _, _, aliases, _ in members)]).astype(np.uint64)
    alias = np.array([each for _, _, aliases, _ in members for each in aliases], np.uint32)
    name, flags = (np.array([member[at] for member in members], np.uint32) for at in range(2))
    payloads = [payload for *_, payload in members]
    sizes = np.array([len(payload) for payload in payloads], np.uint64)
    head, second = (np.array([record[at] for record in records], np.uint64) for at in range(2))
    out = np.zeros(24 * (len(records) + len(members) + len(alias)) + int(sizes.sum()), np.uint8)
    ends, places = np.zeros(len(records), np.uint64), np.full(len(members), LAST, np.uint64)
    columns = head, second, edges[:-1], edges[1:], name, flags, first_alias, alias, sizes, out, ends, places
    size_bytes = KERNELS[kernel].put_records(*columns)
    assert size_bytes == ([0, *ends.tolist()])[-1]
    piece = np.frombuffer(b"".join(payloads), np.uint8)
    assert KERNELS[kernel].put_payloads(piece, sizes, places, out) == len(piece)

    data, at = out.tobytes(), 0

    def number() -> int:
        nonlocal at
        value, at = uleb(data, at, len(data))
        return value

    for (head_, second_, own), end in zip(records, ends.tolist(), strict=True):
        assert number() == head_
        assert not second_ or number() == second_
        for idx, (name_, flags_, aliases, payload) in enumerate(own, 1):
            assert (number(), number()) == (name_, flags_ << 1 | bool(aliases))
            assert not aliases or [number() for _ in range(number())] == aliases
            assert idx == len(own) or number() == len(payload)
            assert data[at : at + len(payload)] == payload
            at += len(payload)
        assert at == end


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_payload_without_a_record_is_left_out(kernel: str) -> None:
    out = np.zeros(4, np.uint8)
    places = np.array([1, LAST, 3], np.uint64)
    KERNELS[kernel].put_payloads(np.arange(1, 7, dtype=np.uint8), np.array([2, 3, 1], np.uint64), places, out)
    assert out.tolist() == [0, 1, 2, 6]
