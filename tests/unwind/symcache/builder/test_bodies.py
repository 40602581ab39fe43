"""Which bodies there are, and what a hostile symbol table or debug information can cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from icf.dwarf.inlines import scan_inlines
from icf.dwarf.opening import open_debug
from icf.elf.image import Image
from tests.support.dwarf_programs import build
from tests.support.symcaches import cache_of
from tests.support.toolchain import run, tool
from unwind.symcache.builder.bodies import bodies_at, find_bodies
from unwind.symcache.builder.payloads import _affordable


def library(folder: Path, size: str) -> Path:
    """400 functions of a byte; each says it has `size` bytes."""
    source = folder / "many.s"
    one = ".globl f{0}\n.type f{0}, @function\nf{0}: ret\n.size f{0}, {1}\n"
    source.write_text(".text\n" + "".join(one.format(i, size) for i in range(400)))
    run(tool("gcc"), "-shared", "-nostdlib", source, "-o", folder / "library")
    return folder / "library"


def test_sizes_that_overlap_are_cut(tmp_path: Path) -> None:
    for size, expected in (("1", 1), ("2", 2), ("300", 1)):
        with Image.open(library(tmp_path, size)) as image:
            bodies = find_bodies(image, None)
        assert len(bodies.start) == 400
        assert (bodies.end - bodies.start)[:-1].tolist() == [expected] * 399


def test_bodies_at(tmp_path: Path) -> None:
    with Image.open(library(tmp_path, "2")) as image:
        bodies = find_bodies(image, None)
    first = int(bodies.start[0])
    found, nowhere = bodies_at(bodies, [0, first, first + 7, first + 401])
    assert (found.start - first).tolist() == [0, 6, 7] and nowhere == [0, first + 401]
    found, nowhere = bodies_at(bodies, [])
    assert not len(found.start) and nowhere == []


def test_a_tree_is_not_written_thousands_of_times() -> None:
    with Image.open(build("gcc", ("-O2", "-gdwarf-5"))) as image:
        scan = scan_inlines(open_debug(image, inlines=True), 1)
    counts = scan.functions.last_node - scan.functions.first_node
    function = int(np.argmax(counts))
    once = np.arange(len(counts))
    assert _affordable(scan.functions, once).tolist() == once.tolist()
    many = _affordable(scan.functions, np.full(1_000_000, function))
    assert 0 < np.count_nonzero(many == function) < 200_000 // int(counts[function]) and many[-1] == -1


def test_bulk_look_ups_find_what_single_ones_find(tmp_path: Path) -> None:
    path = library(tmp_path, "1")
    cache = cache_of(path)
    (first,) = cache.addresses("f0")
    vaddrs = [first - 1, first, first + 5, first + 399, first + 400, 0, 2**64 - 1]
    entries = cache.locate_many(np.array(vaddrs, np.uint64)).tolist()
    assert [cache.located(entry) if entry >= 0 else None for entry in entries] == [
        cache.find(vaddr) for vaddr in vaddrs
    ]
    assert [entry >= 0 for entry in entries] == [False, True, True, True, False, False, False]


def test_a_partial_cache_spans_all_addresses(tmp_path: Path) -> None:
    path = library(tmp_path, "1")
    (first,) = cache_of(path).addresses("f0")
    cache = cache_of(path, [first, first + 5, 2**64 - 1])
    found = [cache.find(vaddr) for vaddr in (first, first + 5, 2**64 - 1)]
    assert [each and (each.start, each.members[0].name) for each in found] == [(first, "f0"), (first + 5, "f5"), None]
