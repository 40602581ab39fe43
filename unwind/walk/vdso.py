"""The vdso: the image that the kernel maps into each process. It is in no file; a process reads its own.

That is the one of a recording if the build ids agree. A recording with build ids in its mappings has none of the vdso;
then the kernel's decides, of which the vdso is a part. perf keeps a copy of a vdso of which it has recorded the build
id: ~/.debug/.build-id/ab/cdef/vdso.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache, cached_property

from icf.elf.image import Image
from icf.elf.types import STB_GLOBAL
from icf.errors import IcfError
from unwind.process.build_ids import is_build
from unwind.process.image_finder import paths_below
from unwind.process.maps import VDSO, parse_maps

_MOST_BYTES = 1 << 20
_LOWEST = 1 << 32  # below it lies the vdso of a 32-bit process, another image


class RecordedVdso:
    """The vdso of a recording; `is_same_kernel`: the kernel that runs is the one that was recorded."""

    def __init__(self, build_id: bytes, roots: Sequence[str], *, is_same_kernel: bool) -> None:
        self._build_id, self._roots, self._is_same_kernel = build_id, roots, is_same_kernel

    @cached_property
    def image(self) -> Image | None:
        """The image; None if it is not known."""
        own = own_vdso()
        if own is not None and (is_build(self._build_id, own.build_id) if self._build_id else self._is_same_kernel):
            return own
        for path in paths_below(self._roots, self._build_id, ("vdso",)):
            if os.path.isfile(path) and os.path.getsize(path) <= _MOST_BYTES:
                try:
                    with open(path, "rb") as file:
                        image = Image(path, memoryview(file.read()))
                    if is_build(self._build_id, image.build_id):
                        return image
                except (OSError, IcfError):
                    continue
        return None

    def image_at(self, start: int) -> Image | None:
        """Return the image for a mapping that starts there."""
        return self.image if start >= _LOWEST else None

    def name(self, start: int, address: int) -> str:
        """Return the function at an address of a mapping that starts at `start`; "" if that is not known."""
        if self.image_at(start) is None:
            return ""
        offset = address - start
        return next((name for first, end, name in self._functions if first <= offset < end), "")

    @cached_property
    def _functions(self) -> list[tuple[int, int, str]]:
        return [] if self.image is None else vdso_functions(self.image)


def vdso_functions(image: Image) -> list[tuple[int, int, str]]:
    """Return start, end and name of each function; of several at a place the global one is first, as perf shows it."""
    symbols = image.dynamic_symbols
    rows = sorted(map(int, symbols.functions), key=lambda row: int(symbols.bind[row]) != STB_GLOBAL)
    return [
        (int(symbols.value[row]), int(symbols.value[row] + symbols.size_bytes[row]), symbols.name(row)) for row in rows
    ]


@cache
def own_vdso() -> Image | None:
    """Return the vdso of this process; None where there is none to be read."""
    try:
        with open("/proc/self/maps", "rb") as file:
            mappings = parse_maps(file.read(), "/proc/self/maps")
        for mapping in mappings:
            if mapping.path == VDSO and mapping.end - mapping.start <= _MOST_BYTES:
                with open("/proc/self/mem", "rb", buffering=0) as memory:
                    memory.seek(mapping.start)
                    return Image(VDSO, memoryview(memory.read(mapping.end - mapping.start)))
    except (OSError, IcfError):
        return None
    return None
