"""Regions laid over each other: as painting byte by byte has it, whatever they come in."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.limits import many
from unwind.process.jit.regions import Regions

REGION = st.tuples(st.integers(0, 60), st.integers(0, 25))


@settings(max_examples=many(300), deadline=None)
@given(st.lists(st.lists(REGION, max_size=12), max_size=12))
def test_the_last_one_that_covers_an_address_is_there(batches: list[list[tuple[int, int]]]) -> None:
    regions: Regions[int] = Regions()
    painted: dict[int, int] = {}
    count = 0
    for batch in batches:
        added = []
        for start, size_bytes in batch:
            added.append((start, start + size_bytes, count))
            painted |= dict.fromkeys(range(start, start + size_bytes), count)
            count += 1
        regions.add(added)
        assert [regions.find(address) for address in range(-1, 90)] == [painted.get(a) for a in range(-1, 90)]


def test_many_small_additions_make_few_layers() -> None:
    regions: Regions[int] = Regions()
    for start in range(0, 20_000, 2):
        regions.add([(start, start + 2, start)])
    assert len(regions.layers) < 20
    assert [regions.find(address) for address in (0, 1, 9_999, 19_999, 20_000)] == [0, 0, 9_998, 19_998, None]
