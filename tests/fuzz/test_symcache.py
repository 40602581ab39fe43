"""Damaged symcaches: what is asked of them is answered right, or refused by a `FormatError`, never more.

10,000 are damaged as disks and crashes do it: a checksum tells. The others are hostile: their checksums fit, so
that each rule of the sections stands for itself. Nothing an answer says is checked there, only that it comes to an end.
"""

from __future__ import annotations

import os
import random
import shutil
import time
import tracemalloc
from array import array
from pathlib import Path

import numpy as np
import pytest

from icf import cli
from icf.errors import FormatError
from tests.fuzz.limits import many
from tests.unwind.symcache.support import SHOP, many_functions
from unwind.symcache.format.container import Container, Head, Identity, pack
from unwind.symcache.format.sources import Sought, Sources
from unwind.symcache.reader.many import frames_many
from unwind.symcache.reader.symcache import SymCache
from unwind.symcache.store.checking import bodies, check_content, json_lines
from unwind.symcache.store.folder import Folder
from unwind.symcache.store.partial import Entries, PartialFile, answer_of
from unwind.symcache.store.store import ensure

MUTATION_COUNT = many(10_000)
HOSTILE_COUNT = many(1_500)
TRACED_COUNT = many(150)  # whose memory is measured, which takes five times as long


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The symcache of a program with merged functions, lines, inlined calls and tables."""
    folder = tmp_path_factory.mktemp("symcache")
    image = Path(shutil.copy(SHOP, folder / "shop"))
    assert cli.main(["pass", "-q", str(image)]) == 0
    return Path(ensure(Sought(str(image)), Folder(str(folder / "cache")))[0]).read_bytes()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """One of many blocks."""
    image = many_functions(tmp_path_factory.mktemp("symcache"))
    return Path(ensure(Sought(str(image)), Folder(str(image.parent / "cache")))[0]).read_bytes()


def opened(data: bytes | bytearray) -> SymCache:
    return SymCache.from_container(Container(memoryview(bytes(data)), "a.symcache"))


def test_damage_never_changes_an_answer(large: bytes) -> None:
    good, rng = opened(large), random.Random(9)
    assert len(large) > 5 * (1 << 14)
    names = [f"a_function_with_number_{i}" for i in range(0, 2000, 7)]
    truth = {name: good.addresses(name)[0] for name in names}
    right = refused = 0
    for _ in range(MUTATION_COUNT):
        damaged = bytearray(large)
        start = rng.randrange(len(damaged))
        if rng.random() < 0.5:
            damaged[start] ^= 1 << rng.randrange(8)
        else:  # a sector that was not written
            end = min(start + 512, len(damaged))
            damaged[start:end] = bytes(end - start)
            if damaged == large:
                continue
        if rng.random() < 0.05:
            del damaged[start:]
        name = rng.choice(names)
        vaddr = truth[name] + rng.randrange(3)
        try:
            cache = opened(damaged)
            assert cache.addresses(name) == [truth[name]]
            assert cache.find(vaddr) == good.find(vaddr) and cache.frames(vaddr) == good.frames(vaddr)
            right += 1
        except FormatError:
            refused += 1
    assert right > MUTATION_COUNT // 20 and refused > MUTATION_COUNT // 20


def mutated(rng: random.Random, content: bytes) -> bytes:
    """A section with a few bytes or numbers changed, or of another size."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not changed:
            break
        at = rng.randrange(len(changed))
        if rng.random() < 0.7:
            changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        else:
            at &= ~3
            value = rng.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, rng.randrange(len(content) + 1)))
            changed[at : at + 4] = value.to_bytes(4, "little")[: len(changed) - at]
    if rng.random() < 0.1:
        del changed[rng.randrange(len(changed) + 1) :]
    elif rng.random() < 0.05:
        changed += os.urandom(rng.randrange(1, 64))
    return bytes(changed)


def ask(cache: SymCache, vaddrs: list[int]) -> None:
    """Ask everything, each question on its own."""
    for vaddr in vaddrs:
        try:
            found = cache.find(vaddr)
            for at in range(len(found.members) if found is not None else 0):
                cache.frames(vaddr, at)
        except FormatError:
            pass
    for name in ("main", "nobody"):
        try:
            cache.addresses(name)
        except FormatError:
            pass
    try:
        frames_many(cache, array("Q", vaddrs))
    except FormatError:
        pass
    try:
        check_content(cache.container, is_complete=True)
        list(json_lines(cache.container))
    except FormatError:
        pass
    try:
        rows = cache.locate_many(np.array(vaddrs, np.uint64))
        assert len(rows) == len(vaddrs)
    except FormatError:
        pass


def test_a_hostile_file_is_answered_or_refused(kept: bytes) -> None:
    container, rng = Container(memoryview(kept), "a.symcache"), random.Random(11)
    sections = {name: bytes(container.section(name)) for name in container.names}
    cache = SymCache.from_container(container)
    starts = [body.start + offset for body in bodies(cache, container) for offset in (0, 5)]
    vaddrs = [*rng.sample(starts, 12), 0, (1 << 64) - 1]
    ask(cache, vaddrs)
    names = [name for name in ("meta", "starts", "sizes", "infos", "records", "names", "nameoff", "hashes", "nameidx",
                               "files", "fileoff") if name in sections]  # fmt: skip
    assert len(names) >= 9
    slowest_ns, answered = 0, 0
    tracemalloc.start()
    for index in range(HOSTILE_COUNT):
        if index == TRACED_COUNT:
            peak_bytes = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        name = names[index % len(names)]
        hostile = sections | {name: mutated(rng, sections[name])}
        if index % 97 == 0:
            del hostile[name]
        start_ns = time.thread_time_ns()
        try:
            ask(opened(b"".join(pack(container.head, hostile))), vaddrs)
            answered += 1
        except FormatError:
            pass
        slowest_ns = max(slowest_ns, time.thread_time_ns() - start_ns)
    assert answered > HOSTILE_COUNT // 4
    assert slowest_ns < 2_000_000_000 and peak_bytes < 32 << 20


def test_hostile_partial_files_and_sources(kept: bytes) -> None:
    container, rng = Container(memoryview(kept), "a.symcache"), random.Random(13)
    cache = SymCache.from_container(container)
    starts = [body.start for body in bodies(cache, container)][:20]
    entries = Entries({}, {})
    entries.add({vaddr: answer_of(cache, vaddr) for vaddr in [0, *starts]}, {"main": [1, 2], "nobody": []})
    sections = entries.pack()
    sources = Sources("1", ("/root",), tuple(Sources.parse(container.section("sources"), "x").files)).pack()
    head = Head(Identity(1, b"id"), bytes(16), 62, 0)
    names = list(sections)
    read = 0
    for index in range(HOSTILE_COUNT):
        name = names[index % len(names)]
        hostile = sections | {name: mutated(rng, sections[name])}
        try:
            file = PartialFile(Container(memoryview(b"".join(pack(head, hostile))), "a.partial"))
            for vaddr in (0, starts[3], 7):
                file.answer(vaddr)
            file.addresses("main")
            list(file.answers())
            list(file.names())
            file.entries()
            read += 1
        except FormatError:
            pass
        try:
            Sources.parse(memoryview(mutated(rng, sources)), "a.symcache").problem("/bin/x", None, ("/other",))
        except FormatError:
            pass
    assert read > HOSTILE_COUNT // 20
