"""The heap at its peak as massif of valgrind 3.19 has recorded it: two functions that share a body allocate."""

from __future__ import annotations

import pytest

from icf.errors import IcfError
from tests.support.recordings import read, recognizes, source_of
from unwind.readers import massif
from unwind.readers.formats import IN_TEXT, READERS
from unwind.readers.module_places import ModulePlace
from unwind.samples.recording import Inlined, RecordedModule, Sample

HEAD = b"""desc: --threshold=0.3
cmd: ./alloc
time_unit: i
#-----------
snapshot=0
#-----------
time=0
mem_heap_B=0
mem_heap_extra_B=0
mem_stacks_B=0
heap_tree=empty
"""
DETAILED = b"""#-----------
snapshot=9
#-----------
mem_heap_B=73992
heap_tree=detailed
n1: 100 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 n0: 100 0x1098FA: main (alloc.cpp:12)
"""
PEAK = b"""#-----------
snapshot=13
#-----------
time=1918471
mem_heap_B=73992
mem_heap_extra_B=216
mem_stacks_B=0
heap_tree=peak
n3: 1488 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 n2: 1000 0x10998C: Pool<Order>::grow(int) (alloc.cpp:5)
  n2: 700 0x1098C5: Pool<Order>::add(int) (alloc.cpp:6)
   n0: 500 0x109904: main (alloc.cpp:12)
   n0: 200 in 1 place, below massif's threshold (0.30%)
  n0: 300 0x1098FA: main (alloc.cpp:12)
 n1: 288 0x4010CB2: calloc (rtld-malloc.h:44)
  n1: 288 0x4010CB2: allocate_dtv (dl-tls.c:401)
   n0: 288 0x401AB9F: ??? (in /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2)
 n0: 200 in 4 places, all below massif's threshold (0.30%)
"""
AFTER = b"#-----------\nsnapshot=14\n#-----------\nheap_tree=empty\n"


def stacks(content: bytes) -> list[tuple[int, list[int | None]]]:
    return [(sample.weights[0], [frame.address for frame in sample.frames]) for sample in read("massif", content)]


def test_stacks_of_the_peak() -> None:
    expected = [
        (500, [0x10998C, 0x1098C5, 0x109904]),
        (200, [0x10998C, 0x1098C5]),
        (300, [0x10998C, 0x1098FA]),
        (288, [0x4010CB2, 0x401AB9F]),
    ]
    assert stacks(HEAD + DETAILED + PEAK + AFTER) == expected
    assert stacks(HEAD + PEAK + DETAILED) == expected
    assert stacks(HEAD + DETAILED + AFTER) == [(100, [0x1098FA])]


def test_frames_as_in_other_reports_of_valgrind() -> None:
    recording = read("massif", HEAD + PEAK)
    samples: list[Sample] = list(recording)
    assert [value.name for value in recording.values] == ["inuse_space"]
    assert all(sample.is_called and all(frame.in_call for frame in sample.frames) for sample in samples)
    calloc, unnamed = samples[-1].frames
    assert (calloc.name, calloc.file, calloc.line) == ("allocate_dtv", "dl-tls.c", 401)
    assert calloc.inlined == (Inlined("calloc", "rtld-malloc.h", 44),) and unnamed.name == ""
    assert samples[0].frames[0] is samples[1].frames[0]


def test_places_are_those_that_are_given() -> None:
    source = source_of(HEAD + PEAK)
    source.places = [ModulePlace(0x108000, 0x110000, 0x108000, RecordedModule("/bin/alloc"))]
    first, *_, last = massif.read(source)
    assert [frame.address for frame in first.frames] == [0x198C, 0x18C5, 0x1904]
    assert {frame.module for frame in first.frames} == {RecordedModule("/bin/alloc")}
    assert {frame.module for frame in last.frames} == {None}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (b"   n0: 500", b"  n0: 500", "is not a line of the tree at this depth"),
        (b"   n0: 500", b"   n1: 500", "is not a line of the tree at this depth"),
        (b"  n2: 700", b"  n1: 700", "is not a line of the tree at this depth"),
        (b"0x109904: main", b"main", "is not `nCALLERS: bytes address: function`"),
        (b"n2: 1000 0x", b"n2: 1000 0y", "is not `nCALLERS: bytes address: function`"),
        (b" n0: 200 in 4", b"#-- n0: 200 in 4", "is not a line of the tree at this depth"),
    ],
)
def test_trees_that_massif_would_not_write(old: bytes, new: bytes, problem: str) -> None:
    with pytest.raises(IcfError) as error:
        list(read("massif", HEAD + PEAK.replace(old, new)))
    assert str(error.value).startswith("f:") and str(error.value).endswith(problem)


def test_a_tree_that_was_cut_off() -> None:
    content = HEAD + PEAK[: PEAK.index(b" n1: 288")]
    with pytest.raises(IcfError) as error:
        list(read("massif", content))
    assert str(error.value) == f"f:{len(content.splitlines())}: ends within a tree: 2 more callers must follow"


def test_the_format_is_known_by_its_content() -> None:
    assert next(each for each in READERS if recognizes(each, HEAD + PEAK)) == "massif"
    assert "massif" in IN_TEXT  # --modules and -e say where modules lay
