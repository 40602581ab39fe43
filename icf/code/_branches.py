# cython: language_level=3, boundscheck=True, wraparound=False
"""Finds every direct call or jump to given addresses in machine code.

On x86-64 each byte is tried as the start of an instruction: a call or jump with a 32-bit displacement that
lands exactly on a wanted address. So none is missed; a coincidence (bytes that are no instruction) is
possible and rare, and callers treat what is found as "may jump there". Jumps with an 8-bit displacement are left
out: they lead to another function only inside of one input section, which linkers fold as a whole, and as
single bytes they would be found where there are none. On AArch64 instructions are words.
"""

try:
    import cython
except ImportError:
    from icf import _nocython as cython


SIGN = 1 << 32  # what a displacement with its top bit set is too large by
MASK = 0xFFFFFFFFFFFFFFFF  # addresses wrap


def find_x86_64(text, text_vaddr, low, call_bits, jump_bits, start, out, result):
    """Direct branches in `text`, which lies at `text_vaddr`, from position `start`.

    call_bits, jump_bits  bitmaps of wanted targets: bit (target - low)
    out                   u64[n, 3]: address after the instruction, target, kind: 1 call, 2 jump, 3 conditional jump
    result                u64[2]: rows stored, position to go on from (the end of text if all fitted)
    """
    size = text.shape[0]
    count = 0
    call_limit = call_bits.shape[0] * 8
    jump_limit = jump_bits.shape[0] * 8
    with cython.nogil:
        i = start
        while i + 5 <= size:
            b = text[i]
            kind = 0
            at = i + 1
            if b == 0xE8:
                kind = 1
            elif b == 0xE9:
                kind = 2
            elif b == 0x0F and i + 6 <= size and text[i + 1] >> 4 == 8:
                kind = 3
                at = i + 2
            if kind != 0:
                target = text[at] | text[at + 1] << 8 | text[at + 2] << 16
                top = text[at + 3]
                # sign extension: the displacement is a signed 32-bit number
                end = (text_vaddr + at + 4) & MASK
                target = (end + target + (top << 24) - (SIGN if top >= 128 else 0) - low) & MASK
                if kind == 1:
                    if target < call_limit and call_bits[target >> 3] >> (target & 7) & 1:
                        if count >= out.shape[0]:
                            break
                        out[count, 0] = end
                        out[count, 1] = target + low
                        out[count, 2] = kind
                        count += 1
                elif target < jump_limit and jump_bits[target >> 3] >> (target & 7) & 1:
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


def find_aarch64(text, text_vaddr, low, call_bits, jump_bits, start, out, result):
    """As `find_x86_64`, for A64: bl, b, b.cond."""
    size = text.shape[0]
    count = 0
    call_limit = call_bits.shape[0] * 8
    jump_limit = jump_bits.shape[0] * 8
    with cython.nogil:
        i = start
        while i + 4 <= size:
            top = text[i + 3]
            kind = 0
            target = 0
            if top & 0xFC == 0x94 or top & 0xFC == 0x14:
                kind = 1 if top & 0x80 else 2
                target = text[i] | text[i + 1] << 8 | text[i + 2] << 16 | (top & 3) << 24
                target = target * 4 - (1 << 28 if top & 2 else 0)
            elif top == 0x54 and text[i] & 0x10 == 0:
                kind = 3
                target = text[i] | text[i + 1] << 8 | text[i + 2] << 16
                target = (target >> 5) * 4 - (1 << 21 if text[i + 2] & 0x80 else 0)
            if kind != 0:
                target = (text_vaddr + i + target - low) & MASK
                wanted = 0
                if kind == 1:
                    if target < call_limit:
                        wanted = call_bits[target >> 3] >> (target & 7) & 1
                elif target < jump_limit:
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
