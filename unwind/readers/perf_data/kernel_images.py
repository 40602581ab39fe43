"""Symbols of the kernel from its own files: vmlinux, and modules that are linked only when they are loaded.

A module (`.ko`) is an object: the kernel places its sections with code one after the other, in the order of their
headers and each at its alignment, from the module's beginning on; those of `.init` go elsewhere, and are freed.

    0xffffffffc0a01000   .text                     mapped there, says the recording
    0xffffffffc0a05240   .text.unlikely
                         .init.text                not placed

On AArch64 `.plt` gets its size when the module is loaded: what follows it is not placed. Modules may be
compressed.
"""

from __future__ import annotations

import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from icf.columns import I64
from icf.debugfiles.search import SYSTEM_ROOT
from icf.elf.image import Image
from icf.elf.types import SHF_ALLOC, SHF_EXECINSTR, STB_GLOBAL, STT_FUNC, STT_NOTYPE, Machine
from icf.errors import FormatError, IcfError
from unwind.process.build_ids import is_build
from unwind.process.image_finder import paths_below
from unwind.readers.perf_data.kallsyms import preference

_CODE = SHF_ALLOC | SHF_EXECINSTR
_SIZED_WHEN_LOADED = (".plt", ".text.ftrace_trampoline")
_NO_FUNCTIONS = ("$", ".L")
_MODULE_BYTES = 1 << 28  # of a compressed one, unpacked


class KernelImage:
    """The functions of an image; `places` has what is added to the values of symbols, by section with code."""

    def __init__(self, image: Image, places: dict[int, int]) -> None:
        symbols = self._symbols = image.symbols
        starts = np.zeros(len(image.sections) + 1, np.int64)
        ends = np.zeros(len(image.sections) + 1, np.int64)
        is_placed = np.zeros(len(image.sections) + 1, bool)
        for idx, added in places.items():
            section = image.sections[idx]
            starts[idx], is_placed[idx] = _signed(added), True
            ends[idx] = _signed(added + section.vaddr + section.size_bytes)
        section_of = np.minimum(symbols.shndx.astype(np.int64), len(image.sections))
        is_function = np.isin(symbols.type, (STT_FUNC, STT_NOTYPE)) & is_placed[section_of]
        rows = np.flatnonzero(is_function).astype(np.int64)
        values = symbols.value[rows].view(np.int64) + starts[section_of[rows]]
        order = np.argsort(values, kind="stable")
        self._rows: I64 = rows[order]
        self._values: I64 = values[order]
        self._ends: I64 = ends[section_of[rows[order]]]

    def name(self, address: int) -> str:
        """Return the function that begins at an address or last before it in its section; "" if there is none."""
        wanted = _signed(address)
        last = int(np.searchsorted(self._values, wanted, "right"))
        while last:
            first = int(np.searchsorted(self._values, self._values[last - 1], "left"))
            found = [self._named(at) for at in range(first, last) if wanted < self._ends[at]]
            names = [each for each in found if not each[1].startswith(_NO_FUNCTIONS) and each[1]]
            if names or not found:
                return min(names)[1] if names else ""
            last = first
        return ""

    def address_of(self, name: str) -> int:
        """Return the address of the first symbol of this name, 0 if there is none."""
        holding = self._symbols.holds(name.encode("utf-8", "surrogateescape"), self._rows)
        for at in map(int, np.flatnonzero(holding)):
            if self._named(at)[1] == name:
                return int(self._values[at]) & (1 << 64) - 1
        return 0

    def _named(self, at: int) -> tuple[int, str]:
        row = int(self._rows[at])
        try:
            name = self._symbols.name(row)
        except FormatError:
            return 0, ""
        return preference(name, is_global=int(self._symbols.bind[row]) == STB_GLOBAL), name


def find_vmlinux(build_id: bytes, release: str, roots: Sequence[str]) -> KernelImage | None:
    """Return the functions of the kernel of a build, where they are as linked; None if it is not found."""
    return _open_first(_vmlinux_paths(build_id, release, roots), build_id, _linked)


def find_module(path: str, build_id: bytes, start: int, roots: Sequence[str]) -> KernelImage | None:
    """Return the functions of a kernel module that was loaded at `start`; None if it is not found."""
    return _open_first(_module_paths(path, build_id, roots), build_id, lambda image: placed(image, start))


def placed(image: Image, start: int) -> dict[int, int]:
    """Return where a module's sections with code are if it is loaded at `start`, as far as the file shows it."""
    places: dict[int, int] = {}
    at = start
    for section in image.sections:
        if section.flags & _CODE != _CODE or section.name.startswith(".init"):
            continue
        if image.machine is not Machine.X86_64 and section.name.startswith(_SIZED_WHEN_LOADED):
            break
        at += -at % max(section.align, 1)
        places[section.index] = at
        at += section.size_bytes
    return places


def _vmlinux_paths(build_id: bytes, release: str, roots: Sequence[str]) -> Iterator[str]:
    yield from _paths_by_id(build_id, roots, "vmlinux")
    for root in ("/", *roots, SYSTEM_ROOT):
        if release and "/" not in release:
            for path in ("boot/vmlinux-{}", "lib/modules/{}/vmlinux", "lib/modules/{}/build/vmlinux", "vmlinux-{}"):
                yield os.path.join(root, path.format(release))
        yield os.path.join(root, "vmlinux")


def _module_paths(path: str, build_id: bytes, roots: Sequence[str]) -> Iterator[str]:
    yield from _paths_by_id(build_id, roots, "elf")
    if path.startswith("/"):
        for root in ("/", *roots, SYSTEM_ROOT):
            for below in (path.lstrip("/"), os.path.basename(path)):
                yield os.path.join(root, below)
                yield os.path.join(root, f"{below}.debug")


def _paths_by_id(build_id: bytes, roots: Sequence[str], name: str) -> Iterator[str]:
    for each in paths_below((*roots, SYSTEM_ROOT), build_id, ("", name)):
        yield each
        yield f"{each}.debug"


def _linked(image: Image) -> dict[int, int]:
    return {each.index: 0 for each in image.sections if each.flags & _CODE == _CODE}


def _open_first(paths: Iterator[str], build_id: bytes, places: Callable[[Image], dict[int, int]]) -> KernelImage | None:
    """Return the first image of a build that has symbols."""
    for path in paths if build_id else ():
        if not os.path.isfile(path):
            continue
        try:
            image = _open(path)
            if is_build(build_id, image.build_id) and len(image.symbols):
                return KernelImage(image, places(image))
        except (OSError, IcfError, EOFError, ValueError, zlib.error, lzma.LZMAError):
            continue
    return None


def _open(path: str) -> Image:
    unpacked = _unpacked(path)
    return Image(path, memoryview(unpacked), allow_rel=True) if unpacked else Image.open(path, allow_rel=True)


def _unpacked(path: str) -> bytes:
    """Return what is in a compressed file; empty if it is not compressed."""
    name = path.removesuffix(".debug")
    if name.endswith(".xz"):
        with lzma.open(path) as file:
            return file.read(_MODULE_BYTES)
    if name.endswith(".gz"):
        with gzip.open(path) as unzipped:
            return unzipped.read(_MODULE_BYTES)
    if name.endswith(".zst"):
        from zstandard import ZstdDecompressor, ZstdError

        try:
            with open(path, "rb") as packed, ZstdDecompressor().stream_reader(packed) as reader:
                return reader.read(_MODULE_BYTES)
        except ZstdError as error:
            raise ValueError from error
    return b""


def _signed(address: int) -> int:
    """Return an address as a number with a sign: those of the kernel are above 1 << 63."""
    return (address + (1 << 63)) % (1 << 64) - (1 << 63)
