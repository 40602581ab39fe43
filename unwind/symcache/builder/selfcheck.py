"""Checks that a symcache can be read, before it is kept or used: its readers refuse what breaks a rule.

An image may hold what a record cannot. Such an image is refused once, here, not at each address.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from icf.errors import FormatError
from unwind.symcache.format.records import META
from unwind.symcache.reader._decode import check_records

_FAULT, _NEED, _ROOM = 1, 2, 3  # in its state


def check_sections(sections: Mapping[str, bytes], path: str) -> None:
    """Raise FormatError if `SymCache` refuses a record of these sections."""
    _, width, entry_count, name_count, *_ = META.unpack(sections["meta"])
    starts = np.frombuffer(sections["starts"], np.dtype(f"u{width}")).astype(np.uint64)
    infos = np.frombuffer(sections["infos"], np.uint32)
    table, numbers = np.zeros(512, np.uint64), np.zeros(1 << 12, np.uint64)
    nodes, state = np.zeros((8, 256), np.uint32), np.zeros(16, np.uint64)
    nothing, nowhere = np.zeros(0, np.uint64), np.zeros((4, 0), np.uint32)
    entry = 0
    while True:
        entry = check_records(
            sections["records"], infos, entry, name_count, nothing, table, state, numbers, nodes, nowhere
        )
        if entry == entry_count:
            return
        match int(state[_NEED]):
            case 1:
                table = np.zeros(16 * len(table), np.uint64)
            case 2:
                numbers = np.zeros(2 * int(state[_ROOM]), np.uint64)
            case 3:
                nodes = np.zeros((8, 2 * int(state[_ROOM])), np.uint32)
            case _:
                vaddr = META.unpack(sections["meta"])[0] + int(starts[entry])
                problem = f"the function at {vaddr:#x} does not fit the record of a symcache"
                raise FormatError(path, "symcache", max(int(state[_FAULT]) - 1, 0), problem)
