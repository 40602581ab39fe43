"""Where a function has a frame pointer, by the call frame information of the image, as pyelftools reads it."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from pathlib import Path
from typing import Any

from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

FRAME_POINTERS = {"EM_X86_64": 6, "EM_AARCH64": 29}  # DWARF numbers


class FramePointers:
    """The answers for one image."""

    def __init__(self, image: Path) -> None:
        self._stream = image.open("rb")
        elf = ELFFile(self._stream)
        self._register = FRAME_POINTERS[elf["e_machine"]]
        entries = elf.get_dwarf_info(relocate_dwarf_sections=False).EH_CFI_entries()
        found = sorted(
            (each["initial_location"], each["address_range"], each) for each in entries if isinstance(each, FDE)
        )
        self._starts = [start for start, _, _ in found]
        self._entries = [(start + size_bytes, entry) for start, size_bytes, entry in found]
        self.has_frame = cache(self._has_frame)

    def _has_frame(self, pc: int, is_exact: bool) -> bool:
        """Whether the frame pointer leads to the caller there; a call precedes the address if it is not exact."""
        vaddr = pc if is_exact else pc - 1
        row = bisect_right(self._starts, vaddr) - 1
        if row < 0 or vaddr >= self._entries[row][0]:
            return False
        table: list[dict[str, Any]] = self._entries[row][1].get_decoded().table
        known = [each for each in table if each["pc"] <= vaddr]
        return bool(known) and known[-1]["cfa"].reg == self._register
