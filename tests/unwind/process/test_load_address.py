"""Load biases, of layouts that linkers make and of some that nobody would."""

from __future__ import annotations

import pytest

from icf.elf.types import PF_X, PT_LOAD, Segment
from unwind.process.load_address import bias_of, bias_of_listed
from unwind.process.maps import Mapping

R = 4


def segment(vaddr: int, offset: int, size_bytes: int, flags: int = R) -> Segment:
    return Segment(PT_LOAD, flags, offset, vaddr, size_bytes, size_bytes, 0x1000)


def mapping(start: int, size_bytes: int, offset: int, rights: str = "r-xp") -> Mapping:
    return Mapping(start, start + size_bytes, rights, offset, 0, 1, "/a.so")


SEPARATE = [segment(0, 0, 0x5F8), segment(0x1000, 0x1000, 0x1C5, R | PF_X), segment(0x3DF0, 0x2DF0, 0x220)]
# lld: pages are mapped again where two segments meet
PACKED = [segment(0, 0, 0x5F8), segment(0x1600, 0x600, 0x1A5, R | PF_X), segment(0x27B0, 0x7B0, 0x220)]
FIXED = [segment(0x400000, 0, 0x488), segment(0x401000, 0x1000, 0x1C5, R | PF_X)]
# the first page of the second code segment is the last one of the first
TWO_CODES = [segment(0x1000, 0x1000, 0x1800, R | PF_X), segment(0x802800, 0x2800, 0x900, R | PF_X)]


@pytest.mark.parametrize("bias", [0, 0x7F0000000000])
def test_each_page_of_a_segment_tells_the_bias(bias: int) -> None:
    for segments, vaddr, offset in ((SEPARATE, 0x1000, 0x1000), (PACKED, 0x1000, 0), (FIXED, 0x401000, 0x1000)):
        code = mapping(vaddr + bias, 0x1000, offset)
        assert bias_of(code, segments, [code]) == bias


def test_a_piece_of_a_segment_tells_it_as_well() -> None:
    long = [segment(0x1000, 0x1000, 0x5000, R | PF_X)]
    pieces = [mapping(0x7F0000001000 + at, 0x1000, 0x1000 + at) for at in range(0, 0x5000, 0x1000)]
    assert {bias_of(piece, long, pieces) for piece in pieces} == {0x7F0000000000}


def test_a_prelinked_image_that_was_moved_has_a_bias_below_zero() -> None:
    prelinked = [segment(0x3000001000, 0x1000, 0x800, R | PF_X)]
    code = mapping(0x2000001000, 0x1000, 0x1000)
    assert bias_of(code, prelinked, [code]) == -0x1000000000


def test_a_file_that_is_loaded_twice_has_two() -> None:
    maps = [mapping(base + 0x1000, 0x1000, 0x1000) for base in (0x10000, 0x7F0000000000)]
    assert [bias_of(each, SEPARATE, maps) for each in maps] == [0x10000, 0x7F0000000000]


def test_where_two_segments_of_code_share_a_page_the_others_decide() -> None:
    base = 0x7F0000000000
    first, second = mapping(base + 0x1000, 0x2000, 0x1000), mapping(base + 0x802000, 0x2000, 0x2000)
    assert [bias_of(each, TWO_CODES, [first, second]) for each in (first, second)] == [base, base]


def test_where_nothing_decides_there_is_none() -> None:
    alike = [segment(0x1000, 0x1000, 0x800, R | PF_X), segment(0x8800, 0x1800, 0x800, R | PF_X)]
    code = mapping(0x7F0000001000, 0x1000, 0x1000)
    assert bias_of(code, alike, [code]) is None, "it may be either segment"


def test_what_no_segment_maps_has_none() -> None:
    beyond = mapping(0x7F0000009000, 0x1000, 0x9000)
    assert bias_of(beyond, SEPARATE, [beyond]) is None


def test_mappings_whose_rights_are_not_known() -> None:
    # page 0 of the file is mapped for its first two segments
    segments = [
        Segment(PT_LOAD, 4, 0x0, 0x0, 0x5C0, 0x5C0, 0x1000),
        Segment(PT_LOAD, 4 | PF_X, 0x5C0, 0x15C0, 0x900, 0x900, 0x1000),
        Segment(PT_LOAD, 6, 0xEC0, 0x2EC0, 0x200, 0x200, 0x1000),
    ]
    everything = [(0x700000, 0), (0x701000, 0), (0x702000, 0), (0x703000, 0x1000)]
    assert bias_of_listed(everything, segments) == bias_of_listed(everything[::-1], segments) == 0x700000
    assert bias_of_listed([(0x701000, 0)], segments) == 0x700000  # one is that of the code
    assert bias_of_listed([(0x701000, 0x8000)], segments) is None
    assert bias_of_listed(everything[:2], segments) is None  # which may be those of either pair of segments
