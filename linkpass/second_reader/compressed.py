"""ELF files for the second reader: pyelftools inflates sections that are compressed with zlib, this those with zstd."""

from __future__ import annotations

from functools import partial
from typing import Any

from elftools.elf.elffile import ELFFile

from icf.elf.compression import inflate

_COMPRESSED, _ZSTD = 0x800, 2  # SHF_COMPRESSED, ELFCOMPRESS_ZSTD of the gABI


class InflatingFile(ELFFile):  # type: ignore[misc, unused-ignore]
    """An ELF file whose sections return their contents inflated, whatever they are compressed with."""

    def get_section(self, n: int, type: Any = None) -> Any:
        section: Any = super().get_section(n, type)
        if section["sh_flags"] & _COMPRESSED and section["sh_type"] != "SHT_NOBITS":
            self.stream.seek(section["sh_offset"])
            stored = self.stream.read(section["sh_size"])
            if int.from_bytes(stored[:4], "little") == _ZSTD:
                section.data = partial(self._inflated, stored, section.name)
        return section

    def _inflated(self, stored: bytes, name: str) -> bytes:
        return bytes(inflate(memoryview(stored), self.stream.name, name, gnu=False))
