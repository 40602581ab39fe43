"""The columns of records and samples, and of the layouts of samples, as the kernel has them.

A row is u64[ROW_WIDTH]: KIND, MISC, START and END of the contents in the bytes at hand; of a sample also EVENT (its
number, NONE if it is of none that is known), the fields of fixed size, REST: where what follows them begins, and
CHAIN_END: where a call chain that begins there ends. The reader stores SPACE, and as NODE the root of the process, in
whose place `find_nodes` stores the node of the stack.

A layout is u64[LAYOUT_WIDTH], one for each event: where in its samples a field is, NONE: not there.
"""

from __future__ import annotations

NONE = 0xFFFFFFFFFFFFFFFF

KIND, MISC, START, END, EVENT, IP, PID, TID, TIME, CPU, PERIOD, REST, CHAIN_END, SPACE, NODE = range(15)
ROW_WIDTH = 15

FIXED_BYTES, IP_AT, TID_AT, TIME_AT, CPU_AT, PERIOD_AT, PERIOD_ELSE, HAS_CHAIN = range(8)
LAYOUT_WIDTH = 8

# The state of `split`: in, and why it stopped
AT, ID_AT, WHY = range(3)
SPLIT_WIDTH = 3
NEEDS_BYTES, NEEDS_ROWS, TOO_SMALL, HAS_MORE = range(4)

# The state of `find_nodes`
WANTED_ADDRESS, WANTED_KEY, WANTED_ROW = range(3)
FIND_WIDTH = 3
DONE, NEEDS_FRAME, NEEDS_NODES = range(3)

# Spaces that are not of a process; those of processes follow
HYPERVISOR_SPACE, KERNEL_SPACE, GUEST_SPACE, GUEST_KERNEL_SPACE, GUEST_USER_SPACE, FIRST_USER_SPACE = range(6)
CHAIN_LIMIT = 8192  # a record has less than 64 KiB
