# cython: language_level=3, boundscheck=True, wraparound=False
"""The answers to many addresses as bytes, from the arrays of `symcache.reader.many` and from texts that are made once.

`marks` says what an answer is made of. The kernel does not call back into Python, and stops at the address that does
not fit into `out`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from icf import _nocython as cython

if cython.compiled:
    from cython.cimports.icf._types import Bytes, u64
    from cython.cimports.unwind.symbolize import marks as mark
    from cython.cimports.unwind.symcache.format.records import SELF
    from cython.cimports.unwind.symcache.reader import columns as col
else:
    from icf._types import Bytes, u64
    from unwind.symbolize import marks as mark
    from unwind.symcache.format.records import SELF
    from unwind.symcache.reader import columns as col


@cython.ccall
def write(
    asked: cython.const[u64][::1],
    around: cython.const[cython.uint][::1],
    answers: cython.const[u64][:, ::1],
    chains: cython.const[cython.uint][:, ::1],
    frames: cython.const[cython.uint][:, ::1],
    starts: cython.const[u64][::1],
    base: u64,
    names: cython.const[cython.uint][::1],
    files: cython.const[cython.uint][::1],
    texts: Bytes,
    ends: cython.const[u64][::1],
    items: cython.const[cython.uint][:, ::1],
    parts: cython.const[cython.uint][::1],
    shown: cython.int,
    out: cython.uchar[::1],
    state: u64[::1],
) -> cython.size_t:
    """Write the answers from number state[0] on, which becomes the first that does not fit; return how many bytes.

    around      u32[n]: the text around what is at an address: of a function's own name, then before and after each
                chain; where no function is, all there is to say
    answers...  what `look_up` found, and what it found it in: `starts`, `base`
    names       u32[names]: the text of each, and so `files`
    texts       of text i the bytes from ends[i] to ends[i + 1]
    items       u32[k, 2]: what it is, and the text of a TEXT; parts u32[8]: where each begins, and the last ends
    shown       ALL, OWN or INNERMOST
    """
    count: cython.size_t = asked.shape[0]
    written: cython.size_t = 0
    i: cython.size_t = state[0]
    at: cython.size_t
    chain: cython.size_t
    last_chain: cython.size_t
    start: u64
    text_around: cython.size_t
    own_name: cython.size_t
    name: cython.size_t
    file: cython.size_t
    frame: cython.size_t
    last: cython.size_t
    part: cython.size_t
    item: cython.size_t
    what: u64
    text: cython.size_t
    begin: cython.size_t
    size: cython.size_t
    of_name: u64
    value: u64
    room: cython.size_t = out.shape[0]
    with cython.nogil:
        while i < count:
            at = written
            chain = answers[i, col.FIRST_CHAIN]
            last_chain = chain + answers[i, col.CHAINS]
            start = base + starts[answers[i, col.ENTRY]] if chain < last_chain else 0
            text_around = around[i]
            own_name = text_around
            name = own_name
            file = 0
            frame = 0
            last = 0
            part = mark.HEAD
            while True:
                item = parts[part]
                while item < parts[part + 1]:
                    what = items[item, 0]
                    if what <= mark.AROUND:
                        text = items[item, 1]
                        if what == mark.NAME:
                            text = name
                        elif what == mark.FILE:
                            text = file
                        elif what == mark.AROUND:
                            text = text_around
                        begin = ends[text]
                        size = ends[text + 1] - begin
                        if size > room - at:
                            at = room + 1
                        elif size > mark.SHORT_TEXT:  # here, as each function with slices of arrays clears 400 bytes
                            out[at : at + size] = texts[begin : begin + size]
                            at += size
                        else:
                            size += begin
                            while begin < size:
                                out[at] = texts[begin]
                                at += 1
                                begin += 1
                    elif what <= mark.COLUMN:
                        value = frames[frame, col.FRAME_COLUMN if what == mark.COLUMN else col.FRAME_LINE]
                        at = put_decimal(value, what == mark.LINE_OR_MARK, out, at)
                    else:
                        value = start if what == mark.START else asked[i]
                        at = put_address(value, 16 if what == mark.LONG_ADDRESS else 1, out, at)
                    if at > room:
                        break
                    item += 1
                if at > room:
                    break
                # -- which part is next
                if part == mark.HEAD:
                    part = mark.BEFORE
                    if chain < last_chain:
                        text_around += 1
                elif part == mark.BEFORE:
                    if chain == last_chain:
                        break
                    frame = chains[chain, col.FIRST_FRAME]
                    last = chains[chain, col.LAST_FRAME]
                    part = mark.ONLY if shown != mark.ALL or frame + 1 == last else mark.FIRST
                elif part == mark.ONLY or part == mark.LAST:
                    text_around += 1
                    part = mark.BEHIND
                elif part == mark.BEHIND:
                    chain += 1
                    if chain == last_chain:
                        break
                    text_around += 1
                    part = mark.BEFORE
                else:
                    frame += 1
                    part = mark.LAST if frame + 1 == last else mark.MIDDLE
                if part != mark.BEFORE and part != mark.BEHIND:
                    of_name = frames[last - 1 if shown == mark.OWN else frame, col.FRAME_NAME]
                    name = own_name if of_name == SELF else names[of_name]
                    file = files[frames[frame, col.FRAME_FILE]]
            if at > room:
                break
            written = at
            i += 1
        state[0] = i
    return written


@cython.cfunc
@cython.nogil
@cython.inline
def put_decimal(value: u64, is_marked: cython.bint, out: cython.uchar[::1], at: cython.size_t) -> cython.size_t:
    """Write a decimal number, 0 as ? if it is marked; return where it ends, beyond `out` if it may not fit."""
    room: cython.size_t = out.shape[0]
    rest: u64 = value
    end: cython.size_t = at + 1
    k: cython.size_t
    if room - at < mark.NUMBER_BYTES:
        return room + 1
    if is_marked and value == 0:
        out[at] = ord("?")
        return end
    while rest >= 10:
        rest //= 10
        end += 1
    k = end
    while k > at:
        k -= 1
        rest = value // 10
        out[k] = ord("0") + value - rest * 10
        value = rest
    return end


@cython.cfunc
@cython.nogil
@cython.inline
def put_address(value: u64, width: cython.size_t, out: cython.uchar[::1], at: cython.size_t) -> cython.size_t:
    """Write 0x and at least `width` digits; return where they end, beyond `out` if they may not fit."""
    room: cython.size_t = out.shape[0]
    rest: u64 = value >> 4
    digit: u64
    end: cython.size_t = at + 3
    k: cython.size_t
    if room - at < mark.NUMBER_BYTES:
        return room + 1
    out[at] = ord("0")
    out[at + 1] = ord("x")
    at += 2
    while rest != 0:
        rest >>= 4
        end += 1
    if end - at < width:
        end = at + width
    k = end
    while k > at:
        k -= 1
        digit = value & 15
        out[k] = ord("0") + digit if digit < 10 else ord("a") - 10 + digit
        value >>= 4
    return end
