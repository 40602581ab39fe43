"""How fast: DWARF scan, link pass, rewriting, resolver, symcache and unwinder, each against something known.

    python -m tests.bench                     on the programs that tests.truth builds (and what else is in its cache)
    python -m tests.bench IMAGE... [--json]   on these linked images
    python -m tests.bench --copies 100 300    on programs with so many MB of .debug_info (`tests.bench.copies`)

The pass is measured against `llvm-gsymutil-19 --convert --num-threads=2` on the same file, in turns: both read all
DWARF of an image and write a table. Stacks come from an accuracy run of the same image if there was one.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from icf.elf.image import Image
from tests.bench import copies
from tests.bench.symcache import random_vaddrs
from tests.bench.timing import CommandFailed, Cost, run, run_in_turns, warm
from tests.support.toolchain import find
from tests.truth.builds import build
from tests.truth.programs import CACHE, GENERATED, NINJA, Unavailable
from tests.truth.tool import default_command

STACK_COUNT, QUERY_TURNS = 20_000, 40
Figures = dict[str, Any]
_KNOWLEDGE = ("new_stacks", "known_calls", "known_stacks")  # of the resolver


def _default_images(cache: Path) -> list[Path]:
    """What the accuracy run measures on; anything larger that lies in its cache comes along."""
    images = []
    for program in (GENERATED, NINJA):
        try:
            images.append(build(program, "clang", "lldr", cache).folded)
        except Unavailable as reason:
            print(f"{program.name}: left out: {reason}", file=sys.stderr)
    larger = [path for linker in ("lldr", "lld", "gold") for path in sorted(cache.glob(f"*/*/{linker}/*.all_"))]
    return [*images, *(path for path in larger if path.stat().st_size > 30e6 and path not in images)]


def _inside(job: str, *arguments: str) -> Figures:
    command = [sys.executable, "-m", "tests.bench.inside", job, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandFailed(done.stderr.strip().splitlines()[-1])
    figures: Figures = json.loads(done.stdout)
    return figures


def _bench_pass(image: Path, command: Sequence[str], work: Path, turn_count: int) -> Figures:
    commands = {"pass": [*command, "pass", str(image), "-o", str(work / "passed")]}
    if gsymutil := find("llvm-gsymutil"):
        commands["gsymutil"] = [gsymutil, "--convert", str(image), "--num-threads=2", f"--out-file={work / 'gsym'}"]
    costs = run_in_turns(commands, turn_count)
    figures: Figures = {
        f"{name}_{field}": round(getattr(cost, field), 3)
        for name, cost in costs.items()
        for field in ("wall_s", "cpu_s", "peak_mb")
    }
    if "gsymutil" in costs:
        figures["wall_ratio"] = costs["pass"].wall_s / costs["gsymutil"].wall_s
        figures["cpu_ratio"] = costs["pass"].cpu_s / costs["gsymutil"].cpu_s
        figures["peak_ratio"] = costs["pass"].peak_mb / costs["gsymutil"].peak_mb
    figures["growth_bytes"] = (work / "passed").stat().st_size - image.stat().st_size
    return figures


def _stack_lines(image: Path) -> list[str]:
    recorded = image.parent / "work" / f"{image.name}.stacks"
    lines = recorded.read_text().splitlines(keepends=True) if recorded.exists() else []
    return lines and (lines * (STACK_COUNT // len(lines) + 1))[:STACK_COUNT]


def _bench_resolve(image: Path, command: Sequence[str], work: Path, turn_count: int) -> Figures:
    """Stacks a second without start-up, of the command (the difference between many stacks and one) and inside."""
    lines = _stack_lines(image)
    if not lines:
        return {}
    (work / "many").write_text("".join(lines))
    (work / "one").write_text(lines[0])
    base = [*command, "resolve", "-e", str(work / "passed"), "--format", "pcs", "--out", "json"]
    costs: dict[str, Cost] = run_in_turns({name: [*base, str(work / name)] for name in ("one", "many")}, turn_count)
    spent_s = max(costs["many"].wall_s - costs["one"].wall_s, 1e-9)
    frame_count = sum(len(line.split()) for line in lines)
    return {
        "one_stack_s": costs["one"].wall_s,
        "stacks_per_s": len(lines) / spent_s,
        "frames_per_s": frame_count / spent_s,
        "resolve_peak_mb": costs["many"].peak_mb,
        **_inside("resolve", str(work / "passed"), str(work / "many")),
    }


def _bench_symcache(image: Path, work: Path, turn_count: int) -> Figures:
    module = [sys.executable, "-m", "tests.bench.symcache"]
    commands = {"build": [*module, "build", str(image), str(work / "symcache")]}
    if gsymutil := find("llvm-gsymutil"):
        commands["gsymutil"] = [gsymutil, "--convert", str(image), "--num-threads=2", f"--out-file={work / 'gsym'}"]
    if find_spec("symbolic"):
        commands["symbolic"] = [*module, "symbolic", str(image), str(work / "symbolic")]
    figures: Figures = {
        f"{name}_{field}": round(getattr(cost, field), 3)
        for name, cost in run_in_turns(commands, turn_count).items()
        for field in ("wall_s", "cpu_s", "peak_mb")
    }
    done = subprocess.run([*module, "ask", str(image), str(work / "symcache")], capture_output=True, text=True)
    if done.returncode:
        raise CommandFailed(done.stderr.strip().splitlines()[-1])
    figures.update(json.loads(done.stdout))
    for name in ("gsym", "symbolic"):
        if (work / name).exists():
            figures[f"{name}_bytes"] = (work / name).stat().st_size
    return figures


def _bench_query(image: Path, command: Sequence[str], work: Path) -> Figures:
    """One address of a symcache that is kept, a process of its own, and a process that does nothing."""
    with Image.open(image) as opened:
        vaddr = hex(opened.entry)
    commands = {
        "query": [*command, "symbolize", "-e", str(image), "--cache-dir", str(work / "cache"), vaddr],
        "python": [sys.executable, "-c", "pass"],
    }
    return {f"{name}_ms": cost.wall_s * 1e3 for name, cost in run_in_turns(commands, QUERY_TURNS).items()}


def _bench_symbolize(image: Path, command: Sequence[str], work: Path, turn_count: int) -> Figures:
    """Random addresses on stdin of an image that has its tables, if it could be given some; the symcache is kept."""
    passed = work / "passed" if (work / "passed").exists() else image
    asked = work / "addresses"
    asked.write_text("".join(f"{vaddr:#x}\n" for vaddr in random_vaddrs(passed)))
    base = [*command, "symbolize", "-e", str(passed), "--cache-dir", str(work / "cache")]
    styles = {"text": (), "json": ("--style", "json"), "candidates": ("--candidates",)}
    commands = {name: [*base, *options] for name, options in styles.items()}
    if symbolizer := find("llvm-symbolizer"):
        commands["peer"] = [symbolizer, "-e", str(passed)]
    return {
        f"{name}_{field}": getattr(cost, field)
        for name, cost in run_in_turns(commands, turn_count, partial(run, asked=asked)).items()
        for field in ("wall_s", "peak_mb")
    }


def _bench_unwinding(image: Path, work: Path) -> Figures:
    figures: Figures = {}
    for what, where in (("rows", image), ("walk", work)):
        command = [sys.executable, "-m", "tests.bench.unwinding", what, str(where)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise CommandFailed(done.stderr.strip().splitlines()[-1])
        figures.update(json.loads(done.stdout))
    return figures


def bench_image(image: Path, command: Sequence[str], turn_count: int) -> Figures:
    """All figures of one image; a part that fails says why and the others go on."""
    warm(image)
    figures: Figures = {"image": str(image)}
    with tempfile.TemporaryDirectory(dir=image.parent) as folder:
        work = Path(folder)
        parts: dict[str, Callable[[], Figures]] = {
            "scan": lambda: _inside("scan", str(image)),
            "rewrite": lambda: _inside("rewrite", str(image), str(work / "rewritten")),
            "pass": lambda: _bench_pass(image, command, work, turn_count),
            "resolve": lambda: _bench_resolve(image, command, work, turn_count),
            "symcache": lambda: _bench_symcache(image, work, turn_count),
            "query": lambda: _bench_query(image, command, work),
            "symbolize": lambda: _bench_symbolize(image, command, work, turn_count),
            "unwind": lambda: _bench_unwinding(image, work),
        }
        for name, part in parts.items():
            try:
                figures[name] = part()
            except CommandFailed as error:
                figures[name] = {"problem": str(error)}
    return figures


def _lines(figures: Figures) -> Iterator[str]:
    yield figures["image"]
    for name in ("scan", "rewrite", "pass", "resolve", "symcache", "query", "symbolize", "unwind"):
        part = figures[name]
        if "problem" in part:
            yield f"  {name:8} failed: {part['problem']}"
    if "open_s" in (scan := figures["scan"]):
        yield (
            f"  scan     {scan['debug_info_mb']:.1f} MB of .debug_info, {scan['function_count']:,} functions: "
            f"{scan['one_thread_mb_per_s']:.0f} MB/s with one thread, {scan['all_threads_mb_per_s']:.0f} with "
            f"{scan['thread_count']}; opening {scan['open_s']:.3f} s"
        )
    if "copy_s" in (rewriting := figures["rewrite"]):
        yield (
            f"  rewrite  {rewriting['image_mb']:.1f} MB: {rewriting['rewrite_s']:.3f} s, "
            f"copying alone {rewriting['copy_s']:.3f} s, ratio {rewriting['ratio']:.2f}"
        )
    if "pass_wall_s" in (passing := figures["pass"]):
        yield (
            f"  pass     {passing['pass_wall_s']:.2f} s wall, {passing['pass_cpu_s']:.2f} s CPU, "
            f"{passing['pass_peak_mb']:.0f} MB peak; grows the image by {passing['growth_bytes']:,} bytes"
        )
        if "wall_ratio" in passing:
            yield (
                f"  gsymutil {passing['gsymutil_wall_s']:.2f} s wall, {passing['gsymutil_cpu_s']:.2f} s CPU, "
                f"{passing['gsymutil_peak_mb']:.0f} MB peak: the pass takes {passing['wall_ratio']:.2f} of its time, "
                f"{passing['cpu_ratio']:.2f} of its processor time, {passing['peak_ratio']:.2f} of its memory"
            )
    if "stacks_per_s" in (resolving := figures["resolve"]):
        yield (
            f"  resolve  {resolving['stacks_per_s']:,.0f} stacks/s, {resolving['frames_per_s']:,.0f} frames/s, "
            f"one stack in {resolving['one_stack_s']:.3f} s, {resolving['resolve_peak_mb']:.0f} MB peak"
        )
        new, calls, known = (f"{resolving[f'{what}_per_s']:,.0f}/s" for what in _KNOWLEDGE)
        yield (
            f"  inside   {resolving['distinct_count']:,} distinct stacks: {new} that are new, {calls} of known calls, "
            f"{known} that are known"
        )
    if "build_wall_s" in figures["symcache"]:
        yield from _symcache_lines(figures["symcache"])
    if "debug_info_mb" in scan:
        peaks = {"pass": passing.get("pass_peak_mb"), "symcache": figures["symcache"].get("build_peak_mb")}
        ratios = [f"{name} {peak / scan['debug_info_mb']:.1f}" for name, peak in peaks.items() if peak is not None]
        yield f"  memory   at most, in sizes of .debug_info: {', '.join(ratios)}"
    if "query_ms" in (asking := figures["query"]):
        yield (
            f"  query    one address, the whole process: {asking['query_ms']:.1f} ms; a Python that does nothing "
            f"{asking['python_ms']:.1f} ms"
        )
    if "text_wall_s" in (writing := figures["symbolize"]):
        names = [name for name in ("text", "json", "candidates", "peer") if f"{name}_wall_s" in writing]
        costs = [f"{name} {writing[f'{name}_wall_s']:.2f} s, {writing[f'{name}_peak_mb']:.0f} MB" for name in names]
        yield f"  symbolize 100,000 addresses on stdin, folded ones with tables: {'; '.join(costs)}{_ratio(writing)}"
    if "rows_per_s" in (unwinding := figures["unwind"]):
        yield (
            f"  unwind   {unwinding['row_count']:,} rows of .eh_frame: {unwinding['rows_per_s']:,.0f}/s, pyelftools "
            f"{unwinding['pyelftools_rows_per_s']:,.0f}/s"
        )
    if "frames_per_s" in unwinding:
        yield (
            f"  stacks   {unwinding['recording_mb']:.0f} MB of a Python's, recorded with dwarf: "
            f"{unwinding['frames_per_s']:,.0f} frames/s, perf script {unwinding['perf_frames_per_s']:,.0f}/s"
        )


def _ratio(writing: Figures) -> str:
    if "peer_wall_s" not in writing:
        return ""
    return f" (llvm-symbolizer): text takes {writing['text_wall_s'] / writing['peer_wall_s']:.2f} of its time"


def _symcache_lines(figures: Figures) -> Iterator[str]:
    yield (
        f"  symcache {figures['build_wall_s']:.2f} s wall, {figures['build_cpu_s']:.2f} s CPU, "
        f"{figures['build_peak_mb']:.0f} MB peak; {figures['file_bytes'] / 1e6:.2f} MB, of these names, lines and "
        f"inlined calls without columns {figures['compared_bytes'] / 1e6:.2f} MB"
    )
    if "gsymutil_wall_s" in figures:
        yield (
            f"  gsymutil {figures['gsymutil_wall_s']:.2f} s wall, {figures['gsymutil_cpu_s']:.2f} s CPU, "
            f"{figures['gsymutil_peak_mb']:.0f} MB peak; {figures['gsym_bytes'] / 1e6:.2f} MB"
        )
    if "symbolic_wall_s" in figures:
        yield (
            f"  symbolic {figures['symbolic_wall_s']:.2f} s wall, {figures['symbolic_cpu_s']:.2f} s CPU, "
            f"{figures['symbolic_peak_mb']:.0f} MB peak; {figures['symbolic_bytes'] / 1e6:.2f} MB"
        )
    peer = f", llvm-symbolizer {figures['llvm_symbolizer_s']:.2f} s" if "llvm_symbolizer_s" in figures else ""
    yield (
        f"  look-ups {figures['plain_per_s'] / 1e6:.0f} M/s; frames of 100,000 addresses {figures['frames_s']:.2f} s"
        f"{peer}; one by one {figures['one_us']:.0f} us each"
    )


def main(arguments: list[str] | None = None) -> int:
    """Bench each image and print its figures as they come."""
    parser = argparse.ArgumentParser(
        prog="tests.bench", description="measure the speed of the kernels, pass and resolver"
    )
    parser.add_argument("images", nargs="*", type=Path, metavar="IMAGE")
    parser.add_argument("--copies", nargs="+", type=float, default=[], metavar="MB", help="of .debug_info")
    parser.add_argument("--turns", type=int, default=5, help="measured runs of each command (default 5)")
    parser.add_argument("--tool", help="command of the tool under test (default: icf beside this Python)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cache", type=Path, default=CACHE)
    args = parser.parse_args(arguments)
    command = shlex.split(args.tool) if args.tool else default_command()
    results = []
    large = [copies.make(megabytes, args.cache / "copies") for megabytes in args.copies]
    for image in [*args.images, *large] or _default_images(args.cache):
        figures = bench_image(image, command, args.turns)
        results.append(figures)
        if not args.json:
            print("\n".join(_lines(figures)), flush=True)
    if args.json:
        print(json.dumps(results, indent=1))
    return (
        1 if any("problem" in part for figures in results for part in figures.values() if isinstance(part, dict)) else 0
    )


if __name__ == "__main__":
    sys.exit(main())
