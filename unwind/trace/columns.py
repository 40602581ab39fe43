"""What `unwind.trace._records` makes of records.

    rows     u64[n, 3]: what a record is, its address, the target of an indirect branch
    codes    u64[m, 4]: address, first eight bytes, bytes after these, size; the instructions of a program, each once,
             and once more where its bytes changed
    places   u64[2 ** k, 2]: the latest code of an address, as a hash table (`unwind.samples.columns`)

The first word of a row:

    bits 0-7   type             8 IS_NEW: its bytes stand before it          16-31 size, or the kind of a marker
               of the record    9 IN_KERNEL: the kernel executed it          32-63 of an instruction: number of its code
"""

from __future__ import annotations

ROW_WIDTH, CODE_WIDTH = 3, 4
WHAT, ADDRESS, TARGET = range(3)
CODE_ADDRESS, CODE_LOW, CODE_HIGH, CODE_SIZE = range(4)

TYPE_MASK, IS_NEW, IN_KERNEL, SIZE_SHIFT, CODE_SHIFT = 0xFF, 0x100, 0x200, 16, 32
CODE_LIMIT = 1 << 22

# The state of a reader
(
    AT,  # in the block
    RECORDS,  # all records read
    INSTRUCTIONS,  # counted ones
    VISIBLE,  # records that tools count
    VERSION,
    FILETYPE,
    CHUNK_SIZE,
    TID,
    PID,
    TIME,
    CPU,
    ENCODING_BYTES,  # of the bytes that wait for their instruction
    ENCODING_LOW,
    ENCODING_HIGH,
    TARGET_WAITS,
    WAITING_TARGET,
    COPIES,  # 1 as long as time and processor at the start of a chunk are copies
    IN_KERNEL_NOW,  # 1 between SYSCALL_TRACE_START and _END, CONTEXT_SWITCH_START and _END
    FOOTER,  # 1 + the number of the chunk whose footer was the last record; 0: something else was
    CODE_COUNT,
    IS_SEEN,  # whether tools see the latest marker
    CODE,  # number of the latest instruction's
    WHY,
    BASE,  # 1: the ordinal of the next chunk is taken over, not checked
    WANTED,  # which rows are wanted: of KEEP_
    LIMIT,  # at this count of instructions it stops, before the next one and what belongs to it
    TIME_LIMIT,  # at this time it stops, before the marker that has it
    STATE_WIDTH,
) = range(28)
END_OF_TRACE = 0xFFFFFFFFFFFFFFFF  # in FOOTER
CHUNK_MASK = 0xFFFFFFFF
LAST_ADDRESS = 0xFFFFFFFFFFFFFFFF
NO_TIME = 0xFFFFFFFFFFFFFFFF  # of a core on which nothing ran yet; so is its processor

KEEP_INSTRUCTIONS, KEEP_DATA, KEEP_MARKERS, KEEP_KERNEL, KEEP_THREADS = 1, 2, 4, 8, 16

# Why it stopped
(
    NEEDS_BYTES,
    NEEDS_ROWS,
    NEEDS_CODES,
    AT_LIMIT,
    BAD_TYPE,
    BAD_VERSION,
    NO_HEADER,
    LONG_ENCODING,
    SIZE_OF_ENCODING,
    NO_ENCODING,
    NO_TARGET,
    BAD_ORDINAL,  # RECORD_ORDINAL
    BAD_ADDRESS,
) = range(13)
