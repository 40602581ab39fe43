"""Links and objects, each against what it adds to: `icf link` and the link, `icf annotate` and a Python that starts.

python -m tests.bench.links FOLDER [MB] [--turns N]    prints JSON; made programs with MB of .debug_info each

link       the plain link
first      `icf link` that knows nothing of the link
again      with the same inputs as the last time
changed    with one object changed since the last time
python     a Python that does nothing
annotate   `icf annotate` of the object of median size
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.bench.copies import FLAGS, make_objects
from tests.bench.timing import Cost, run, run_in_turns
from tests.support import toolchain
from tests.support.toolchain import linker_options
from tests.truth.programs import find
from tests.truth.tool import default_command

OTHER = """
__attribute__((noinline)) unsigned long other(unsigned long n) { return n * sink + 17; }
unsigned long (*volatile chosen)(unsigned long) = other;
"""  # what the object that changes has besides
MEGABYTES = (10.0, 40.0)


def bench_links(megabytes: float, folder: Path, command: Sequence[str], turn_count: int) -> dict[str, Any]:
    """Return the figures of one made program: seconds and MB.

    Raises:
        Unavailable: clang or lld is missing.
    """
    driver, chosen = find("clang++"), linker_options("lld", find("ld.lld"))
    objects = make_objects(driver, megabytes * 1e6, folder)
    (folder / "other.cc").write_text((folder / "main.cc").read_text() + OTHER)
    toolchain.run(driver, *FLAGS, "-c", folder / "other.cc", "-o", folder / "other.o")
    variants = [objects[0].read_bytes(), (folder / "other.o").read_bytes()]
    (folder / "objects").write_text("\n".join(map(str, objects)))
    link = [driver, *chosen, "-Wl,--icf=all", f"@{folder / 'objects'}", "-o"]
    with_tables = [*command, "link", "--", *link]
    median = sorted(objects, key=lambda path: path.stat().st_size)[len(objects) // 2]
    copy = Path(shutil.copy(median, folder / "median"))
    commands = {
        "link": [*link, str(folder / "plain")],
        "first": [*with_tables, str(folder / "first")],
        "again": [*with_tables, str(folder / "again")],
        "changed": [*with_tables, str(folder / "changed")],
        "python": [sys.executable, "-c", "pass"],
        "annotate": [*command, "annotate", str(copy)],
    }

    def measure(chosen: Sequence[str]) -> Cost:
        if chosen is commands["first"]:
            shutil.rmtree(folder / "cache", ignore_errors=True)
            cost = run(chosen)
            run(commands["again"])  # so that it is known
            return cost
        if chosen is commands["changed"]:
            run(chosen)
            variants.reverse()
            objects[0].write_bytes(variants[0])
        elif chosen is commands["annotate"]:
            shutil.copy(median, copy)
        return run(chosen)

    os.environ["ICF_CACHE_DIR"] = str(folder / "cache")
    costs = run_in_turns(commands, turn_count, measure)
    figures: dict[str, Any] = {"program_mb": (folder / "plain").stat().st_size / 1e6}
    for name, cost in costs.items():
        figures |= {f"{name}_wall_s": cost.wall_s, f"{name}_cpu_s": cost.cpu_s}
    return figures


def lines_of(figures: dict[str, Any]) -> list[str]:
    """Return the figures as text."""
    added = [
        f"{text} +{figures[f'{name}_wall_s'] - figures['link_wall_s']:.2f} s"
        for name, text in (("first", "the first"), ("again", "the same again"), ("changed", "one object changed"))
    ]
    return [
        f"link of {figures['program_mb']:.0f} MB",
        f"  link     {figures['link_wall_s']:.2f} s; icf link: {', '.join(added)}",
        f"  annotate an object: {figures['annotate_cpu_s'] * 1e3:.0f} ms CPU; a Python that does nothing "
        f"{figures['python_cpu_s'] * 1e3:.0f} ms",
    ]


def main() -> None:
    """Measure the programs that the command line asks for."""
    parser = argparse.ArgumentParser(prog="tests.bench.links", description="measure links with and without tables")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("megabytes", nargs="*", type=float, metavar="MB", default=MEGABYTES, help="of .debug_info")
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    results = []
    for megabytes in args.megabytes:
        with TemporaryDirectory(dir=args.folder) as scratch:
            results.append(bench_links(megabytes, Path(scratch), default_command(), args.turns))
        print("\n".join(lines_of(results[-1])), file=sys.stderr, flush=True)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
