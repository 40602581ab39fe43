"""Records of drmemtrace: 12 bytes each, little-endian, without padding.

    u16 type, u16 size, u64 address

`size` is the length of an instruction, the bytes of an access, the kind of a marker; `address` is a program counter,
the address of data, the value of a marker, a thread's id. The bytes of an instruction stand before it:

    ENCODING     3  48 89 e7        bytes, low first; a second record has those after the eighth
    INSTRUCTION  3  0x7ff4374654d0

They are written where an instruction is first executed in a chunk, or its bytes have changed. An indirect branch
has its target before it, as the marker BRANCH_TARGET.

A zip file has chunks of CHUNK_INSTR_COUNT instructions, as members in order. Each but the first begins with
RECORD_ORDINAL and copies of the latest TIMESTAMP and CPU_ID; each but the last ends with CHUNK_FOOTER.

Source: DynamoRIO, clients/drcachesim/common/trace_entry.h.
"""

from __future__ import annotations

RECORD_BYTES = 12
LAST_VERSION = 7
LONGEST_BYTES = 15  # of an instruction

# Types of records. Those of instructions that count for ordinals: 10 to 16, 31, 48, 49.
READ, WRITE = 0, 1
INSTRUCTION, DIRECT_JUMP, INDIRECT_JUMP, CONDITIONAL_JUMP, DIRECT_CALL, INDIRECT_CALL, RETURN, BUNDLE = range(10, 18)
THREAD, THREAD_EXIT, PID, HEADER, FOOTER = range(22, 27)
MARKER = 28
NO_FETCH = 29  # a further round of a `rep` instruction
SYSENTER = 31
ENCODING, TAKEN_JUMP, UNTAKEN_JUMP = 47, 48, 49
TYPE_COUNT = 50

# Kinds of markers
KERNEL_EVENT, KERNEL_XFER, TIMESTAMP, CPU_ID = range(4)
FILETYPE, VERSION, RSEQ_ABORT, WINDOW_ID = 9, 12, 13, 14
CHUNK_INSTR_COUNT, CHUNK_FOOTER, RECORD_ORDINAL = 20, 21, 22
SYSCALL, SYSCALL_TRACE_START, SYSCALL_TRACE_END, BRANCH_TARGET = 25, 27, 28, 29
CORE_WAIT, CORE_IDLE = 32, 33  # of a core-sharded trace: nothing runs on it
CONTEXT_SWITCH_START, CONTEXT_SWITCH_END = 34, 35

# Bits of FILETYPE
IS_AARCH64, IS_ARM32, IS_X86_32, IS_X86_64 = 0x8, 0x10, 0x20, 0x40
IS_FILTERED, IS_INSTRUCTION_FILTERED, IS_DATA_FILTERED = 0x1, 0x80, 0x100
HAS_ENCODINGS = 0x200
IS_CORE_SHARDED, IS_REGDEPS = 0x10000, 0x20000
