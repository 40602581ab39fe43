"""Where the code after a symbol without a size becomes that of another function, which has no symbol.

    00af0  frame_dummy:  endbr64; jmp ...       the last symbol, without a size
    00afc                push %rbp ...          call frame information begins, and `call 0xafc` is elsewhere

A linker leaves code without a symbol where a weak definition lost to a strong one, and a local function was folded into
what is left of it; `strip -x` makes more. Compilers describe the frames of each function in an entry of `.eh_frame`,
so another function begins where an entry does. Where a symbol's own code has no entry, one begins at what a call calls,
too; assembly with such an entry may call places within.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from icf.code.branches import find_branches
from icf.columns import U64
from icf.dwarf.cfi.index import FdeIndex, find_eh_frame
from icf.elf.image import Image
from icf.errors import FormatError
from icf.sets import distinct

_MOST_BYTES = 1 << 22  # of code after such symbols, in which called places are searched


def ends_before_others(image: Image, starts: U64, ends: U64) -> U64:
    """Return where functions end, some of which may have others in them; ascending `starts` are those of symbols."""
    try:
        found = find_eh_frame(image)
        index = FdeIndex(*found) if found is not None else None
        described = index.starts() if index is not None else ends[:0]
    except FormatError:  # its frames are not known, either
        index, described = None, ends[:0]
    ends = _before(described, starts, ends)
    called = _called(image, starts, ends)
    for idx in np.flatnonzero(_before(called, starts, ends) < ends).tolist():
        own_end = _end_of_frames(index, int(starts[idx]))
        at = bisect_left(called.data, max(int(starts[idx]) + 1, own_end))
        ends[idx] = min([int(ends[idx]), *called[at : at + 1].tolist()])
    return ends


def _before(others: U64, starts: U64, ends: U64) -> U64:
    """Return the ends, or what comes first after each start of some ascending addresses."""
    if not len(others):
        return ends.copy()
    at = np.searchsorted(others, starts, side="right")
    return np.where(at < len(others), np.minimum(ends, others[np.minimum(at, len(others) - 1)]), ends)


def _called(image: Image, starts: U64, ends: U64) -> U64:
    """Return the places after the starts, before the ends, that something calls."""
    spans = [(low, high) for low, high in zip(starts.tolist(), ends.tolist(), strict=True) if high > low + 1]
    if not 0 < sum(high - low for low, high in spans) <= _MOST_BYTES:
        return ends[:0]
    inside = np.concatenate([np.arange(low + 1, high, dtype=np.uint64) for low, high in spans])
    try:
        return distinct(find_branches(image, inside, inside[:0]).target)
    except FormatError:  # its code is not read, either
        return ends[:0]


def _end_of_frames(index: FdeIndex | None, vaddr: int) -> int:
    """Return the end of what describes the frames of the code at an address; 0: nothing does."""
    try:
        fde = index.find(vaddr) if index is not None else None
    except FormatError:
        return 0
    return fde.high if fde is not None else 0
