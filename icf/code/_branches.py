# cython: language_level=3, boundscheck=True, wraparound=False
"""Finds every direct call or jump to given addresses in machine code.

On x86-64 each byte is tried as the start of an instruction: a call or jump with a 32-bit displacement that
lands exactly on a wanted address. So none is missed; a coincidence (bytes that are not an instruction) is
possible and rare, and callers treat a hit as "may jump there". Jumps with an 8-bit displacement are left
out: they lead to another function only inside of one input section, which linkers fold as a whole, and
two bytes match too often by chance. On AArch64 instructions are words.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._bytes import MASK, word
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.icf.code.branch_kinds import CALL, CONDITIONAL_JUMP, JUMP
else:
    from icf._bytes import MASK, word
    from icf._types import Bytes, u64
    from icf.code.branch_kinds import CALL, CONDITIONAL_JUMP, JUMP


@cython.ccall
def find_x86_64(
    text: Bytes,
    text_vaddr: u64,
    low: u64,
    call_bits: Bytes,
    jump_bits: Bytes,
    start: cython.size_t,
    out: u64[:, ::1],
    result: u64[::1],
) -> cython.int:
    """Find direct branches in `text`, which lies at `text_vaddr`, from position `start`.

    call_bits, jump_bits  bitmaps of wanted targets: bit (target - low)
    out                   u64[n, 3]: address after the instruction, target, kind
    result                u64[2]: rows stored, position to go on from (the end of text if all fitted)
    """
    size: cython.size_t = text.shape[0]
    call_size: u64 = call_bits.shape[0]
    jump_size: u64 = jump_bits.shape[0]
    i: cython.size_t = start
    count: cython.size_t = 0
    wanted: cython.uint
    byte: u64
    kind: u64
    at: cython.size_t
    end: u64
    target: u64
    with cython.nogil:
        while i + 5 <= size:
            byte = text[i]
            kind = 0
            at = i + 1
            if byte == 0xE8:
                kind = CALL
            elif byte == 0xE9:
                kind = JUMP
            elif byte == 0x0F and i + 6 <= size and text[i + 1] >> 4 == 8:
                kind = CONDITIONAL_JUMP
                at = i + 2
            if kind != 0:
                end = (text_vaddr + at + 4) & MASK
                target = (end + signed(word(text, at, 4), 32) - low) & MASK
                wanted = 0
                if kind == CALL:
                    if target >> 3 < call_size:
                        wanted = call_bits[target >> 3] >> (target & 7) & 1
                elif target >> 3 < jump_size:
                    wanted = jump_bits[target >> 3] >> (target & 7) & 1
                if wanted != 0:
                    if count >= out.shape[0]:
                        break
                    out[count, 0] = end
                    out[count, 1] = target + low
                    out[count, 2] = kind
                    count += 1
            i += 1
        if i + 5 > size:
            i = size
        result[0] = count
        result[1] = i
    return 0


@cython.ccall
def find_aarch64(
    text: Bytes,
    text_vaddr: u64,
    low: u64,
    call_bits: Bytes,
    jump_bits: Bytes,
    start: cython.size_t,
    out: u64[:, ::1],
    result: u64[::1],
) -> cython.int:
    """Find bl, b and b.cond, as `find_x86_64` finds branches."""
    size: cython.size_t = text.shape[0]
    call_size: u64 = call_bits.shape[0]
    jump_size: u64 = jump_bits.shape[0]
    i: cython.size_t = start
    count: cython.size_t = 0
    wanted: cython.uint
    top: cython.uchar
    kind: u64
    target: u64
    with cython.nogil:
        while i + 4 <= size:
            top = text[i + 3]
            kind = 0
            target = 0
            if top & 0x7C == 0x14:
                kind = CALL if top & 0x80 else JUMP
                target = signed((word(text, i, 4) & 0x3FFFFFF) << 2, 28)
            elif top == 0x54 and text[i] & 0x10 == 0:
                kind = CONDITIONAL_JUMP
                target = signed((word(text, i, 4) >> 5 & 0x7FFFF) << 2, 21)
            if kind != 0:
                target = (text_vaddr + i + target - low) & MASK
                wanted = 0
                if kind == CALL:
                    if target >> 3 < call_size:
                        wanted = call_bits[target >> 3] >> (target & 7) & 1
                elif target >> 3 < jump_size:
                    wanted = jump_bits[target >> 3] >> (target & 7) & 1
                if wanted != 0:
                    if count >= out.shape[0]:
                        break
                    out[count, 0] = (text_vaddr + i + 4) & MASK
                    out[count, 1] = target + low
                    out[count, 2] = kind
                    count += 1
            i += 4
        if i + 4 > size:
            i = size
        result[0] = count
        result[1] = i
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def signed(value: u64, bits: cython.uint) -> u64:
    """Return a signed number of so many bits as one of 64 bits."""
    sign: u64 = 1
    sign <<= bits - 1
    return ((value ^ sign) - sign) & MASK
