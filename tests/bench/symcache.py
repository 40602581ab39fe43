"""Building a symcache and asking it, in a process of their own.

    python -m tests.bench.symcache build IMAGE CACHE     writes it; what is measured is the process
    python -m tests.bench.symcache symbolic IMAGE CACHE  writes one of symbolic, if this Python has that package
    python -m tests.bench.symcache ask IMAGE CACHE       prints JSON

The peers of building are `llvm-gsymutil-19 --convert` and symbolic. Compared are also the bytes of names, lines and
inlined calls (columns are not counted: gsym has none). The peer of asking is `llvm-symbolizer-19` with the same
addresses on its standard input.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from icf.elf.image import Image
from tests.support.toolchain import find
from unwind.symcache.format.container import COMPLETE, Head, Identity, pack
from unwind.symcache.format.records import META
from unwind.symcache.reader.many import frames_many
from unwind.symcache.reader.symcache import SymCache

ADDRESS_COUNT, PLAIN_COUNT, ONE_BY_ONE = 100_000, 2_000_000, 2000
REPEATS = 3
_COMPARED = ("meta", "starts", "sizes", "infos", "records", "names", "nameoff", "files", "fileoff")


def build(image_path: Path, out: Path) -> None:
    from icf.heap import own_process
    from unwind.symcache.builder.build import build_sections

    own_process()  # as commands do
    with Image.open(image_path) as image:
        head = Head(Identity(2, bytes(20)), bytes(16), int(image.machine), COMPLETE)
        with out.open("wb") as file:
            for piece in pack(head, build_sections(image), {}):
                file.write(piece)


def build_symbolic(image_path: Path, out: Path) -> None:
    """Write the symcache of symbolic, which has one function of each body."""
    from symbolic import Archive  # type: ignore[import-not-found]  # a peer that need not be there

    (image,) = Archive.open(str(image_path)).iter_objects()
    with out.open("wb") as file:
        image.make_symcache().dump_into(file)


def ask(image_path: Path, path: Path) -> dict[str, float]:
    import numpy as np

    cache = SymCache.open(path)
    vaddrs = random_vaddrs(image_path)
    low, high = min(vaddrs), max(vaddrs)
    plain = np.random.default_rng(1).integers(low, high, PLAIN_COUNT).astype(np.uint64)
    container = cache.container
    column_bytes = META.unpack(container.piece("meta", 0, META.size))[5]
    figures = {
        "compared_bytes": sum(map(container.section_size_bytes, _COMPARED)) - column_bytes,
        "file_bytes": container.size_bytes,
        "plain_per_s": PLAIN_COUNT / _best_s(lambda: cache.locate_many(plain)),
        "frames_s": _best_s(lambda: frames_many(SymCache.open(path), vaddrs)),
        "one_us": _best_s(lambda: [cache.frames(vaddr) for vaddr in vaddrs[:ONE_BY_ONE]]) / ONE_BY_ONE * 1e6,
    }
    if symbolizer := find("llvm-symbolizer"):
        asked = "\n".join(map(hex, vaddrs))
        command = [symbolizer, "--inlines", "--no-demangle", "-e", str(image_path)]
        figures["llvm_symbolizer_s"] = _best_s(
            lambda: subprocess.run(command, input=asked, text=True, stdout=subprocess.DEVNULL, check=True)
        )
    return figures


def random_vaddrs(image_path: Path) -> list[int]:
    """Addresses in its code, the same each time."""
    with Image.open(image_path) as image:
        section = image.section(".text")
        assert section is not None
        low, high = section.vaddr, section.vaddr + section.size_bytes
    rng = random.Random(1)
    return [rng.randrange(low, high) for _ in range(ADDRESS_COUNT)]


def _best_s(work: Callable[[], object]) -> float:
    """The best of a few turns, the first for nothing: the machine is seldom idle."""
    walls = []
    for _ in range(REPEATS + 1):
        begin_s = time.perf_counter()
        work()
        walls.append(time.perf_counter() - begin_s)
    return min(walls[1:])


if __name__ == "__main__":
    if sys.argv[1] == "build":
        build(Path(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1] == "symbolic":
        build_symbolic(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        print(json.dumps(ask(Path(sys.argv[2]), Path(sys.argv[3]))))
