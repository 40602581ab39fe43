"""PE images with PDBs, made on Linux: clang for Windows and lld-link, without a Windows SDK."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.toolchain import lasting_folder, run, tool

TARGET = "--target=x86_64-pc-windows-msvc"
ARM64 = "--target=aarch64-pc-windows-msvc"
MINGW = "--target=x86_64-w64-mingw32"
FLAGS = ("-gcodeview", "-g", "-ffunction-sections", "-fno-exceptions", "-mno-stack-arg-probe")

# Merged functions: templates, overloads, static ones, methods in vtables; two merged callers of two merged callees.
SHOP = (ROOT / "testdata/pe/shop.cpp").read_text()
# The runtime that a program without an SDK needs: what RTTI refers to, what clang calls.
RUNTIME = SHOP[: SHOP.index("volatile int total;")]


@cache
def compile_windows(
    source: str, *flags: str, suffix: str = ".cpp", name: str = "program", target: str = TARGET
) -> Path:
    """Compile a source for Windows; the same source and flags give the same object again."""
    path = lasting_folder() / f"{name}{suffix}"
    path.write_text(source)
    run(tool("clang++"), target, *FLAGS, *(flags or ("-O1",)), "-c", path, "-o", path.with_suffix(".obj"))
    return path.with_suffix(".obj")


def link_windows(folder: Path, *inputs: Path | str, icf: bool = True, name: str = "app") -> Path:
    """Link a console program with its PDB beside it; `inputs` are objects, archives and options."""
    path = folder / f"{name}.exe"
    options = ("/debug", f"/opt:ref,{'icf' if icf else 'noicf'}", "/nodefaultlib", "/subsystem:console")
    outputs = ("/entry:mainCRTStartup", f"/out:{path}", f"/pdb:{path.with_suffix('.pdb')}")
    run(tool("lld-link"), *options, *outputs, *inputs)
    return path


@cache
def compile_dwarf(source: str, *flags: str, suffix: str = ".cpp", name: str = "program", target: str = TARGET) -> Path:
    """Compile a source with DWARF; the same arguments give the same object again."""
    path = lasting_folder() / f"{name}{suffix}"
    path.write_text(source)
    fixed = ("-ffunction-sections", "-fno-exceptions", "-mno-stack-arg-probe")
    run(tool("clang++" if suffix == ".cpp" else "clang"), target, *fixed, *flags, "-c", path, "-o", f"{path}.obj")
    return Path(f"{path}.obj")


def link_dwarf(
    folder: Path,
    *inputs: Path | str,
    icf: bool = True,
    name: str = "app",
    launcher: Sequence[str] = (),
    ignore_directives: bool = True,
) -> Path:
    """Link a console program with its DWARF and without a PDB; `inputs` are objects, archives and options.

    `launcher`: the words before the command, such as those of `icf link`. `ignore_directives`: without the libraries
    that objects ask for.
    """
    path = folder / f"{name}.exe"
    options = ["/debug:dwarf", f"/opt:ref,{'icf' if icf else 'noicf'}", "/subsystem:console"]
    options += ["/nodefaultlib"] if ignore_directives else []
    run(*launcher, tool("lld-link"), *options, "/entry:mainCRTStartup", f"/out:{path}", *inputs)
    return path


@cache
def shop() -> Path:
    """The program SHOP, linked with ICF."""
    return link_windows(lasting_folder(), compile_windows(SHOP), name="shop")


LIBRARY = """
extern "C" __declspec(dllexport) int weigh(int value) { return value * 2; }
extern "C" __declspec(dllexport) int label(int value) { return value + 2; }
extern "C" int _DllMainCRTStartup(void*, unsigned, void*) { return 1; }
"""
USER = """
extern "C" __declspec(dllimport) int weigh(int);
extern "C" int label(int);
extern "C" int mainCRTStartup() { return weigh(1) + label(2); }
"""


@cache
def library_and_user() -> tuple[Path, Path]:
    """A DLL with two exports, and a program that calls one through its slot and one through a stub."""
    folder = lasting_folder()
    library, implib = folder / "scale.dll", folder / "scale.lib"
    options = ("/dll", "/nodefaultlib", "/debug", f"/out:{library}", f"/implib:{implib}")
    run(tool("lld-link"), *options, compile_windows(LIBRARY, "-O1", name="scale"))
    return library, link_windows(folder, compile_windows(USER, "-O1", name="user"), implib, name="user")
