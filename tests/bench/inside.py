"""Measurements of library calls in a process of their own.

    python -m tests.bench.inside JOB IMAGE [OUT]     prints JSON

scan      .debug_info read by the bulk kernel: MB/s with one thread and with all, imports not counted
rewrite   one section of 100 kB added to the image, against a plain copy of the file
"""

from __future__ import annotations

import json
import resource
import shutil
import statistics
import sys
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
    from icf.dwarf.scan import scan_functions, thread_count
    from icf.dwarf.units import DebugInfo
    from icf.elf.image import Image

    with Image.open(image_path) as image:
        size_mb = len(image.contents(".debug_info")) / 1e6
        open_s = _median_s(lambda: DebugInfo.open(image))
        debug = DebugInfo.open(image)
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
    from linkpass.rewrite import SectionEdit, rewrite

    with Image.open(image_path) as image:
        edits = [SectionEdit(".debug_icf", bytes(100_000))]
        rewrite_s = _median_s(lambda: rewrite(image, out, edits))
    copy_s = _median_s(lambda: shutil.copyfile(image_path, out))
    out.unlink()
    size_mb = image_path.stat().st_size / 1e6
    return {"image_mb": size_mb, "rewrite_s": rewrite_s, "copy_s": copy_s, "ratio": rewrite_s / copy_s}


def main(job: str, image: str, out: str = "") -> None:
    figures = scan(Path(image)) if job == "scan" else rewrite_image(Path(image), Path(out))
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
