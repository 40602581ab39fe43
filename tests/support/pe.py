"""PE images: one that clang and lld-link make, and those of Microsoft's linker that come with pip."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.support.toolchain import lasting_folder, run, tool

SOURCE = """
int add(int x) { return x + 1; }
int increment(int x) { return x + 1; }
extern "C" int mainCRTStartup() { return add(1) + increment(2); }
"""


@cache
def program() -> Path:
    """Return app.exe of SOURCE, with app.pdb beside it."""
    folder = lasting_folder()
    (folder / "app.cpp").write_text(SOURCE)
    flags = ["--target=x86_64-pc-windows-msvc", "-gcodeview", "-g", "-O1", "-ffunction-sections", "-fno-exceptions"]
    run(tool("clang++"), *flags, "-c", "app.cpp", "-o", "app.obj", folder=folder)
    link = [
        "/debug",
        "/opt:ref,icf",
        "/nodefaultlib",
        "/entry:mainCRTStartup",
        "/subsystem:console",
        "/Brepro",
        "/pdbaltpath:app.pdb",
    ]
    run(tool("lld-link"), *link, "app.obj", "/out:app.exe", "/pdb:app.pdb", folder=folder)
    return folder / "app.exe"


def of_pip(name: str) -> Path:
    """Return a launcher that Microsoft's linker has made."""
    pip = pytest.importorskip("pip")
    path = Path(pip.__path__[0]) / "_vendor" / "distlib" / name
    if not path.is_file():
        pytest.skip(f"this pip comes without {name}")
    return path
