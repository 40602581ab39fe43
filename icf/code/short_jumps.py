"""Jumps with a short reach to the start of given functions.

`icf.code.branches` leaves them out: on x86-64 a jump with an 8-bit displacement is two bytes, found by chance often,
and compilers use it for another function only inside of one section, as gcc's thunks do. On AArch64 these are cbz
and tbz. Here, too, every position is tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from icf.code.addresses import hits
from icf.code.branches import executable_sections
from icf.columns import U8, U32, U64
from icf.elf.types import Machine

if TYPE_CHECKING:
    from icf.image import AnyImage

_DISPLACEMENTS = np.arange(-128, 128)
_TOGETHER = 1 << 10  # targets


def find_short_jumps(image: AnyImage, targets: U64) -> Iterator[tuple[int, int]]:
    """Yield (address after the jump, target) for each of the ascending `targets` that a short jump may lead to."""
    for section in executable_sections(image):
        contents = section.code
        low, high = np.searchsorted(targets, np.array([section.vaddr, section.vaddr + len(contents)], np.uint64))
        if low == high:
            continue
        if image.machine is Machine.X86_64:
            for first in range(int(low), int(high), _TOGETHER):
                own = targets[first : min(first + _TOGETHER, int(high))]
                yield from _x86_64(np.frombuffer(contents, np.uint8), section.vaddr, own)
        else:
            words = np.frombuffer(contents[: len(contents) // 4 * 4], "<u4")
            yield from _aarch64(words, section.vaddr, targets[low:high])


def _x86_64(code: U8, vaddr: int, targets: U64) -> Iterator[tuple[int, int]]:
    ends = (targets - np.uint64(vaddr)).astype(np.int64)[:, None] - _DISPLACEMENTS  # of the jumps, in `code`
    inside = (ends >= 2) & (ends <= len(code))
    at = np.where(inside, ends, 2)
    if len(code) < 2:
        return
    opcode = code[at - 2]
    found = inside & (code[at - 1] == (_DISPLACEMENTS & 0xFF)) & ((opcode == 0xEB) | (opcode >> 4 == 7))
    for row, column in np.argwhere(found).tolist():
        yield int(ends[row, column]) + vaddr, int(targets[row])


def _aarch64(words: U32, vaddr: int, targets: U64) -> Iterator[tuple[int, int]]:
    for pattern, bits in ((0x34000000, 19), (0x36000000, 14)):  # cbz, cbnz; tbz, tbnz
        at = np.flatnonzero(words & 0x7E000000 == pattern)
        displacement = (words[at] >> 5).astype(np.int64) & ((1 << bits) - 1)
        displacement -= (displacement >> (bits - 1)) << bits
        place = at.astype(np.uint64) * np.uint64(4) + np.uint64(vaddr)
        target = place + (displacement * 4).view(np.uint64)
        for row in np.flatnonzero(hits(target, targets)).tolist():
            yield int(place[row]) + 4, int(target[row])
