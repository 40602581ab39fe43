"""The images of a core file that does not list the mapped files (NT_FILE): their headers are in memory.

    PT_LOAD that begins with an ELF header     an image: its build id, and where its segments lie
    AT_EXECFN                                  the path of the program, which is where AT_PHDR leads
    DT_DEBUG -> r_debug -> link_map -> ...     load bias and path of each image that the dynamic linker knows (<link.h>)
    DT_SONAME                                  the name of a library that is not in this list

Linux before 3.7, gdb before 7.8 and programs that write core files themselves leave NT_FILE out.

A header is also at the beginning of a file that a program reads through a mapping, and of code that shares its first
page with the header. There memory is not executable where the image's segments are, or is where they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import iter_unpack
from typing import NamedTuple

from icf.elf.types import PF_X, PT_DYNAMIC, PT_LOAD, Segment
from unwind.dumps.dump import CopiedMemory, DumpedModule
from unwind.dumps.first_page import build_id_at, first_page_at, read_at, segments_of
from unwind.process.maps import Mapping as Mapped

AT_PHDR, AT_EXECFN = 3, 31
_DT_STRTAB, _DT_SONAME, _DT_DEBUG = 5, 14, 21
_DYNAMIC_LIMIT_BYTES, _NAME_LIMIT_BYTES, _LIST_LIMIT = 1 << 14, 1 << 12, 1 << 12
_PAGE_BYTES = 4096


class _Image(NamedTuple):
    start: int  # of its header
    bias: int
    low: int
    high: int
    dynamic: dict[int, int]


def mapped_images(
    memory: CopiedMemory, starts: Sequence[int], auxv: Mapping[int, int], is_code: Callable[[int], bool | None]
) -> list[DumpedModule]:
    """Return the images in memory.

    Args:
        memory: what the core file has of the process.
        starts: where its segments begin.
        auxv: the auxiliary vector.
        is_code: whether the memory at an address is executable; None if the core file does not say it.
    """
    images = [image for start in starts if (image := _image_at(memory, start, is_code)) is not None]
    paths = _paths(memory, images, auxv)
    modules = []
    for image in images:
        path = paths.get(image.bias) or _soname(memory, image) or f"image at {image.start:#x}"
        mapping = Mapped(image.low, image.high, "r-xp", 0, 0, 0, path)
        page = first_page_at(memory, image.start)
        modules.append(DumpedModule(path, build_id_at(memory, image.start), (mapping,), page, image.low))
    return modules


def _image_at(memory: CopiedMemory, start: int, is_code: Callable[[int], bool | None]) -> _Image | None:
    """Return the image whose first page is at an address; None if there is none, or it is not there to be run."""
    segments = segments_of(first_page_at(memory, start))
    loads = [each for each in segments if each.type == PT_LOAD and each.memsz]
    first = next((each.vaddr // _PAGE_BYTES * _PAGE_BYTES for each in loads if each.offset == 0), None)
    if first is None:
        return None
    bias = start - first
    if not all(is_code(each.vaddr + bias) in (None, bool(each.flags & PF_X)) for each in loads):
        return None
    low = min(each.vaddr for each in loads) // _PAGE_BYTES * _PAGE_BYTES + bias
    high = max(each.vaddr + each.memsz for each in loads) + bias
    if low < 0 or high > 1 << 64 or not any(each.flags & PF_X for each in loads):
        return None
    return _Image(start, bias, low, high, _dynamic(memory, segments, bias))


def _dynamic(memory: CopiedMemory, segments: Sequence[Segment], bias: int) -> dict[int, int]:
    """Return the dynamic section as the dynamic linker has left it."""
    for each in segments:
        if each.type == PT_DYNAMIC:
            entries = read_at(memory, each.vaddr + bias, min(each.memsz, _DYNAMIC_LIMIT_BYTES) // 16 * 16)
            return dict(iter_unpack("<2Q", entries))
    return {}


def _paths(memory: CopiedMemory, images: Sequence[_Image], auxv: Mapping[int, int]) -> dict[int, str]:
    """Return the paths that are known, by load bias."""
    for image in images:
        if image.low <= auxv.get(AT_PHDR, 0) < image.high:
            listed = dict(_link_map(memory, image.dynamic.get(_DT_DEBUG, 0)))
            program = _string_at(memory, auxv.get(AT_EXECFN, 0))
            return {bias: path for bias, path in listed.items() if path} | ({image.bias: program} if program else {})
    return {}


def _link_map(memory: CopiedMemory, debug: int) -> Iterator[tuple[int, str]]:
    """Yield load bias and path of each image in the list of the dynamic linker; the path of the program is empty."""
    at = _word_at(memory, debug + 8) if debug else 0  # r_map
    seen: set[int] = set()
    while at and at not in seen and len(seen) < _LIST_LIMIT:
        seen.add(at)
        bias, name, at = _word_at(memory, at), _word_at(memory, at + 8), _word_at(memory, at + 24)
        yield bias, _string_at(memory, name)


def _soname(memory: CopiedMemory, image: _Image) -> str:
    """Return the name that a library has for the linker; empty if it has none."""
    strings, name = image.dynamic.get(_DT_STRTAB, 0), image.dynamic.get(_DT_SONAME, 0)
    if not strings or not name:
        return ""
    strings += 0 if image.low <= strings < image.high else image.bias  # glibc has relocated it, musl has not
    return _string_at(memory, strings + name)


def _word_at(memory: CopiedMemory, address: int) -> int:
    return int.from_bytes(read_at(memory, address, 8), "little")


def _string_at(memory: CopiedMemory, address: int) -> str:
    """Return the string at an address; empty if it was not copied, or does not end."""
    extent = memory.extent(address) if address else None
    if extent is None:
        return ""
    text, end, _ = bytes(memory.view(address, min(address + _NAME_LIMIT_BYTES, extent[1]))).partition(b"\0")
    return text.decode("utf-8", "surrogateescape") if end else ""
