"""`icf link` in build systems, set up as the README says."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.e2e.links import CLASSES, SOURCES, classes
from tests.support.icf_command import icf_command
from tests.support.toolchain import tool

LINK_OPTIONS = "-fuse-ld=lld -Wl,--icf=all"
FILES = {
    **SOURCES,
    "CMakeLists.txt": """
        cmake_minimum_required(VERSION 3.21)
        project(shop CXX)
        add_compile_options(-O2 -g -ffunction-sections -fno-ipa-icf -fno-ipa-cp)
        add_library(basket STATIC basket.cpp)
        add_executable(shop fruit.cpp)
        target_link_libraries(shop basket)
    """,
    "meson.build": """
project('shop', 'cpp', default_options: ['buildtype=debugoptimized'])
flags = ['-ffunction-sections', '-fno-ipa-icf', '-fno-ipa-cp']
basket = static_library('basket', 'basket.cpp', cpp_args: flags)
executable('shop', 'fruit.cpp', link_with: basket, cpp_args: flags)
""",
    "native.ini": """
[binaries]
cpp = ['icf', 'link', '--', 'g++']
cpp_ld = 'lld'
""",
    "Makefile": """
CXXFLAGS = -O2 -g -ffunction-sections -fno-ipa-icf -fno-ipa-cp
LDFLAGS = -fuse-ld=lld -Wl,--icf=all
shop: fruit.o basket.o
\t$(CXX) $(LDFLAGS) -o $@ $^
shop-by-ld: fruit.o basket.o
\t$(LD) --icf=all -e main -o $@ $^
""",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The sources, and `icf`, a C++ compiler and lld in `bin`."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "icf").write_text(f'#!/bin/sh\nexec {shlex.join(icf_command())} "$@"\n')
    (bin_folder / "g++").write_text(f'#!/bin/sh\nexec {tool("g++")} -B{bin_folder} "$@"\n')
    for path in bin_folder.iterdir():
        path.chmod(0o755)
    (bin_folder / "ld.lld").symlink_to(tool("ld.lld"))
    return tmp_path


def run(folder: Path, *command: str, **variables: str) -> None:
    """Run a build command; what it says is the message of a failure."""
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "icf link" not in done.stderr


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_cmake(folder: Path, generator: str) -> None:
    tool("ninja" if generator == "Ninja" else "make")
    run(
        folder, tool("cmake"), "-G", generator, "-B", "build", "-DCMAKE_CXX_COMPILER=g++",
        "-DCMAKE_CXX_LINKER_LAUNCHER=icf;link;--", f"-DCMAKE_EXE_LINKER_FLAGS={LINK_OPTIONS}",
    )  # fmt: skip
    run(folder, tool("cmake"), "--build", "build")
    assert classes(folder / "build" / "shop") == CLASSES


@pytest.mark.parametrize("way", ["CXX", "native file"])
def test_meson(folder: Path, way: str) -> None:
    tool("ninja")
    if way == "CXX":
        run(folder, tool("meson"), "setup", "build", CXX="icf link -- g++", CXX_LD="lld", LDFLAGS="-Wl,--icf=all")
    else:
        run(folder, tool("meson"), "setup", "build", "--native-file", "native.ini", "-Dcpp_link_args=-Wl,--icf=all")
    run(folder, tool("meson"), "compile", "-C", "build")
    assert classes(folder / "build" / "shop") == CLASSES


@pytest.mark.parametrize("setting", ["CXX=icf link -- g++", "LD=icf link -- ld.lld"])
def test_make(folder: Path, setting: str) -> None:
    program = "shop" if setting.startswith("CXX") else "shop-by-ld"
    run(folder, tool("make"), setting, program)
    assert classes(folder / program) == CLASSES
    before = (folder / program).stat().st_mtime_ns
    run(folder, tool("make"), setting, program)
    assert (folder / program).stat().st_mtime_ns == before
