"""Where a test compiles its few lines of source once and links them twice.

A source calls `SAMPLE()` where it wants a stack (sample.h, sampler.cpp); that is never the last thing its function
does for the compiler, so it does not become a jump.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tests.e2e.program import Program
from tests.support.icf_command import icf_command
from tests.support.toolchain import lasting_folder, linker_options, run, tool

HERE = Path(__file__).resolve().parent
_COMPILERS = {
    "gcc": "g++",
    "clang": "clang++",
    "clang-aarch64": "clang++",
}
# gcc folds identical functions of one file by itself; here that is the linker's part
_FLAGS = {
    "gcc": ("-fno-ipa-icf",),
    "clang": (),
    "clang-aarch64": ("--target=aarch64-linux-gnu", "-Wno-unused-command-line-argument"),
}
# with these the compiler reads or leaves other files in the folder
_LEAVES_MORE = (
    "-gsplit-dwarf",
    "-save-temps",
    "--save-temps",
    "-I",
    "-fdebug-",
    "-ffile-",
    "-fprofile",
    "-fplugin",
    "@",
)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler and a linker."""

    compiler: str
    linker: str
    link_flags: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.compiler}-{self.linker}"

    @property
    def linker_options(self) -> tuple[str, str]:
        """What makes the compiler link with the linker; skips the test if it is missing."""
        is_cross = self.compiler == "clang-aarch64" and self.linker == "gold"  # the others link for any machine
        return linker_options(self.linker, tool(f"{'aarch64-linux-gnu-' * is_cross}ld.{self.linker}"))


GOLD = Toolchain("gcc", "gold")
LLD = Toolchain("clang", "lld", ("-Wl,--emit-relocs",))  # it overwrites addresses of folded functions in debug info
LLD_ALONE = Toolchain("clang", "lld")
MOLD = Toolchain("clang", "mold")
AARCH64 = Toolchain(
    "clang-aarch64", "lld", ("-Wl,--emit-relocs", "-static")
)  # linked so that it needs no sysroot to run
AARCH64_GOLD = Toolchain("clang-aarch64", "gold", ("-static",))
AARCH64_MOLD = Toolchain("clang-aarch64", "mold")
GCC_MOLD = replace(MOLD, compiler="gcc")
USUAL = (GOLD, LLD)
ALL = (*USUAL, MOLD, GCC_MOLD, replace(GOLD, compiler="clang"), replace(LLD, compiler="gcc"))


@dataclass(frozen=True, slots=True)
class Workshop:
    """Builds programs in one folder."""

    folder: Path
    toolchain: Toolchain

    def compile(self, sources: str | Mapping[str, str], *flags: str) -> list[Path]:
        """Compile each source to an object; a single source is called main.cpp."""
        if isinstance(sources, str):
            sources = {"main.cpp": sources}
        for name, source in sources.items():
            (self.folder / name).write_text(source)
        if any(flag.startswith(_LEAVES_MORE) for flag in flags) or any(
            '#include "' in each for each in sources.values()
        ):
            built = _compiled(self.toolchain.compiler, self.folder, tuple(sources), flags)
        else:
            built = _compiled_once(self.toolchain.compiler, tuple(sources.items()), flags)
        objects = [self.folder / path.name for path in built]
        for path, copied in zip(built, objects, strict=True):
            if path != copied:
                shutil.copy(path, copied)
        return objects

    def build(
        self,
        sources: str | Mapping[str, str],
        flags: Sequence[str] = (),
        link_flags: Sequence[str] = (),
        folding: str = "all",
    ) -> Program:
        """A program with and without folding; `folding` may also be "safe"."""
        emulator: tuple[str, ...] = ()
        if self.toolchain.compiler == "clang-aarch64":
            tool("aarch64-linux-gnu-g++")  # for its libraries
            emulator = (tool("qemu-aarch64"),)
        objects = [*self.compile(sources, *flags), self.sampler(*(flag for flag in flags if flag.startswith("-f")))]
        return self.program(objects, link_flags, folding, emulator)

    def program(
        self,
        objects: Sequence[Path],
        link_flags: Sequence[str] = (),
        folding: str = "all",
        emulator: tuple[str, ...] = (),
    ) -> Program:
        """A program of objects, with and without folding; the sampler is one of them."""
        folded, report = self.link("program", objects, folding, link_flags)
        unfolded, _ = self.link("program.unfolded", objects, "none", link_flags)
        return Program(folded, unfolded, report, emulator=emulator)

    def link(
        self, name: str, objects: Sequence[Path], icf_option: str, link_flags: Sequence[str] = ()
    ) -> tuple[Path, Path]:
        """Link `objects`; returns the image and the linker's report of what it folded."""
        options = (*self.toolchain.linker_options, "-Wl,--build-id=sha1", f"-Wl,--icf={icf_option}")
        says = ("-Wl,--print-icf-sections",) if icf_option != "none" else ()
        image = self.folder / name
        done = self._compiler(*options, *says, *self.toolchain.link_flags, *link_flags, *objects, "-o", image)
        report = self.folder / f"{name}.icf"
        report.write_text(done.stdout + done.stderr)
        return image, report

    def link_with_pass(
        self, program: Program, objects: Sequence[Path | str], *options: str, wishes: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Link again over `program`, by `icf link` in front of the command; `options` are those of the linker, `wishes`
        those of `icf link`.
        """
        compiler = self.toolchain.compiler
        command = [tool(_COMPILERS[compiler]), *_FLAGS[compiler], *self.toolchain.linker_options]
        command += ["-Wl,--build-id=sha1", *options, *map(str, objects), "-o", str(program.folded)]
        launcher = [*icf_command(), "link", *wishes]
        return subprocess.run([*launcher, "--", *command], cwd=self.folder, capture_output=True, text=True)

    def pass_options(self, program: Program) -> tuple[str | Path, ...]:
        """What this linker needs `icf pass` to be told: mold drops symbols of what it folds, so its report."""
        return ("--icf-report", program.report) if self.toolchain.linker == "mold" else ()

    def build_with_tables(
        self, sources: str | Mapping[str, str], flags: Sequence[str] = (), link_flags: Sequence[str] = ()
    ) -> Program:
        """A program that has its tables."""
        program = self.build(sources, flags, link_flags)
        program.add_tables(*self.pass_options(program))
        return program

    def sampler(self, *flags: str) -> Path:
        """The sampler's object; without debug info and without a section of its own for each function."""
        return Path(shutil.copy(_sampler(self.toolchain.compiler, flags), self.folder / "sampler.o"))

    def _compiler(self, *args: str | Path) -> subprocess.CompletedProcess[str]:
        return _run_compiler(self.toolchain.compiler, self.folder, *args)


def _compiled(compiler: str, folder: Path, names: Sequence[str], flags: Sequence[str]) -> list[Path]:
    """Compile the sources of these names in a folder."""
    usual = ("-O2", "-g", "-ffunction-sections", "-include", HERE / "sample.h")
    objects = [folder / Path(name).with_suffix(".o") for name in names]
    for name, path in zip(names, objects, strict=True):
        _run_compiler(compiler, folder, *usual, *flags, "-c", name, "-o", path)
    return objects


@cache
def _compiled_once(compiler: str, sources: tuple[tuple[str, str], ...], flags: tuple[str, ...]) -> list[Path]:
    """Compile sources once for all tests that link them, with whatever linker."""
    folder = lasting_folder()
    for name, source in sources:
        (folder / name).write_text(source)
    return _compiled(compiler, folder, [name for name, _ in sources], flags)


@cache
def _sampler(compiler: str, flags: tuple[str, ...]) -> Path:
    """Compiled once for all tests."""
    folder = lasting_folder()
    _run_compiler(compiler, folder, "-O2", *flags, "-c", HERE / "sampler.cpp", "-o", "sampler.o")
    return folder / "sampler.o"


def _run_compiler(compiler: str, folder: Path, *args: str | Path) -> subprocess.CompletedProcess[str]:
    return run(tool(_COMPILERS[compiler]), *_FLAGS[compiler], *args, folder=folder)
