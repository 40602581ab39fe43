"""PE images: one that clang and lld-link make, and those of Microsoft's linker that come with pip."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from struct import pack

import pytest

from tests.support.toolchain import lasting_folder, run, tool

BASE = 0x140000000
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


def code_image(code: bytes, *, pdata: bytes, xdata: bytes, pdata_bytes: int | None = None) -> bytes:
    """Return an image for x86-64: code at RVA 0x1000, unwind information at 0x2000, the functions that have it at
    0x3000."""
    sections = ((b".text", 0x60000020, code), (b".xdata", 0x40000040, xdata), (b".pdata", 0x40000040, pdata))
    directories = [(0, 0)] * 16
    directories[3] = 0x3000, len(pdata) if pdata_bytes is None else pdata_bytes
    optional = pack("<HBBIIIII", 0x20B, 14, 0, 0, 0, 0, 0x1000, 0x1000)  # magic ... entry point, start of code
    optional += pack("<QII", BASE, 0x1000, 0x200) + bytes(16)  # image base, alignments; versions
    optional += pack("<III", 0x4000, 0x400, 0) + bytes(36)  # SizeOfImage, SizeOfHeaders; what the loader needs
    optional += pack("<II", 0, 16) + b"".join(pack("<II", *each) for each in directories)
    head = bytearray(b"MZ".ljust(0x3C, b"\0") + pack("<I", 0x40))
    head += b"PE\0\0" + pack("<HHIIIHH", 0x8664, len(sections), 7, 0, 0, len(optional), 0x22) + optional
    content = b""
    for number, (name, flags, part) in enumerate(sections, 1):
        head += pack("<8sIIIIIIHHI", name, 0x1000, 0x1000 * number, len(part), 0x400 + len(content), 0, 0, 0, 0, flags)
        content += part
    return bytes(head).ljust(0x400, b"\0") + content
