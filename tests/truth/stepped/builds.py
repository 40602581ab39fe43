"""A theme compiled once and linked twice.

    CACHE/stepped/THEME-DIGEST/COMPILER/*.o
    CACHE/stepped/THEME-DIGEST/COMPILER/LINKER/THEME.none, THEME.all_, THEME.icf

The digest is of sources and flags, so what is there is used as it is. The unfolded link keeps its relocations: they
name what each call means where the compiler itself has merged functions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.toolchain import run
from tests.truth.builds import linker_choice
from tests.truth.programs import CACHE, Unavailable, find
from tests.truth.stepped.rust import compile_rust
from tests.truth.stepped.themes import Theme

EVIDENCE = {
    "gold": ("image", "objects", "link"),
    "lld": ("image", "objects", "link"),
    "lldr": ("image",),
    "mold": ("report", "objects", "link"),
}
USUAL = ("gold", "lld", "lldr", "mold")


@dataclass(frozen=True)
class Compiler:
    """Drivers by language, flags, and the linkers that it is tried with."""

    drivers: dict[str, str]
    flags: tuple[str, ...]
    linkers: tuple[str, ...] = USUAL
    toolchain: str = ""  # of rustc

    def compiles(self, language: str) -> bool:
        return language in self.drivers or (language == "rs" and bool(self.toolchain))

    @property
    def is_clang(self) -> bool:
        return self.drivers == _CLANG


_GCC = {"c": "gcc", "cpp": "g++"}
_CLANG = {"c": "clang", "cpp": "clang++"}
_RUST = ("-C", "opt-level=3", "-C", "debuginfo=2", "-C", "codegen-units=1")
COMPILERS = {
    "gcc-O2": Compiler(_GCC, ("-O2", "-g")),
    "clang-O2": Compiler(_CLANG, ("-O2", "-g")),
    "gcc-O0": Compiler(_GCC, ("-O0", "-g"), ("gold", "lldr")),
    "clang-O0": Compiler(_CLANG, ("-O0", "-g"), ("gold", "lldr")),
    "gcc-O2-g0": Compiler(_GCC, ("-O2", "-g0"), ("lld", "lldr")),
    "clang-O2-g0": Compiler(_CLANG, ("-O2", "-g0"), ("lld", "lldr")),
    "rustc": Compiler({}, _RUST, ("gold", "lld", "mold"), "stable"),
    "rustc-mergefunc": Compiler(
        {}, (*_RUST, "-C", "llvm-args=-mergefunc-preserve-debug-info"), ("lld",), "stable"
    ),  # what LLVM would merge stays apart for the linker
    "rustc-nightly": Compiler({}, (*_RUST, "-C", "symbol-mangling-version=v0"), ("lld",), "nightly"),
}
FEW = ("gcc-O2", "clang-O2")


@dataclass(frozen=True)
class Build:
    theme: Theme
    compiler: str
    linker: str
    folder: Path
    inputs: tuple[str, ...]  # words of the link: objects, and for Rust all that it needs

    @property
    def objects(self) -> list[str]:
        """Objects and archives, in the order of the link."""
        return [word for word in self.inputs if word.endswith((".o", ".rlib"))]

    def image(self, folding: str) -> Path:
        return self.folder / f"{self.theme.name}.{folding}"

    @property
    def unfolded(self) -> Path:
        return self.image("none")

    @property
    def folded(self) -> Path:
        return self.image("all_")

    @property
    def report(self) -> Path:
        return self.image("icf")

    def link_command(self, folding: str, out: Path, *options: str) -> list[str]:
        """The link, to be run in `folder`."""
        compiler = COMPILERS[self.compiler]
        words = [f"-Wl,{option}" for option in (f"--icf={folding}", "--build-id=sha1", *options)]
        driver = find(compiler.drivers.get(self.theme.language, "gcc"))
        command = [driver, *linker_choice(self.linker), *words]
        return [*command, *self.theme.link_flags, *self.inputs, "-o", str(out)]


def build(theme: Theme, compiler_name: str, linker: str, cache: Path = CACHE) -> Build:
    """Compile and link what does not exist. Raises Unavailable."""
    compiler = COMPILERS[compiler_name]
    own = theme.clang_flags if compiler.is_clang else theme.gcc_flags
    flags = [*compiler.flags, *theme.flags, *own]
    digest = hashlib.sha256(repr((flags, theme.link_flags)).encode())
    for source in theme.sources:
        digest.update(source.read_bytes())
    compiled = (cache / "stepped" / f"{theme.name}-{digest.hexdigest()[:12]}" / compiler_name).resolve()
    folder = compiled / linker
    folder.mkdir(parents=True, exist_ok=True)
    if compiler.toolchain:
        inputs = compile_rust(theme.sources[0], compiler.toolchain, flags, compiled)
    else:
        inputs = [_compile(source, compiler, flags, compiled) for source in theme.sources]
    done = Build(theme, compiler_name, linker, folder, tuple(inputs))
    if not done.report.exists():
        kept = ["--emit-relocs"] if linker == "lldr" else []
        _run(done.link_command("none", done.unfolded, "--emit-relocs"), folder)
        report = _run(done.link_command("all", done.folded, "--print-icf-sections", *kept), folder)
        done.report.write_text(report)
    return done


def _compile(source: Path, compiler: Compiler, flags: Sequence[str], folder: Path) -> str:
    """The object of a source; one that exists is kept."""
    target = folder / f"{source.stem}.o"
    if not target.exists():
        driver = find(compiler.drivers[source.suffix[1:]])
        partial = target.with_suffix(".partial")
        usual = ["-ffunction-sections", "-fdata-sections", "-w"]
        _run([driver, *usual, *flags, "-c", source.name, "-o", str(partial)], source.parent)
        partial.rename(target)
    return str(target)


def _run(command: Sequence[str], folder: Path) -> str:
    done = run(*command, check=False, folder=folder)
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip()[:300]}")
    return done.stdout + done.stderr
