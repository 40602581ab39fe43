# cython: language_level=3, boundscheck=True, wraparound=False
"""Writes the answers to many addresses as bytes, from the arrays of `symcache.reader.many` and from prepared texts.

An answer is a row of parts: its head, then for each chain the text before it, its frames, the text after it. A part is
a row of items: a text, and a field of the frame. One loop writes all of them, as a call of a helper would cost as much
as a short text. It does not call back into Python, and stops at the address that does not fit into `out`.
"""

try:
    import cython
except ImportError:
    from icf import _nocython as cython

SELF = 0xFFFFFFFF  # as in _look_up.py
NUMBER_BYTES = 20
COPIED_ALONE = 32  # of fewer bytes each is copied on its own
NOTHING, NAME, FILE, LINE, LINE_OR_MARK, COLUMN, START, ADDRESS, LONG_ADDRESS, AROUND = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
HEAD, ONLY, FIRST, MIDDLE, LAST, BEFORE, BEHIND = 0, 1, 2, 3, 4, 5, 6
ALL, OWN = 0, 1


def write(
    asked, around, answers, chains, frames, starts, base, names, files, texts, ends, items, parts, shown, out, state
):  # fmt: skip
    """Write the answers from number state[0] on, and set it to the first that does not fit; return the size in bytes.

    around      u32[n]: the texts around an answer: of a function's own name, then before and after each
                chain; of NOTHING, the whole answer
    answers...  the results of `look_up`, and its inputs: `starts`, `base`
    names       u32[names]: the text of each, and so `files`
    texts       of text i the bytes from ends[i] to ends[i + 1]
    items       u32[k, 2]: a text, then the field that follows it; parts u32[8]: where each begins, and the last ends
    shown       ALL frames; else the innermost with the name of its OWN function, or of the innermost
    """
    count = asked.shape[0]
    room = out.shape[0]
    with cython.nogil:
        written = 0
        i = state[0]
        while i < count:
            at = written
            chain = answers[i, 1]
            last_chain = chain + answers[i, 2]
            start = base + starts[answers[i, 3]] if chain < last_chain else 0
            text_around = around[i]
            own_name = text_around
            name = own_name
            file = 0
            frame = 0
            last = 0
            part = HEAD
            fits = 1
            while fits != 0:
                # -- one part
                item = parts[part]
                while item < parts[part + 1] and fits != 0:
                    text = items[item, 0]
                    what = items[item, 1]
                    turn = 0
                    while turn < 2:  # the text of the item, and the text that follows it, if any
                        begin = ends[text]
                        size = ends[text + 1] - begin
                        if size > room - at:
                            fits = 0
                            break
                        if size >= COPIED_ALONE:
                            out[at : at + size] = texts[begin : begin + size]
                        else:
                            k = 0
                            while k < size:
                                out[at + k] = texts[begin + k]
                                k += 1
                        at += size
                        turn += 1
                        if what == NAME:
                            text = name
                        elif what == FILE:
                            text = file
                        elif what == AROUND:
                            text = text_around
                        else:
                            break
                    if fits != 0 and what >= LINE and what <= LONG_ADDRESS:
                        if room - at < NUMBER_BYTES:
                            fits = 0
                            break
                        radix = 10
                        width = 1
                        if what == LINE or what == LINE_OR_MARK:
                            value = frames[frame, 2]
                        elif what == COLUMN:
                            value = frames[frame, 3]
                        else:
                            value = start if what == START else asked[i]
                            radix = 16
                            width = 16 if what == LONG_ADDRESS else 1
                            out[at] = 48
                            out[at + 1] = 120  # 0x
                            at += 2
                        rest = value
                        digits = 1
                        while rest >= radix:
                            rest = rest // 10 if radix == 10 else rest >> 4
                            digits += 1
                        if digits < width:
                            digits = width
                        k = digits
                        while k > 0:
                            k -= 1
                            rest = value // 10 if radix == 10 else value >> 4
                            digit = value - rest * radix
                            out[at + k] = 48 + digit if digit < 10 else 87 + digit
                            value = rest
                        if what == LINE_OR_MARK and frames[frame, 2] == 0:
                            out[at] = 63  # ?
                        at += digits
                    item += 1
                # -- which one is next
                if part == HEAD:
                    part = BEFORE
                    if chain < last_chain:
                        text_around += 1
                elif part == BEFORE:
                    if chain == last_chain:
                        break
                    frame = chains[chain, 0]
                    last = chains[chain, 1]
                    part = ONLY if shown != ALL or frame + 1 == last else FIRST
                elif part == ONLY or part == LAST:
                    text_around += 1
                    part = BEHIND
                elif part == BEHIND:
                    chain += 1
                    if chain == last_chain:
                        break
                    text_around += 1
                    part = BEFORE
                else:
                    frame += 1
                    part = LAST if frame + 1 == last else MIDDLE
                if part != BEFORE and part != BEHIND:
                    of_name = frames[last - 1 if shown == OWN else frame, 0]
                    name = own_name if of_name == SELF else names[of_name]
                    file = files[frames[frame, 1]]
            if fits == 0:
                break
            written = at
            i += 1
        state[0] = i
    return written
