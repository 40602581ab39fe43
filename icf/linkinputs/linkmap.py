"""Link maps (`-Map=`): which objects and archive members a link read.

Only the lines of input sections matter; the four linkers write them like this:

    lld     1720     1720        f     1         libr.a(f.o):(.text.f)       after VMA, LMA, size, alignment
    mold    0x1690         15     1         libr.a(f.o):(.text.f)            after VMA, size, alignment
    gold     .text.f        0x0000000000000710        0xf libr.a(f.o)        the same in GNU ld
             .text._ZN4long4nameEv                                           on a line of its own if it is long
                            0x0000000000000720        0xf libr.a(f.o)

lld and mold indent by 8 more than the output section's line, and symbols by 16, which keeps a demangled
`operator()` apart from a file. The first two are recognized by their heading, gold and GNU ld by such lines.

lld and mold list only what is in the output: an input appears by any section of it, by debug
information if all its code was folded away, but not at all if none of it is left. gold and GNU ld list discarded
sections, too. Objects that the linker made from bitcode are in the list under their temporary names, although
most are gone when the link ends.
"""

from __future__ import annotations

import os
import re

from icf.elf.archive import map_file
from icf.errors import FormatError

_LLD_HEADING = re.compile(rb"^ *VMA +LMA +Size +Align +Out +In +Symbol", re.MULTILINE)
_MOLD_HEADING = re.compile(rb"^ *VMA +Size +Align +Out +In +Symbol", re.MULTILINE)
_LLD_LINE = re.compile(rb"^ *[0-9a-f]+ +[0-9a-f]+ +[0-9a-f]+ +[0-9]+ {9}([^ \n][^\n]*):\(", re.MULTILINE)
_MOLD_LINE = re.compile(rb"^ *(?:0x)?[0-9a-f]+ +[0-9]+ +[0-9]+ {9}([^ \n][^\n]*):\(", re.MULTILINE)
_GNU_LINE = re.compile(
    rb"^ [^* \r\n][^ \r\n]*(?:\r?\n)? +0x[0-9a-f]{8,16} +0x[0-9a-f]+ ([^ \r\n][^\r\n]*)", re.MULTILINE
)
_LINKER_MADE = frozenset((b"<internal>", b"linker stubs"))


def parse_link_map(path: str | os.PathLike[str]) -> list[str]:
    """Return the inputs, `a.o` or `lib.a(member.o)`, as the linker prints them, each once, in the order of the map."""
    path = os.fspath(path)
    text = map_file(path, may_be_pipe=True)
    if _LLD_HEADING.search(text):
        line = _LLD_LINE
    elif _MOLD_HEADING.search(text):
        line = _MOLD_LINE
    else:
        line = _GNU_LINE
    names = dict.fromkeys(match[1] for match in line.finditer(text))
    if not names and line is _GNU_LINE:
        raise FormatError(
            path, "link map", 0, "no line names an input section as the maps of lld, mold, gold and GNU ld do"
        )
    return [os.fsdecode(name) for name in names if name not in _LINKER_MADE]
