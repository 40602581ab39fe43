"""One image: scan, rewriting, pass, resolver, symcache, queries and unwinder, each against something known.

The pass is measured against `llvm-gsymutil --convert --num-threads=2` on the same file, in turns: both read all DWARF
of an image and write a table. Stacks are those of a run of the image if tests.truth can run it, else they are made.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from icf.elf.image import Image
from icf.errors import IcfError
from tests.bench.dense_stacks import dense_stacks
from tests.bench.made_stacks import made_stacks
from tests.bench.symcache import random_vaddrs
from tests.bench.timing import CommandFailed, Cost, run, run_in_turns, warm
from tests.support.toolchain import find

STACK_COUNT, QUERY_TURNS = 20_000, 40
_CUT = ("--max-candidates", "16")  # most frames may stay open: gigabytes of JSON
PARTS = ("scan", "rewrite", "pass", "resolve", "symcache", "query", "symbolize", "unwind")
Figures = dict[str, Any]


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
    figures["growth_bytes"] = (work / "passed").stat().st_size - image.stat().st_size
    return figures


def _stack_lines(image: Path, work: Path) -> list[str]:
    lines = dense_stacks(image)
    if not lines:
        return made_stacks(work / "passed", STACK_COUNT, work / "cache")
    return lines * (STACK_COUNT // len(lines) + 1)


def _bench_resolve(image: Path, command: Sequence[str], work: Path, turn_count: int) -> Figures:
    """Stacks a second without start-up, of the command (the difference between many stacks and one) and inside."""
    if not (work / "passed").exists():  # the part "pass" is not wanted
        run([*command, "pass", str(image), "-o", str(work / "passed")])
    lines = _stack_lines(image, work)
    if not lines:
        return {}
    (work / "many").write_text("".join(lines))
    (work / "one").write_text(lines[0])
    base = [*command, "resolve", "-e", str(work / "passed"), "--format", "pcs", "--out", "json"]
    costs: dict[str, Cost] = run_in_turns(
        {
            f"{name}_{losses}": [*base, "--lossy", losses, *options, str(work / name)]
            for losses, options in (("none", ()), ("fp", _CUT))
            for name in ("one", "many")
        },
        turn_count,
    )
    spent_s = {
        losses: max(costs[f"many_{losses}"].wall_s - costs[f"one_{losses}"].wall_s, 1e-9) for losses in ("none", "fp")
    }
    frame_count = sum(len(line.split()) for line in lines)
    return {
        "one_stack_s": costs["one_none"].wall_s,
        "stacks_per_s": len(lines) / spent_s["none"],
        "frames_per_s": frame_count / spent_s["none"],
        "lossy_stacks_per_s": len(lines) / spent_s["fp"],
        "resolve_peak_mb": costs["many_none"].peak_mb,
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
    if symbolizer := find("llvm-symbolizer"):
        commands["peer"] = [symbolizer, "-e", str(image), vaddr]
    return {f"{name}_cpu_s": cost.cpu_s for name, cost in run_in_turns(commands, QUERY_TURNS).items()}


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
        for field in ("wall_s", "cpu_s", "peak_mb")
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


def bench_image(image: Path, command: Sequence[str], turn_count: int, wanted: Sequence[str] = PARTS) -> Figures:
    """All figures of one image, of the parts that are wanted; one that fails says why and the others go on."""
    try:
        warm(image)
    except OSError as error:
        raise CommandFailed(f"{image}: {error.strerror}") from None
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
            if name not in wanted:
                continue
            try:
                figures[name] = part()
            except (CommandFailed, IcfError) as error:
                figures[name] = {"problem": str(error)}
    return figures
