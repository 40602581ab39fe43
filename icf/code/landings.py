"""Places in functions to which their outlined parts jump back.

    f:      ...  jcc f.cold            f.cold:   ...  jmp back
    back:   ...

Compilers move unlikely code of a function elsewhere; it comes back into the middle. On x86-64 every byte is
tried as the start of an instruction: the result is a superset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from icf.columns import I64, U8, U64
from icf.elf.types import Machine
from icf.sets import distinct, is_in

if TYPE_CHECKING:
    from icf.image import AnyImage

_PADDING_BYTES = 8


def find_landings(image: AnyImage, starts: U64, ends: U64, parts: U64) -> I64:
    """Return the addresses outside of each function to which code of the functions at `parts` may jump, ascending."""
    rows = np.flatnonzero(is_in(starts, parts))
    codes = [
        bytes(image.read(start, end - start))
        for start, end in zip(starts[rows].tolist(), ends[rows].tolist(), strict=True)
    ]
    padding = bytes(_PADDING_BYTES)
    code = np.frombuffer(padding.join([*codes, b""]), np.uint8)
    sizes = np.array([len(part) for part in codes], np.int64)
    first = np.cumsum(sizes + _PADDING_BYTES) - sizes - _PADDING_BYTES  # of each part in `code`
    at, target = _aarch64(code) if image.machine is Machine.AARCH64 else _x86_64(code)
    part = np.searchsorted(first, at, side="right") - 1
    target -= first[part]
    leaves = (at - first[part] < sizes[part]) & ((target < 0) | (target >= sizes[part]))
    return distinct(target[leaves] + starts[rows].astype(np.int64)[part[leaves]])


def _x86_64(code: U8) -> tuple[I64, I64]:
    """Return where a `jmp` or `jcc` may be, and where it goes."""
    padded = np.append(code, np.zeros(_PADDING_BYTES, np.uint8))
    short = np.flatnonzero((code == 0xEB) | (code >> 4 == 7))
    near = np.flatnonzero((code == 0xE9) | (code >> 4 == 8) & (np.append(0, code[:-1]) == 0x0F))
    words = sum(padded[near + 1 + idx].astype(np.uint32) << np.uint32(8 * idx) for idx in range(4))
    distances = np.asarray(words, np.uint32).view(np.int32).astype(np.int64)
    targets = [short + 2 + padded[short + 1].view(np.int8).astype(np.int64), near + 5 + distances]
    return np.concatenate([short, near]), np.concatenate(targets)


def _aarch64(code: U8) -> tuple[I64, I64]:
    """Return the same for AArch64: `b`, `b.cond`, `cbz`, `tbz` and their kind."""
    words = code[: len(code) // 4 * 4].view("<u4")
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
    return np.concatenate(places), np.concatenate(targets)
