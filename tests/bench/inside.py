"""Measurements of library calls in a process of their own.

    python -m tests.bench.inside JOB IMAGE [FILE]    prints JSON

scan      .debug_info read by the bulk kernel: MB/s with one thread and with all, imports not counted
rewrite   one section of 100 kB added to the image, against a plain copy of the file
resolve   the stacks of a file, each distinct one once, by a resolver on a warm symcache: that has met nothing, that has
          met the calls, and the whole stacks
"""

from __future__ import annotations

import gc
import json
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

REPEATS = 5


def _median_s(work: Callable[[], object]) -> float:
    work()  # not counted: touches the file and the scratch memory for the first time
    walls = []
    for _ in range(REPEATS):
        begin_s = time.perf_counter()
        work()
        walls.append(time.perf_counter() - begin_s)
    return statistics.median(walls)


def scan(image_path: Path) -> dict[str, float]:
    from icf.dwarf.opening import open_debug
    from icf.dwarf.runs import thread_count
    from icf.dwarf.scan import scan_functions
    from icf.elf.image import Image

    with Image.open(image_path) as image:
        size_mb = len(image.contents(".debug_info")) / 1e6
        open_s = _median_s(lambda: open_debug(image))
        debug = open_debug(image)
        one_s = _median_s(lambda: scan_functions(debug, 1))
        all_s = _median_s(lambda: scan_functions(debug, thread_count()))
        function_count = len(scan_functions(debug, 1).functions.die)
    return {
        "debug_info_mb": size_mb,
        "open_s": open_s,
        "one_thread_mb_per_s": size_mb / one_s,
        "all_threads_mb_per_s": size_mb / all_s,
        "thread_count": thread_count(),
        "function_count": function_count,
    }


def rewrite_image(image_path: Path, out: Path) -> dict[str, float]:
    from icf.elf.image import Image
    from linkpass.rewrite.edits import SectionEdit
    from linkpass.rewrite.sections import rewrite

    with Image.open(image_path) as image:
        edits = [SectionEdit(".debug_icf", bytes(100_000))]
        rewrite_s = _median_s(lambda: rewrite(image, out, edits))
    copy_s = _median_s(lambda: shutil.copyfile(image_path, out))
    out.unlink()
    size_mb = image_path.stat().st_size / 1e6
    return {"image_mb": size_mb, "rewrite_s": rewrite_s, "copy_s": copy_s, "ratio": rewrite_s / copy_s}


def resolve(image_path: Path, stacks_path: Path) -> dict[str, float]:
    from unwind import Resolver, open_or_build
    from unwind.readers.pcs import read_pcs
    from unwind.symcache.reader.program import load_cached

    with stacks_path.open("rb") as lines:
        stacks = list({(stack.addresses, stack.vptrs): None for stack in read_pcs(lines, str(stacks_path))})
    gc.set_threshold(1 << 20)  # as `icf resolve` does

    def rate(resolver: Resolver) -> float:
        begin_s = time.perf_counter()
        for addresses, vptrs in stacks:
            resolver.resolve(addresses, vptrs)
        return len(stacks) / (time.perf_counter() - begin_s)

    with tempfile.TemporaryDirectory() as cache_dir:
        cache = open_or_build(image_path, cache_dir=cache_dir)
        never, by_calls = [], []
        for _ in range(REPEATS):
            resolver = Resolver(load_cached(cache), address_limit=0)  # so that no whole stack is remembered
            never.append(rate(resolver))
            by_calls.append(rate(resolver))
        resolver = Resolver(load_cached(cache))
        rate(resolver)
        whole = [rate(resolver) for _ in range(REPEATS)]
    return {
        "distinct_count": len(stacks),
        "new_stacks_per_s": max(never),
        "known_calls_per_s": max(by_calls),
        "known_stacks_per_s": max(whole),
    }


def main(job: str, image: str, file: str = "") -> None:
    if job == "scan":
        figures = scan(Path(image))
    else:
        figures = (rewrite_image if job == "rewrite" else resolve)(Path(image), Path(file))
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
