"""The resolver on a symcache says what it says on the image, and needs nothing else."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from icf.elf.image import Image
from icf.errors import FormatError
from tests.e2e.program import icf
from tests.unwind.symcache.support import SHOP
from unwind.program.bound_slots import ROW, BoundVtable
from unwind.program.from_image import load_program
from unwind.resolve.resolver import Resolver
from unwind.symcache.builder.program import pack_program
from unwind.symcache.format.container import Container, pack
from unwind.symcache.reader.program import KeptFacts, load_cached
from unwind.symcache.reader.symcache import SymCache
from unwind.symcache.store.store import open_or_build

STACKS = [
    json.loads(line)["stack"] for line in SHOP.with_name(f"{SHOP.name}.json").read_text().splitlines()
]  # as sampled


@pytest.fixture(params=[False, True], ids=["as linked", "with tables"])
def program(request: pytest.FixtureRequest, image: Path) -> Path:
    if request.param:
        icf("pass", image)
    return image


def stacks(image: Image) -> Iterator[tuple[int | None, ...]]:
    """Those that were sampled, and some that cannot be."""
    yield from (tuple(None if word == "?" else int(word, 16) for word in line.split()) for line in STACKS)
    rng = random.Random(7)
    low, high = image.span
    addresses = [address for line in STACKS for address in line.split() if address != "?"]
    for _ in range(300):
        yield tuple(
            int(rng.choice(addresses), 16) if rng.random() < 0.7 else rng.randrange(low, high)
            for _ in range(rng.randrange(1, 6))
        )


def test_answers_are_those_of_the_image(program: Path, folder: Path) -> None:
    cache = open_or_build(program, cache_dir=folder)
    with Image.open(program) as image:
        here, kept = Resolver(load_program(image)), Resolver(load_cached(cache))
        for addresses in stacks(image):
            for left, right in zip(here.resolve(addresses), kept.resolve(addresses), strict=True):
                assert [
                    (each.verdict, each.linkage_name, each.linkage_names, each.evidence, each.reason, each.vaddr)
                    for each in (left, *left.missing)
                ] == [
                    (each.verdict, each.linkage_name, each.linkage_names, each.evidence, each.reason, each.vaddr)
                    for each in (right, *right.missing)
                ]


def test_a_module_that_is_gone_is_known_by_its_build(program: Path, folder: Path, tmp_path: Path) -> None:
    with Image.open(program) as image:
        build_id = image.build_id.hex()
    (tmp_path / "stacks").write_text("".join(f"{stack}\n" for stack in STACKS))
    listed = tmp_path / "modules"
    listed.write_text(json.dumps([{"path": str(program), "build_id": build_id, "bias": 0}]))
    command = ("resolve", "--modules", listed, "--cache-dir", folder, "--out", "json", tmp_path / "stacks")
    there = icf(*command)
    program.unlink()
    assert icf(*command) == there and '"main"' in there
    listed.write_text(json.dumps([{"path": str(program), "build_id": "ab" * 20, "bias": 0}]))
    unknown = icf(*command, status=1)  # no frame is known
    assert '"name"' in unknown and "main" not in unknown


def test_links_that_are_not_what_they_should_be_are_refused(program: Path, folder: Path) -> None:
    cache = open_or_build(program, cache_dir=folder)
    with Image.open(program) as image:
        links = json.loads(pack_program(image)["links"])
    for key, wrong in (
        ("text", [1]), ("span", ["a", 1]), ("imports", {"x": "y"}), ("stubs", {"1": 2}),
        ("vtables", []), ("folds_imports", 1),
    ):  # fmt: skip
        with pytest.raises(FormatError, match="links"):
            load_cached(_with_section(cache, "links", json.dumps(links | {key: wrong}).encode()))
    for content in (b"", b"[]", b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(FormatError, match="links"):
            load_cached(_with_section(cache, "links", content))
    for content in (b"", b"{}", b"[1]", b'[["g",1]]', b'[["g","1","",false,false]]', b"[" * 100_000):
        exports = KeptFacts(_with_section(cache, "exports", content)).exports
        with pytest.raises(FormatError, match="exports"):
            exports.find("g")
    with pytest.raises(FormatError, match="codemap"):
        load_cached(_with_section(cache, "codemap", bytes(25)))


def test_slots_that_are_filled_by_name_are_read_or_refused(program: Path, folder: Path) -> None:
    cache = open_or_build(program, cache_dir=folder)
    rows = np.array([(0x2010, 0x10, 3, 0, 1)], ROW)  # vtable, bytes from the group's start to it, slot, names
    names = zlib.compress(b'["_ZN1A1fEv","_ZTV1A"]')
    kept = _with_section(_with_section(cache, "bound", rows.tobytes()), "boundto", names)
    slots = load_cached(kept).bound_slots
    assert slots.group_of(0x2010) == (BoundVtable(0x2010, 0x2000, ((3, "_ZN1A1fEv"),)),)
    assert slots.symbol_of(0x2010) == "_ZTV1A" and slots.names_in(3) == {"_ZN1A1fEv"}
    assert slots.group_of(0x2018) == () and slots.symbol_of(0x2018) == "" and not slots.names_in(2)
    assert load_cached(cache).bound_slots.group_of(0x2010) == ()
    for content in (b"", b"{", zlib.compress(b"{}"), zlib.compress(b"[1]"), names[:-9], zlib.compress(b"[" * 100_000)):
        with pytest.raises(FormatError, match="boundto"):
            load_cached(_with_section(kept, "boundto", content)).bound_slots.group_of(0x2010)
    for content in (rows.tobytes()[:-1], np.array([(0x2010, 0x10, 3, 2, 1)], ROW).tobytes()):
        with pytest.raises(FormatError, match="bound"):
            load_cached(_with_section(kept, "bound", content)).bound_slots.group_of(0x2010)


def _with_section(cache: SymCache, name: str, content: bytes) -> SymCache:
    sections = {each: bytes(cache.container.section(each)) for each in cache.container.names} | {name: content}
    return SymCache.from_container(Container(memoryview(b"".join(pack(cache.head, sections))), "changed"))
