"""What `unwind.trace._stacks` keeps: the stack of a thread, paths of calls, and how often each instruction ran on each.

    frames   u64[n, 5]: the calls that have not returned, the outermost first
    sites    u64[m, 5]: calls by return address, and by the place that the called address was loaded from
    nodes    u64[k]: node of the caller << 32 | number of the site; node 0: callers are not known
    counts   (node << 32 | number of the code) to how often it ran; a hash table, as those of sites and nodes are

Where the stack was left otherwise than by a return (longjmp, exceptions, coroutines), what is on it is hidden: frames
from `HIDDEN` on outwards are kept, but are not callers, until a return or the stack pointer shows which are alive.
"""

from __future__ import annotations

# A frame: where it returns to, the node and the count of hidden frames before the call, where the return address was
# stored (0: not known), whether it is a signal's
FRAME_RETURN, FRAME_NODE, FRAME_HIDDEN, FRAME_SLOT, FRAME_IS_SIGNAL = range(5)
FRAME_WIDTH = 5

SITE_RETURN, SITE_LOAD, SITE_CODE, SITE_NODE, SITE_DEPTH = range(5)
SITE_WIDTH = 5

(
    ROW,
    WHY,
    DEPTH,
    HIDDEN,
    NODE,
    NODE_COUNT,
    COUNT_COUNT,
    SITE_COUNT,
    WAITS_FOR,  # of WAIT_
    WAITING_RETURN,  # where the latest return went
    WAITING_SLOT,  # of the frame that it left; 0: not known
    WAITING_CODE,  # of the latest call; with IS_INDIRECT
    WAITING_LOAD,  # where the called address was loaded from; 0: not known
    WAS_ABORT,  # whether the latest marker was RSEQ_ABORT
    TID,
    LOST,  # how often callers became unknown
    STATE_WIDTH,
) = range(17)

NO_WAIT, WAIT_CALL, WAIT_RETURN, WAIT_TARGET_OF_RETURN, WAIT_TARGET_OF_JUMP = range(5)
NEEDS_ROWS, NEEDS_ROOM, NEEDS_FRAMES, OTHER_THREAD = range(4)
SEARCHED = 4096  # frames, for where a return went
SITE_BITS = 32
IS_INDIRECT, CODE_MASK = 0x100000000, 0xFFFFFFFF
