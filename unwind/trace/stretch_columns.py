"""What `unwind.trace._stretches` finds of one stretch: the records of a thread without a switch to another.

A place is `NO_PLACE` if no record has one, `SOME_PLACE` if what the thread did there does not say where it went on.
"""

from __future__ import annotations

(
    HAS_BEGUN,
    IS_IDLE,  # nothing ran since the core waited
    TID,
    PID,
    FIRST,  # kind of the place that it begins with
    FIRST_ADDRESS,
    LAST,  # kind of the place that it ends with: that of its last instruction
    LAST_WHAT,
    LAST_ADDRESS,
    LAST_TARGET,
    WAS_CALL_OF_SYSTEM,  # which the kernel may have begun again
    FIRST_TIME,  # 0: it has no time
    LAST_TIME,
    HAS_EXIT,  # whether the thread has ended
    CPU,  # 1 + the processor of the latest marker; 0: none was yet
    HAS_SEVERAL_CPUS,  # whether the file has markers of several
    IS_UNEVEN,  # whether it can have left another stack than it began with, whatever the next fields say
    OPEN,  # how many of its calls have not returned
    LEFT,  # how many frames that it began with it has returned from
    AFTER,  # of AFTER_: what the latest instruction was
    EXPECTED,  # where the latest return reads its address; 0: not known
    FIRST_OPEN,  # where they return to, the outermost first; with INDIRECT
) = range(22)

MOST_CALLS = 64
FIRST_OPEN_SLOT = FIRST_OPEN + MOST_CALLS  # where these return addresses were stored; 0: not known
FIRST_LEFT = FIRST_OPEN_SLOT + MOST_CALLS  # where they returned to, in order
FIRST_LEFT_SLOT = FIRST_LEFT + MOST_CALLS  # where these return addresses were read; 0: not known
STATE_WIDTH = FIRST_LEFT_SLOT + MOST_CALLS
INDIRECT = 1 << 63
NO_CALL, AFTER_CALL, AFTER_RETURN, AFTER_LEAVING = range(4)

NO_PLACE, KNOWN_PLACE, SOME_PLACE = range(3)
