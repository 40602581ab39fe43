"""Checks that a symcache can be read, before it is kept or used: its readers refuse what breaks a rule.

An image may hold what a record cannot. Such an image is refused once, here, not at each address.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from icf.errors import FormatError
from unwind.symcache.format.container import SectionBytes
from unwind.symcache.format.records import META
from unwind.symcache.reader import columns as col
from unwind.symcache.reader._decode import check_records


def check_sections(sections: Mapping[str, SectionBytes], path: str) -> None:
    """Raise FormatError if `SymCache` refuses a record of these sections."""
    _, width, entry_count, name_count, *_ = META.unpack(sections["meta"])
    starts = np.frombuffer(sections["starts"], np.dtype(f"u{width}")).astype(np.uint64)
    infos = np.frombuffer(sections["infos"], np.uint32)
    table, numbers = np.zeros(512, np.uint64), np.zeros(1 << 12, np.uint64)
    nodes, state = np.zeros((col.NODE_HEIGHT, 256), np.uint32), np.zeros(16, np.uint64)
    entry = 0
    while True:
        entry = check_records(memoryview(sections["records"]), infos, entry, name_count, table, state, numbers, nodes)
        if entry == entry_count:
            return
        match int(state[col.NEED]):
            case col.TABLE_ROOM:
                table = np.zeros(16 * len(table), np.uint64)
            case col.NUMBER_ROOM:
                numbers = np.zeros(2 * int(state[col.ROOM]), np.uint64)
            case col.NODE_ROOM:
                nodes = np.zeros((col.NODE_HEIGHT, 2 * int(state[col.ROOM])), np.uint32)
            case _:
                vaddr = META.unpack(sections["meta"])[0] + int(starts[entry])
                problem = f"the function at {vaddr:#x} does not fit the record of a symcache"
                raise FormatError(path, "symcache", max(int(state[col.FAULT]) - 1, 0), problem)
