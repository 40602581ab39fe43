"""The records of a symcache: the members of a body, and for each of them lines and inlined calls.

Numbers are LEB128, unsigned. Columns of fixed width find the records: entry i lies at `starts[i]` with `sizes[i]` bytes
(less the base in `meta`), `records[infos[i]:infos[i + 1]]` is its record:

    head      members << 3 | flags: 1 all members are known, 2 SIZED, 4 REST; no members: known to be in no function
    SIZED     size of the function, which other functions lie in: the entry ends before the first of them
    REST      only a number: how many entries before this one the function is that goes on here
    member    name, flags << 1 | 1 where it has aliases [number of aliases, their names], for all but the last
              member the size of the payload, payload

Names are numbers, files those in `fileoff` (where directory and base begin in `files`); 0 is none. `names` has blocks
of NAME_COUNT names, each name followed by NUL, and each compressed by zlib. `nameoff` has where each block begins
in `names`, and one more at the end. `hashes` are the CRC-32 of the names of members and aliases, ascending,
and `nameidx` the entries that they are of: these two find a name. A payload, empty without debug information, is:

    nodes     number of inlined calls, and for each: distance to its parent (number 0 is the function itself, 1 the
              first node), name, call file, call line
    rows      (address - that of the row before) << 2 | flags: 1 other node than before, 2 file and line in full
                1: (n << 1) | 1 the node that is n + 1 after the highest one so far; n << 1 its n-th ancestor; 0 number
                2: file, line; else zigzag of the line less the one this node had last, and the file is that one
              ends with a 0. A row holds up to the next one: the place where the innermost call is.
    columns   call column of each node; then address - that of the one before, column

Lines and inlined calls go into one stream since they change together, and a call that goes on after another is mostly
in the same file a few lines on: so a row costs three bytes. Where ranges of calls overlap, the last in order of DIEs
has the address, as in debuggers.
"""

from __future__ import annotations

from struct import Struct

ALL_KNOWN, SIZED, REST = 1, 2, 4
SELF = 0xFFFFFFFF  # no number of a name: where kernels return one, it stands for the function itself
NAME_BITS = 7  # of the number of a name: which it is of its block
NAME_COUNT = 1 << NAME_BITS  # some 16 KB of C++
DEPTH_LIMIT = 1024  # of inlined calls in inlined calls
META = Struct("<Q8I")  # base, width of addresses, entries, names, files, bytes of columns, three zeros
