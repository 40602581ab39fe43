"""Recordings of folded programs against the same recordings of unfolded ones, by share of samples per function.

    python -m tests.truth.recordings                                 cppcheck, built and recorded in several ways
    python -m tests.truth.recordings --program ninja --compiler gcc-fp --linker gold --call-graph dwarf

    objects --> link --icf=none           --> icf record --> addresses in the symbol table    --> shares  ] compare
       |                                                                                                  ]
       +------> link --icf=all, icf pass  --> icf record --> icf resolve --out pprof          --> shares  ]

perf's clock does not tick at the same instructions twice, so shares are compared, not stacks: `tests.truth.shares` says
how. A function that has its code for itself is named by its address: if its share differs, it took another time. What
a function that the unfolded program never calls has, is wrong at any share; a debugger says if it is called.
`--out collapsed` must have the same shares as pprof, sample for sample. Exits with 1 if a name was wrong.
"""

from __future__ import annotations

import argparse
import gzip
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.support.toolchain import run
from tests.truth.builds import COMPILERS, LINKERS, build
from tests.truth.folding import Folding, match_images
from tests.truth.kinds import add_tables
from tests.truth.programs import CACHE, PROGRAMS, Program, Unavailable, find
from tests.truth.shares import Difference, Functions, Sampled, Shares, differences
from tests.truth.symbols import FunctionTable
from tests.truth.tool import ToolError, default_command, run_command
from unwind.readers.profile_proto import Profile

FREQUENCIES = {"fp": "1999", "dwarf": "997"}  # in a second; by call graph


@dataclass(frozen=True)
class Kind:
    """One way to build and to record."""

    program: Program
    compiler: str
    linker: str
    call_graph: str
    evidence: str = "objects"
    repeat: int = 1  # of all runs of the program

    def __str__(self) -> str:
        return f"{self.program.name} {self.compiler} {self.linker} {self.call_graph}"


@dataclass
class Result:
    """What the folded recording says of a program, against the unfolded one."""

    samples: tuple[int, int]  # unfolded, folded
    functions: int
    merged: Counter[str]  # frames in merged functions: settled, or open
    strangers: list[str]  # names of frames in a body that is not theirs
    differences: list[Difference]  # of functions that share a body
    timing: list[Difference]  # of others, whose addresses are theirs alone: what the clock has made of them
    never_called: list[str]  # functions that are said, and that the unfolded program does not call
    collapsed_differs: list[str]

    @property
    def is_wrong(self) -> bool:
        return bool(self.strangers or self.differences or self.never_called or self.collapsed_differs)


def measure(kind: Kind, command: Sequence[str], cache: Path) -> Result:
    """Record both links, resolve, compare. Raises Unavailable, ToolError."""
    built = build(kind.program, kind.compiler, kind.linker, cache)
    work = built.folder / "recordings"
    work.mkdir(exist_ok=True)
    passed = work / built.folded.name
    add_tables(command, built, kind.evidence, passed)
    folding = match_images(built.unfolded, passed, built.report.read_text(), built.folder)
    functions = Functions(folding.originals)
    profiles = []
    runs = [
        (folder.resolve(), words)
        for folder, words in kind.program.runs(built.source, cache / kind.program.name / "run")
    ]
    for image in (built.unfolded, passed):
        recording = work / f"{image.name}.{kind.call_graph}"
        record(command, kind, image, runs, recording)
        profiles.append(resolve(command, recording))
    collapsed = work / "collapsed"
    run_command([*command, "resolve", str(recording), "--out", "collapsed", "-o", str(collapsed)])
    merged = _Merged()
    unfolded = Shares.of(_true(profiles[0], built.unfolded, folding.originals, functions))
    folded = Shares.of(_said(profiles[1], passed, folding, functions, merged))
    if not (unfolded.samples and folded.samples):
        raise ToolError(f"{kind}: no sample of the program: --repeat runs it more often")
    found = differences(unfolded, folded)
    unknown = [name for name in folded.total if not unfolded.total[name]]
    called = calls(built.unfolded, runs, functions, unknown)
    return Result(
        (unfolded.samples, folded.samples),
        len(folded.total),
        merged.frames,
        sorted(merged.strangers),
        [each for each in found if each.function in merged.functions],
        [each for each in found if each.function not in merged.functions],
        sorted(set(unknown) - called),
        shares_that_differ(collapsed, profiles[1]),
    )


def record(command: Sequence[str], kind: Kind, image: Path, runs: Iterable[tuple[Path, list[str]]], out: Path) -> None:
    """Record all runs of the program, as often as is asked."""
    lines = [
        f"(cd {shlex.quote(str(folder))}; {shlex.join([str(image), *words])}) > /dev/null 2>&1"
        for folder, words in runs
    ]
    script = "\n".join([f"for i in $(seq {kind.repeat}); do", *lines, "done", "true"])
    options = ["-F", FREQUENCIES[kind.call_graph], "--call-graph", kind.call_graph, "-o", str(out)]
    run_command([*command, "record", *options, "--", "sh", "-c", script])


def resolve(command: Sequence[str], recording: Path) -> Profile:
    """What `icf resolve` makes of a recording, as pprof."""
    out = recording.with_name(recording.name + ".pb.gz")
    run_command([*command, "resolve", str(recording), "--out", "pprof", "-o", str(out)])
    profile = Profile()
    profile.ParseFromString(gzip.decompress(out.read_bytes()))
    return profile


class _Frame(NamedTuple):
    """A frame of the program in a profile."""

    vaddr: int
    name: str  # the linkage name if it has one; of several functions, something
    is_open: bool


def _frames(profile: Profile, image: Path, table: FunctionTable) -> Iterator[tuple[list[_Frame], bool, int]]:
    """Yield the program's frames in each sample that has any, if the first is innermost, and how often."""
    texts = [each.decode() for each in profile.string_table]
    names = {each.id: texts[each.system_name] or texts[each.name] for each in profile.function}
    mappings = {each.id: each for each in profile.mapping if texts[each.filename] == str(image)}
    frames: dict[int, _Frame] = {}
    for each in profile.location:
        mapping = mappings.get(each.mapping_id)
        if mapping is not None and each.address:
            offset = each.address - mapping.memory_start + mapping.file_offset
            segments = (one for one in table.segments if one.offset <= offset < one.offset + one.filesz)
            name = names[each.line[-1].function_id] if each.line else ""
            vaddr = next((offset - one.offset + one.vaddr for one in segments), 0)
            frames[each.id] = _Frame(vaddr, name, each.is_folded)
    for sample in profile.sample:
        found = [frames[each] for each in sample.location_id if each in frames]
        if found:
            yield found, sample.location_id[0] in frames, sample.value[0]


def _true(profile: Profile, image: Path, table: FunctionTable, functions: Functions) -> Iterator[Sampled]:
    """Yield the samples of the unfolded program by their addresses, whatever they are said to be."""
    for frames, is_innermost, count in _frames(profile, image, table):
        known = (functions.at(each.vaddr) for each in frames)
        yield Sampled(tuple([frozenset({each} if each else {}) for each in known]), is_innermost, count)


@dataclass
class _Merged:
    """What was seen in merged bodies."""

    frames: Counter[str] = field(default_factory=Counter)  # settled, or open
    functions: set[str] = field(default_factory=set)  # all that share a body with another
    strangers: set[str] = field(default_factory=set)


def _said(profile: Profile, image: Path, folding: Folding, functions: Functions, merged: _Merged) -> Iterator[Sampled]:
    """Yield the samples of the folded program by their names; a frame that is open can be all of the body's."""
    for frames, is_innermost, count in _frames(profile, image, folding.bodies):
        sampled = []
        for frame in frames:
            body = folding.bodies.start_of(frame.vaddr)
            members = folding.members.get(body, ()) if body is not None else ()
            can_be = frozenset(name for start in members if (name := functions.at(start)))
            if frame.is_open:
                sampled.append(can_be)
            else:
                sampled.append(functions.of_name(frame.name))
            if len(can_be) > 1:
                merged.frames["open" if frame.is_open else "settled"] += count
                merged.functions |= can_be
                if not frame.is_open and not can_be & sampled[-1]:
                    merged.strangers.add(f"{frame.name} at {frame.vaddr:#x}")
        yield Sampled(tuple(sampled), is_innermost, count)


def shares_that_differ(collapsed: Path, profile: Profile) -> list[str]:
    """Return the names that collapsed stacks and pprof do not give the same share."""
    texts = [each.decode().replace(";", ":") for each in profile.string_table]
    names = {each.id: texts[each.name] for each in profile.function}
    in_location = {each.id: {names[line.function_id] for line in each.line} for each in profile.location}
    wanted, found = Counter[str](), Counter[str]()
    for sample in profile.sample:
        for name in set[str]().union(*(in_location[each] for each in sample.location_id)):
            wanted[name] += sample.value[-1]
    for line in collapsed.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        for name in {*stack.split(";")[1:]}:  # the first is the process
            found[name] += int(count)
    return sorted(name for name, count in wanted.items() if found[name] != count)


def calls(image: Path, runs: Iterable[tuple[Path, list[str]]], functions: Functions, names: Iterable[str]) -> set[str]:
    """Return which of these functions a program calls, by breakpoints of gdb in each of its runs."""
    gdb, left = find("gdb"), {name: functions.starts(name) for name in names}
    called: set[str] = set()
    for folder, arguments in runs:
        vaddrs = sorted({start for starts in left.values() for start in starts})
        if not vaddrs:
            break
        script = image.with_suffix(".breaks.py")
        script.write_text(f"PATH, VADDRS = {str(image)!r}, {vaddrs}\n{_BREAKPOINTS}")
        command = [gdb, "-nx", "-batch", "-ex", f"exec-file {image}", "-ex", f"set args {shlex.join(arguments)}"]
        said = run(*command, "-ex", "starti", "-x", str(script), folder=folder, check=False).stdout
        reached = {vaddrs[int(idx)] for idx in re.findall(r"^REACHED (\d+)$", said, re.MULTILINE)}
        done = {name for name, starts in left.items() if starts & reached}
        called |= done
        left = {name: starts for name, starts in left.items() if name not in done}
    return called


_BREAKPOINTS = """
import gdb

with open(f"/proc/{gdb.selected_inferior().pid}/maps") as maps:
    bias = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(PATH))

class Reached(gdb.Breakpoint):
    def stop(self):
        print(f"\\nREACHED {self.idx}", flush=True)
        self.enabled = False
        return False

for idx, vaddr in enumerate(VADDRS):
    Reached(f"*{bias + vaddr}").idx = idx
gdb.execute("continue")
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.truth.recordings", description="recordings against the truth")
    parser.add_argument("--program", action="append", choices=sorted(PROGRAMS))
    parser.add_argument("--compiler", action="append", choices=sorted(COMPILERS))
    parser.add_argument("--linker", action="append", choices=sorted(LINKERS))
    parser.add_argument("--call-graph", action="append", choices=list(FREQUENCIES))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=CACHE)
    args = parser.parse_args(arguments)
    is_wrong = False
    for program in args.program or ["cppcheck"]:
        for compiler in args.compiler or ["clang-fp", "gcc-fp"]:
            for linker in args.linker or ["gold", "lld"]:
                for call_graph in args.call_graph or list(FREQUENCIES):
                    kind = Kind(PROGRAMS[program], compiler, linker, call_graph, repeat=args.repeat)
                    try:
                        result = measure(kind, default_command(), args.cache)
                    except (Unavailable, ToolError) as reason:
                        print(f"{kind}: left out: {reason}", file=sys.stderr)
                        continue
                    is_wrong |= result.is_wrong
                    _print(kind, result)
    return int(is_wrong)


def _print(kind: Kind, result: Result) -> None:
    print(f"{kind}: {result.samples} samples, {result.functions} functions, {dict(result.merged)}")
    for difference in result.differences:
        print(f"    WRONG: {difference}")
    for difference in result.timing:
        print(f"    another time: {difference}")
    for name in result.strangers:
        print(f"    WRONG: not of this body: {name}")
    for name in result.never_called:
        print(f"    WRONG: never called: {name}")
    for name in result.collapsed_differs:
        print(f"    WRONG: another share in collapsed stacks: {name}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
