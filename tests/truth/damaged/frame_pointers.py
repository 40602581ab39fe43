"""Where a function has a frame pointer, by the call frame information of the image, as readelf prints it."""

from __future__ import annotations

import re
from bisect import bisect_right
from pathlib import Path

from tests.support.toolchain import run
from tests.truth.programs import find

FRAME_POINTERS = ("rbp+", "x29+")
ENTRY = re.compile(r".* FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)$")
ROW = re.compile(r"([0-9a-f]{16}) (\S+)")


class FramePointers:
    """The answers for one image."""

    def __init__(self, image: Path) -> None:
        # where it is known whether the frame pointer leads to the caller: a row, or the start or end of an entry
        rows: list[tuple[int, bool, bool]] = []
        end = 0
        for line in run(find("readelf"), "--debug-dump=frames-interp", image, check=False).stdout.splitlines():
            if entry := ENTRY.match(line):
                end = int(entry[2], 16)
                rows += [(int(entry[1], 16), False, False), (end, False, False)]
            elif end and (row := ROW.match(line)):
                rows.append((int(row[1], 16), True, row[2].startswith(FRAME_POINTERS)))
            elif not line.strip():
                end = 0
        rows.sort()  # of equal addresses the last counts
        self._starts, self._has_frame = [start for start, _, _ in rows], [has_frame for _, _, has_frame in rows]

    def has_frame(self, pc: int, is_exact: bool) -> bool:
        """Whether the frame pointer leads to the caller there; a call precedes the address if it is not exact."""
        row = bisect_right(self._starts, pc if is_exact else pc - 1) - 1
        return row >= 0 and self._has_frame[row]
