"""Frames: the functions at an address, those that are inlined there first, each with file and line.

One address of `right` below, in whose code the compiler has inlined `twice`, has two frames:

    Frame("twice", "a.c", 2, 77, True)       innermost first
    Frame("right", "a.c", 4, 61, False)      the function that has the machine code last
"""

from __future__ import annotations

from typing import NamedTuple

from icf.demangle import demangle


class Frame(NamedTuple):
    """One function at an address: the function that has the code, or one inlined there.

    Attributes:
        linkage_name: "" if it is not known.
        file: path; "" if it is not known.
        line: from 1; 0 if it is not known.
        column: from 1; 0 if it is not known.
        is_inlined: whether its code is inlined in the next frame.
    """

    linkage_name: str
    file: str
    line: int
    column: int
    is_inlined: bool

    @property
    def name(self) -> str:
        """The demangled name."""
        return demangle(self.linkage_name)


Frames = tuple[Frame, ...]  # innermost first, the function that has the machine code last
