"""Places in functions to which code outside of them jumps: their outlined parts come back.

    f:      ...  jcc f.cold            f.cold:   ...  jmp back
    back:   ...

Compilers move unlikely code of a function elsewhere; it comes back into the middle. A part may have no symbol and no
debug information, so jumps of all code count. On x86-64 every byte is tried as the start of an instruction: the result
is a superset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from icf.code.branches import executable_sections
from icf.columns import I64, U8, U64, Mask
from icf.elf.types import Machine
from icf.sets import distinct, is_in

if TYPE_CHECKING:
    from icf.image import AnyImage

JumpsIn = Callable[[U8, int, int], tuple[I64, I64, Mask]]
_PART_BYTES = 1 << 20  # of code that is looked at together
_PADDING_BYTES = 8


def find_landings(image: AnyImage, starts: U64, ends: U64, parts: U64) -> I64:
    """Return the addresses inside of functions to which code outside of each may jump, ascending.

    A jump with 8 bits is found by chance often, and compilers use none from one function into another. So it counts in
    those at `parts`, and in code of no known function.
    """
    first, last = starts.astype(np.int64), ends.astype(np.int64)
    is_part = is_in(starts, parts)
    found = [np.empty(0, np.int64)]
    for section in executable_sections(image):
        code = np.frombuffer(section.code, np.uint8)
        jumps_in: JumpsIn = _aarch64 if image.machine is Machine.AARCH64 else _x86_64
        for begin in range(0, len(code), _PART_BYTES):
            at, target, is_short = jumps_in(code, begin, min(begin + _PART_BYTES, len(code)))
            found.append(_inside(at + section.vaddr, target + section.vaddr, is_short, first, last, is_part))
    return distinct(np.concatenate(found))


def _inside(at: I64, target: I64, is_short: Mask, first: I64, last: I64, is_part: Mask) -> I64:
    """Return the targets of jumps that are inside of a function `first`..`last`, and whose jump is not."""
    row = np.searchsorted(first, target, side="right") - 1
    rows = np.flatnonzero(row >= 0)
    rows = rows[(target[rows] > first[row[rows]]) & (target[rows] < last[row[rows]])]
    rows = rows[(at[rows] < first[row[rows]]) | (at[rows] >= last[row[rows]])]
    from_row = np.searchsorted(first, at[rows], side="right") - 1
    is_known = (from_row >= 0) & (at[rows] < last[from_row])
    return distinct(target[rows[~is_short[rows] | ~is_known | is_part[from_row]]])


def _x86_64(code: U8, begin: int, end: int) -> tuple[I64, I64, Mask]:
    """Return where in begin..end a `jmp` or `jcc` may be, where it goes, and whether it has 8 bits."""
    own = code[begin:end]
    before = code[begin - 1 : end - 1] if begin else np.append(np.uint8(0), own[:-1])
    padded = np.zeros(len(own) + _PADDING_BYTES, np.uint8)
    padded[: min(len(padded), len(code) - begin)] = code[begin : end + _PADDING_BYTES]
    short = np.flatnonzero((own == 0xEB) | (own >> 4 == 7))
    near = np.flatnonzero((own == 0xE9) | (own >> 4 == 8) & (before == 0x0F))
    words = sum(padded[near + 1 + idx].astype(np.uint32) << np.uint32(8 * idx) for idx in range(4))
    distances = np.asarray(words, np.uint32).view(np.int32).astype(np.int64)
    targets = [short + 2 + padded[short + 1].view(np.int8).astype(np.int64), near + 5 + distances]
    is_short = np.arange(len(short) + len(near)) < len(short)
    return np.concatenate([short, near]) + begin, np.concatenate(targets) + begin, is_short


def _aarch64(code: U8, begin: int, end: int) -> tuple[I64, I64, Mask]:
    """Return the same for AArch64: `b`, `b.cond`, `cbz`, `tbz` and their kind."""
    words = code[begin : begin + (end - begin) // 4 * 4].view("<u4")
    places, targets = [], []
    for mask, value, shift, bits in (
        (0xFC000000, 0x14000000, 0, 26),
        (0xFF000000, 0x54000000, 5, 19),
        (0x7E000000, 0x34000000, 5, 19),
        (0x7E000000, 0x36000000, 5, 14),
    ):
        at = np.flatnonzero((words & mask) == value).astype(np.int64)
        distance = (words[at].astype(np.int64) >> shift & (1 << bits) - 1) << (64 - bits) >> (64 - bits)
        places.append(4 * at)
        targets.append(4 * (at + distance))
    is_short = np.zeros(sum(map(len, places)), np.bool_)
    return np.concatenate(places) + begin, np.concatenate(targets) + begin, is_short
