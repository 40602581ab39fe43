"""Damaged sections of a symcache whose checksums fit, and debug information that is damaged: an error or an answer."""

from __future__ import annotations

import random
import time
import tracemalloc
from functools import cache

import numpy as np
import pytest

from icf.elf.image import Image
from icf.errors import FormatError
from tests.fuzz.limits import many
from tests.support.paths import ROOT
from tests.support.symcaches import packed
from unwind.symcache.builder.build import build_sections
from unwind.symcache.format.container import SectionBytes
from unwind.symcache.reader.many import frames_many

SHOP = ROOT / "testdata/shop/shop.gold"
MUTATION_COUNT = many(2000)
READ_MUTATION_COUNT = many(150)
EDGES = [value.to_bytes(8, "little") for value in (0, 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1)]


@cache
def original() -> dict[str, SectionBytes]:
    with Image.open(SHOP) as image:
        return build_sections(image)


def mutated(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(6):
            case 0:
                out[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                out[at : at + 4] = rng.choice(EDGES)[:4]
            case 2:
                out[at : at + 8] = rng.choice(EDGES)
            case 3:
                out[at : at + 10] = b"\xff" * 9 + b"\x01"
            case 4:
                del out[at : at + rng.randrange(1, 9)]
            case _:
                out[at:at] = rng.randbytes(rng.randrange(1, 9))
    return bytes(out if rng.random() < 0.95 else out[: rng.randrange(len(out) + 1)])


def exercise(sections: dict[str, SectionBytes], vaddrs: list[int]) -> int:
    """Ask all kinds of questions; how many were refused."""
    refused = 0
    try:
        cache = packed(sections)
    except FormatError:
        return 1
    for vaddr in vaddrs:
        try:
            located = cache.find(vaddr)
            for member_idx in range(min(len(located.members), 4) if located else 0):
                assert cache.frames(vaddr, member_idx)
        except FormatError:
            refused += 1
    for question in (
        lambda: frames_many(cache, vaddrs),
        lambda: cache.addresses("main"),
        lambda: cache.locate_many(np.array(vaddrs, np.uint64)),
    ):
        try:
            question()
        except FormatError:
            refused += 1
    return refused


def test_sections_that_break_their_format() -> None:
    sections = original()
    cache = packed(sections)
    (main,) = cache.addresses("main")
    rng = random.Random(7)
    names = [name for name, content in sections.items() if content]
    refused = 0
    for number in range(MUTATION_COUNT):
        name = "records" if number % 2 else rng.choice(names)
        vaddrs = [main, *(max(main + rng.randrange(-4000, 4000), 0) for _ in range(5)), 2**64 - 1]
        is_watched = number % 50 == 0
        if is_watched:
            tracemalloc.start()
        begin = time.process_time()
        refused += exercise({**sections, name: mutated(rng, bytes(sections[name]))}, vaddrs) > 0
        assert time.process_time() - begin < 5
        if is_watched:
            _, peak_bytes = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak_bytes < 50 << 20
    assert MUTATION_COUNT // 20 < refused < MUTATION_COUNT


def test_hostile_records() -> None:
    """A count, a chain or a size that is not there costs nothing."""
    sections = original()
    (main,) = packed(sections).addresses("main")
    for record in (
        b"\xf9\xff\xff\xff\x0f",  # 2 ** 29 members
        b"\x09\x01\x01\xff\xff\xff\xff\x0f",  # 2 ** 32 aliases
        b"\x11\x01\x00\xff\xff\xff\xff\x0f",  # a payload of 4 GiB for the first member
        b"\x09\x01\x00\xff\xff\xff\xff\x0f",  # 2 ** 32 inlined calls
        b"\x04\x00",  # goes on with itself
        b"\x04\xff\xff\x7f",  # with one before all
        b"\x04\x01",  # with one that goes on, too
        b"\x09\xff\xff\xff\xff\x0f\x00",  # name 2 ** 32 - 1
    ):
        count = len(sections["infos"]) // 4
        infos = np.arange(count, dtype=np.uint32) * len(record)
        hostile = {**sections, "records": record * (count - 1), "infos": infos.tobytes()}
        tracemalloc.start()
        with pytest.raises(FormatError, match="cache: "):
            cache = packed(hostile)
            cache.find(main)
            cache.frames(main)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes < 50 << 20


class _Damaged(Image):
    """An image some of whose sections read otherwise."""

    replaced: dict[str, SectionBytes]

    def contents(self, section: object) -> memoryview:
        name = section if isinstance(section, str) else section.name  # type: ignore[attr-defined]
        return memoryview(self.replaced[name]) if name in self.replaced else super().contents(section)  # type: ignore[arg-type]


def test_damaged_debug_information() -> None:
    names = (
        ".debug_info",
        ".debug_abbrev",
        ".debug_line",
        ".debug_rnglists",
        ".debug_str",
        ".debug_addr",
        ".debug_icf",
    )
    rng = random.Random(11)
    with _Damaged.open(SHOP) as image:
        assert isinstance(image, _Damaged)
        image.replaced = {}
        whole = {name: bytes(image.contents(name)) for name in names if image.section(name) is not None}
        for number in range(READ_MUTATION_COUNT):
            name = list(whole)[number % len(whole)]
            image.replaced = {name: mutated(rng, whole[name])} if whole[name] else {}
            begin = time.process_time()
            try:
                cache = packed(build_sections(image))
            except FormatError:
                continue
            for vaddr in cache.addresses("main"):
                frames_many(cache, range(vaddr, vaddr + 200))
            assert time.process_time() - begin < 20
