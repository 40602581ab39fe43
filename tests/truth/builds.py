"""Compiling a program once and linking it twice, in each of the ways that people build.

    CACHE/PROGRAM/COMPILER/obj/*.o          compiled once
    CACHE/PROGRAM/COMPILER/LINKER/PROGRAM.none, PROGRAM.all_, PROGRAM.icf
                                            both links (names of one length) and the report of what folded

What is there is used as it is. With LTO the code arises in the link: its objects are kept beside the image.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.support.toolchain import linker_options, run
from tests.truth.programs import CACHE, Program, Unavailable, fetch, find

COMPILE_FLAGS = ["-O2", "-g", "-ffunction-sections", "-fdata-sections", "-w"]
COMPILE_JOBS = 2
LINK_OPTIONS = ["--gc-sections", "--build-id=sha1"]


@dataclass(frozen=True)
class Compiler:
    """A driver, and what it is given beyond the usual."""

    driver: str
    flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    is_aarch64: bool = False
    finish: str = ""  # a tool that works on the folded image

    @property
    def is_clang(self) -> bool:
        return self.driver.startswith("clang")

    @property
    def makes_code_in_link(self) -> bool:
        return any(flag.startswith("-flto") for flag in self.link_flags)


_CLANG, _GCC, _ARM = "clang++", "g++", "aarch64-linux-gnu-g++"
_COMPRESS = ("-Wl,--compress-debug-sections=zlib",)
_GCC_LTO = ("-flto", "-O2", "-g", "-ffunction-sections", "-fdata-sections")
_FRAME_POINTERS = ("-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer")
COMPILERS = {
    "clang": Compiler(_CLANG),
    "gcc": Compiler(_GCC),
    "clang-fp": Compiler(_CLANG, _FRAME_POINTERS),
    "gcc-fp": Compiler(_GCC, _FRAME_POINTERS),
    "clang-g1": Compiler(_CLANG, ("-g1",)),  # another spelling of -gmlt
    "gcc-g1": Compiler(_GCC, ("-g1",)),
    "clang-g0": Compiler(_CLANG, ("-g0",)),
    "gcc-g0": Compiler(_GCC, ("-g0",)),
    "clang-O0": Compiler(_CLANG, ("-O0",)),
    "gcc-O0": Compiler(_GCC, ("-O0",)),
    "clang-thinlto": Compiler(_CLANG, ("-flto=thin",), ("-flto=thin", "-O2", "-g")),
    "clang-lto": Compiler(_CLANG, ("-flto",), ("-flto", "-O2", "-g")),
    "gcc-lto": Compiler(_GCC, ("-flto",), _GCC_LTO),
    "gcc-fatlto": Compiler(_GCC, ("-flto", "-ffat-lto-objects")),  # lld links the machine code in them
    "clang-split": Compiler(_CLANG, ("-gsplit-dwarf",)),
    "gcc-split": Compiler(_GCC, ("-gsplit-dwarf",)),
    "gcc-compressed": Compiler(_GCC, ("-gz",), _COMPRESS),
    "gcc-dwz": Compiler(_GCC, finish="dwz"),
    "clang-noplt": Compiler(_CLANG, ("-fno-plt",)),
    "gcc-noplt": Compiler(_GCC, ("-fno-plt",)),
    "clang-aarch64": Compiler(_CLANG, ("--target=aarch64-linux-gnu",), is_aarch64=True),
    "gcc-aarch64": Compiler(_ARM, is_aarch64=True),
    "gcc-aarch64-noplt": Compiler(_ARM, ("-fno-plt", "-fPIC"), is_aarch64=True),
}
LINKERS = {"gold": "gold", "lldr": "lld", "lld": "lld", "mold": "mold"}  # lldr: with --emit-relocs


@dataclass(frozen=True)
class Build:
    """One program linked twice."""

    program: Program
    compiler: str
    linker: str
    folder: Path
    source: Path
    inputs: tuple[Path, ...]  # objects, of bitcode with LTO

    def image(self, folding: str) -> Path:
        return self.folder / f"{self.program.name}.{folding}"

    @property
    def unfolded(self) -> Path:
        return self.image("none")

    @property
    def folded(self) -> Path:
        return self.image("all_")

    @property
    def report(self) -> Path:
        return self.image("icf")

    @property
    def is_aarch64(self) -> bool:
        return COMPILERS[self.compiler].is_aarch64

    @property
    def objects(self) -> list[Path]:
        """Objects of machine code: what was compiled, or what LTO left with --save-temps."""
        if not COMPILERS[self.compiler].makes_code_in_link:
            return list(self.inputs)
        folders = (self.inputs[0].parent, self.folder)
        patterns = (f"{self.folded.name}.lto*.o*", f"{self.folded.name}.ltrans*.ltrans.o")
        return sorted(path for folder in folders for pattern in patterns for path in folder.glob(pattern))

    def link_command(self, folding: str, out: Path, *options: str, keeps_objects: bool = False) -> list[str]:
        """The link, to be run in `folder`; it can keep the objects that LTO makes."""
        compiler = COMPILERS[self.compiler]
        flags = list(compiler.link_flags)
        options = (f"--icf={folding}", *LINK_OPTIONS, *options)
        if self.linker == "lldr":
            options += ("--emit-relocs",)
        if compiler.makes_code_in_link and keeps_objects:
            flags.append(_keeps_objects(compiler, self.linker, out))
        target = [flag for flag in compiler.flags if flag.startswith("--target")]
        command = [find(compiler.driver), *target, *flags, *linker_choice(self.linker, compiler.is_aarch64)]
        return [*command, *(f"-Wl,{each}" for each in options), *map(str, self.inputs), "-pthread", "-o", str(out)]


def _keeps_objects(compiler: Compiler, linker: str, out: Path) -> str:
    """What leaves the objects of LTO under the names that the linker reports."""
    if not compiler.is_clang:
        return "-save-temps"
    return "-Wl,--save-temps=prelink" if linker in ("lld", "lldr") else f"-Wl,-plugin-opt=obj-path={out}.lto.o"


def linker_choice(linker: str, is_aarch64: bool = False) -> tuple[str, str]:
    """What makes a compiler link with one of LINKERS."""
    name = LINKERS[linker]
    path = find("aarch64-linux-gnu-ld.gold" if name == "gold" and is_aarch64 else f"ld.{name}")
    return linker_options(name, path)


def compile_one(compiler: str, flags: Sequence[str], job: tuple[Path, Path]) -> None:
    """Compile a source to an object; one that exists is kept."""
    source, target = job
    if target.exists():
        return
    partial_target = target.with_suffix(".partial")
    command = [compiler, *flags, "-c", str(source), "-o", str(partial_target)]
    run(*command)
    partial_target.rename(target)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process builds in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(program: Program, compiler_name: str, linker: str, cache: Path = CACHE) -> Build:
    """Compile once, link twice; what exists is kept, and processes wait for each other. Raises Unavailable."""
    with _alone(cache / program.name):
        return _build(program, compiler_name, linker, cache)


def _build(program: Program, compiler_name: str, linker: str, cache: Path) -> Build:
    compiler = COMPILERS[compiler_name]
    driver = find(compiler.driver)
    folder = cache / program.name / compiler_name / linker
    objects = folder.parent / "obj"
    source = fetch(program.package, cache) if program.package else cache / "src" / program.name
    jobs = [
        (path, objects / ("_".join(path.relative_to(source).with_suffix("").parts) + ".o"))
        for path in program.sources(source)
    ]
    done = Build(
        program, compiler_name, linker, folder.resolve(), source, tuple(target.resolve() for _, target in jobs)
    )
    if done.unfolded.exists() and done.folded.exists() and done.report.exists():
        return done
    objects.mkdir(parents=True, exist_ok=True)
    flags = [*COMPILE_FLAGS, *program.flags(source), *compiler.flags]
    with ThreadPoolExecutor(COMPILE_JOBS) as pool:
        for _ in pool.map(partial(compile_one, driver, flags), jobs):
            pass
    folder.mkdir(parents=True, exist_ok=True)
    link(done.link_command("none", done.unfolded), done)
    folds = done.link_command("all", done.folded, "--print-icf-sections", keeps_objects=True)
    done.report.write_text(link(folds, done))
    if compiler.finish:
        run(find(compiler.finish), done.folded)
    return done


def link(command: Sequence[str], done: Build) -> str:
    """Run a link; returns what was said."""
    linked = run(*command, check=False, folder=done.folder)
    if linked.returncode:
        raise Unavailable(f"{done.program.name} does not link: {linked.stderr.strip()[:300]}")
    return linked.stdout + linked.stderr
