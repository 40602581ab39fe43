"""The vdso: the image that the kernel maps into each process. It is in no file; a process reads its own."""

from __future__ import annotations

from functools import cache

from icf.elf.image import Image
from icf.errors import IcfError
from unwind.process.maps import VDSO, parse_maps

_MOST_BYTES = 1 << 20


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
