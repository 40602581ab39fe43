"""Several modules against the truth: an executable and two shared objects, each linked with folding and without.

    python -m tests.truth.modules            across and gen, both compilers, every linker, given the objects
    python -m tests.truth.modules --program gen --compiler clang --linker lld

The sources of a program are compiled position-independent and dealt out: what defines `main` to the executable, the
rest to two shared objects that call each other and the executable back. Everything is exported, so nearly every call is
one by name. Both variants lie in folders of names of one length, and are sampled in one and the same run; a frame's
truth is the function of the unfolded module that the frame projects to. Exits with 1 if a name was wrong.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.support.toolchain import run
from tests.truth.across import write_across
from tests.truth.builds import COMPILE_FLAGS, COMPILE_JOBS, COMPILERS, LINK_OPTIONS, LINKERS, compile_one, linker_choice
from tests.truth.names import is_same
from tests.truth.programs import CACHE, PROGRAMS, Program, Unavailable, fetch, find
from tests.truth.record import Recording, Sample, Sampler, Sampling, build_sampler
from tests.truth.symbols import FunctionTable, base_name, read_functions
from tests.truth.tool import Answer, default_command, run_command

FOLDED, UNFOLDED = "folded", "single"
SHARED = ("libleft.so", "libright.so")
ACROSS = Program("across", partial(write_across, pair_count=6), lambda _: [], lambda *_: [(Path(), [])], gap=3)
_PROGRAMS = {**PROGRAMS, "across": ACROSS}
OUTCOMES = ("right", "narrowed", "open", "wrong")
Names = tuple[str, ...]


@dataclass(frozen=True)
class Image:
    """One module of one variant."""

    path: Path
    objects: tuple[Path, ...]
    report: str


@dataclass
class Score:
    """Frames in merged functions by outcome, and those of them that another module called."""

    merged: Counter[str] = field(default_factory=Counter)
    crossing: Counter[str] = field(default_factory=Counter)
    other: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)


def build(program: Program, compiler_name: str, linker: str, cache: Path) -> dict[str, list[Image]]:
    """The images of both variants, the executable first; what exists is linked anew."""
    compiler = COMPILERS[compiler_name]
    driver = find(compiler.driver)
    source = fetch(program.package, cache) if program.package else cache / "src" / program.name
    top = (cache / f"{program.name}-modules" / compiler_name).resolve()
    (top / "obj").mkdir(parents=True, exist_ok=True)
    files = program.sources(source)
    objects = [top / "obj" / ("_".join(path.relative_to(source).with_suffix("").parts) + ".o") for path in files]
    flags = [*COMPILE_FLAGS, *program.flags(source), *compiler.flags, "-fPIC"]
    with ThreadPoolExecutor(COMPILE_JOBS) as pool:
        list(pool.map(partial(compile_one, driver, flags), zip(files, objects, strict=True)))
    holds_main = [path for path in objects if "main" in read_functions(path).starts_of]
    others = [path for path in objects if path not in holds_main]
    middle = len(others) // 2
    choice = linker_choice(linker, compiler.is_aarch64)
    built: dict[str, list[Image]] = {}
    for variant, folding in ((UNFOLDED, ("--icf=none",)), (FOLDED, ("--icf=all", "--print-icf-sections"))):
        folder = top / linker / variant
        folder.mkdir(parents=True, exist_ok=True)
        images = built[variant] = []
        for name, inputs in (*zip(SHARED, (others[:middle], others[middle:]), strict=True), ("program", holds_main)):
            options = [*folding, *LINK_OPTIONS, *(["--emit-relocs"] if linker == "lldr" else [])]
            command = [driver, *choice, *(f"-Wl,{option}" for option in options), *map(str, inputs), "-pthread"]
            if name in SHARED:
                command += ["-shared", f"-Wl,-soname,{name}"]
            else:
                command += [*SHARED, "-Wl,-rpath,$ORIGIN", "-Wl,--allow-shlib-undefined", "-pie"]
            linked = run(*command, "-o", name, check=False, folder=folder)
            if linked.returncode:
                raise Unavailable(linked.stderr.strip().splitlines()[-1])
            images.append(Image(folder / name, tuple(inputs), linked.stdout + linked.stderr))
        images.reverse()
    return built


def add_tables(command: Sequence[str], images: Sequence[Image], evidence: str) -> None:
    """The pass over each module. Raises ToolError."""
    for image in images:
        given = image.path.with_suffix(f".{evidence}")
        if evidence == "objects":
            given.write_text("".join(f"{path}\n" for path in image.objects))
            options = ["--objects", f"@{given}"]
        else:
            given.write_text(image.report)
            options = ["--icf-report", str(given)]
        run_command([*command, "pass", str(image.path), *options])


class Truth:
    """What the frames of folded modules truly are."""

    def __init__(self, built: dict[str, list[Image]], recordings: dict[str, Recording]) -> None:
        self._recordings = recordings
        self._tables: dict[str, dict[str, FunctionTable]] = {
            variant: {str(image.path): read_functions(image.path) for image in images}
            for variant, images in built.items()
        }

    def names(self, original: int, address: int, is_exact: bool) -> Names | None:
        """The names of the true function, none outside of the modules; None if the two addresses do not match."""
        places = []
        for variant, value in ((UNFOLDED, original), (FOLDED, address)):
            module = self._recordings[variant].module_of(value)
            table = self._tables[variant].get(module.path) if module else None
            places.append((Path(module.path).name if module else "", table, value - (module.bias if module else 0)))
        (module_name, originals, original_pc), (other_name, bodies, pc) = places
        if module_name != other_name:
            return None
        if originals is None or bodies is None:
            return ()
        start = originals.start_of(original_pc - (not is_exact))
        if start is None:
            return ()  # a PLT stub
        if pc - (original_pc - start) not in bodies.keys_at:
            return None
        return tuple(dict.fromkeys(base_name(key) for key in originals.keys_at[start]))


def aligned(recordings: dict[str, Recording], truth: Truth) -> Iterator[tuple[Sample, list[Names]]]:
    """Samples of the folded program that are like those of the other, with the truth about each frame."""
    for original, sample in zip(recordings[UNFOLDED].samples, recordings[FOLDED].samples, strict=False):
        if not original.is_like(sample) or len(original.addresses) != len(sample.addresses):
            continue
        names = [
            truth.names(before, address, sample.is_exact and depth == 0)
            for depth, (before, address) in enumerate(zip(original.addresses, sample.addresses, strict=True))
        ]
        if None not in names:
            yield sample, [each for each in names if each is not None]


def measure(program: Program, compiler: str, linker: str, evidence: str, command: Sequence[str], cache: Path) -> Score:
    """Build, run and resolve one program in one way. Raises Unavailable, ToolError."""
    built = build(program, compiler, linker, cache)
    add_tables(command, built[FOLDED], evidence)
    sampler = Sampler(build_sampler(cache))
    source = fetch(program.package, cache) if program.package else cache / "src" / program.name
    score = Score()
    stacks: dict[tuple[tuple[int, ...], bool], tuple[list[Names], list[str]]] = {}
    work = built[FOLDED][0].path.parent
    for folder, arguments in program.runs(source, cache / program.name / "run"):
        for sampling in (Sampling(gap=program.gap), Sampling(gap=program.gap + 4, steps=12)):
            recordings = {
                variant: sampler.record(images[0].path, arguments, work / "samples", sampling, None, folder)
                for variant, images in built.items()
            }
            truth = Truth(built, recordings)
            stacks.clear()
            modules = recordings[FOLDED].modules
            for sample, names in aligned(recordings, truth):
                found = [recordings[FOLDED].module_of(address) for address in sample.addresses]
                stacks[sample.addresses, sample.is_exact] = (names, [module.path if module else "" for module in found])
            score.other["samples"] += len(recordings[FOLDED].samples)
            listed = [{"path": each.path, "bias": each.bias} for each in modules if each.path.startswith("/")]
            (work / "modules.json").write_text(json.dumps(listed))
            lines = [
                " ".join([*([] if is_exact else ["?"]), *(f"{address:#x}" for address in addresses)])
                for addresses, is_exact in stacks
            ]
            (work / "stacks").write_text("".join(f"{line}\n" for line in lines))
            options = ["--modules", str(work / "modules.json"), "--out", "json", "--no-lines", str(work / "stacks")]
            answers = run_command([*command, "resolve", *options]).splitlines()
            for line, (_, is_exact), (names, paths) in zip(answers, stacks, stacks.values(), strict=True):
                frames = json.loads(line)["frames"]
                _count(score, frames if is_exact else frames[1:], names, paths)
    return score


def _count(score: Score, frames: list[dict[str, object]], names: list[Names], paths: list[str]) -> None:
    for row, (frame, true_names) in enumerate(zip(frames, names, strict=True)):
        if not true_names:
            continue
        name, candidates = frame["linkage_name"] or frame["name"], frame["candidates"]
        answer = Answer(str(frame["verdict"]), str(name) if name else None, tuple(map(str, candidates or ())))  # type: ignore[call-overload]
        outcome = _outcome(answer, true_names)
        if answer.verdict in ("unmerged", "unknown"):
            score.other[f"{answer.verdict}, {outcome}"] += 1
        else:
            score.merged[outcome] += 1
            if row + 1 < len(paths) and paths[row + 1] != paths[row]:
                score.crossing[outcome] += 1
            score.other["contradicted"] += answer.verdict == "contradicted"
        if outcome == "wrong":
            score.findings[f"{true_names[0]} was said to be {name or candidates} ({answer.verdict})"] += 1


def _outcome(answer: Answer, true_names: Names) -> str:
    if answer.name is not None:
        return "right" if is_same(answer.name, true_names) else "wrong"
    if answer.verdict == "unknown":
        return "open"
    if not any(is_same(candidate, true_names) for candidate in answer.candidates):
        return "wrong"
    return "narrowed" if answer.verdict == "narrowed" else "open"


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for and print a line for each."""
    parser = argparse.ArgumentParser(prog="tests.truth.modules", description="several modules against the truth")
    parser.add_argument("--program", action="append", choices=sorted(_PROGRAMS))
    parser.add_argument("--compiler", action="append", choices=["clang", "gcc"])
    parser.add_argument("--linker", action="append", choices=sorted(LINKERS))
    parser.add_argument("--evidence", action="append", choices=["report", "objects"])
    parser.add_argument("--tool", help="command of the tool under test (default: icf beside this Python)")
    parser.add_argument("--cache", type=Path, default=CACHE)
    args = parser.parse_args(arguments)
    command = shlex.split(args.tool) if args.tool else default_command()
    wrong = 0
    print(
        f"{'program, compiler, linker, evidence':40} {'merged':>8} {'right':>7} {'narrow':>7} {'open':>7} {'WRONG':>6}"
    )
    for program in args.program or ["across", "gen"]:
        for compiler in args.compiler or ["clang", "gcc"]:
            for linker in args.linker or list(LINKERS):
                for evidence in args.evidence or ["objects"]:
                    label = f"{program} {compiler} {linker}, {evidence}"
                    try:
                        score = measure(_PROGRAMS[program], compiler, linker, evidence, command, args.cache)
                    except Unavailable as reason:
                        print(f"{label}: left out: {reason}", file=sys.stderr)
                        continue
                    wrong += score.merged["wrong"] + score.other["unmerged, wrong"]
                    _print(label, score)
    return int(wrong > 0)


def _print(label: str, score: Score) -> None:
    for what, counts in ((label, score.merged), ("    called from another module", score.crossing)):
        total = max(sum(counts.values()), 1)
        shares = " ".join(f"{100 * counts[kind] / total:7.2f}" for kind in OUTCOMES)
        print(f"{what:40} {sum(counts.values()):8} {shares}")
    print(f"    {dict(score.other)}")
    for finding, weight in score.findings.most_common(10):
        print(f"    {weight:6} x {finding}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
